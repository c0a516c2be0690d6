import assert from "node:assert/strict";
import { heapCollector } from "../../lib/linux/mod.ts";
import { eventually } from "../lab/mod.ts";
import { COIL_API } from "./crds.ts";
import {
  CLIENT,
  EGRESS,
  EgressLab,
  NAMESPACE,
  reportMs,
  untilReady,
} from "./egress_gateway_lab.ts";

const CLIENTS = 1_000;
const OTHERS = 10_000;
/** What the others may cost; the names alone of so many would take as much. */
const LIMIT_BYTES = 2 ** 20;

/** What 10,000 clients may cost: a gateway is to stay below 70 MiB in all. */
const CLIENTS_LIMIT_MIB = 24;

const collect = heapCollector();

/** Does something for each number below the count, many at once. */
async function forEach(
  count: number,
  act: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: 32 }, work));
}

function usedBytes(): number {
  collect();
  return Deno.memoryUsage().heapUsed;
}

Deno.test("coil-egress takes 1,000 clients in one go, and keeps nothing of 10,000 other pods", async (t) => {
  await using lab = await EgressLab.start("egressscale");
  await forEach(CLIENTS, async (n) => {
    const address = `10.2.${n >> 8}.${n & 255}`;
    await lab.runPod(`client-${n}`, [address], { annotations: CLIENT });
  });

  // The first gateway of this process also loads what reads a kubeconfig.
  await t.step("a burst while the kernel is busy is one change", async () => {
    await using gateway = await lab.startGateway();
    const { kernel } = gateway;
    await untilReady(gateway);
    const { promise, resolve: open } = Promise.withResolvers<void>();
    kernel.gate = promise;
    await forEach(200, (n) => lab.setStatus(`client-${n}`, [`10.3.0.${n}`]));
    await eventually("all to be known, while it waits", async () => {
      const lines = await gateway.metrics("coil_egress_client_pod_info");
      return lines.filter((line) => line.includes('"10.3.0.')).length === 200;
    });
    open();
    await eventually(
      "the burst",
      () =>
        [...kernel.clients].filter((c) => c.startsWith("10.3.")).length ===
          200,
    );
    assert.equal(kernel.clients.size, CLIENTS);
    assert.ok(kernel.calls.length <= 3, kernel.calls.join("\n"));
  });

  let aloneBytes = 0;
  await t.step("1,000 clients at the start", async () => {
    await costBytes(lab);
    aloneBytes = await costBytes(lab);
  });

  await t.step("10,000 other pods cost nothing", async () => {
    await forEach(OTHERS, (n) => lab.createPod(`other-${n}`));
    await costBytes(lab);
    const moreBytes = await costBytes(lab) - aloneBytes;
    assert.ok(moreBytes < LIMIT_BYTES, `${moreBytes} bytes more`);
  });
});

Deno.test("coil-egress begins with 10,000 clients in 100 slices", async () => {
  await using lab = await EgressLab.start("egressslicesof100");
  const addressOf = (n: number) => `10.4.${n >> 8}.${n & 255}`;
  const path = `${COIL_API}/namespaces/${NAMESPACE}/egressclientslices`;
  await forEach(100, async (number) => {
    const clients = Array.from({ length: 100 }, (_, i) => {
      const n = 100 * number + i;
      return {
        namespace: "team",
        name: `client-${n}`,
        uid: crypto.randomUUID(),
        nodeName: `node-${n % 1_000}`,
        addresses: [addressOf(n)],
      };
    });
    await lab.plane.request("POST", path, {
      apiVersion: "coil.cybozu.com/v2",
      kind: "EgressClientSlice",
      metadata: {
        name: `${EGRESS}-${number}`,
        labels: { "app.kubernetes.io/instance": EGRESS },
      },
      clients,
    });
  });
  const beforeBytes = usedBytes();
  const startMs = performance.now();
  await using gateway = await lab.startGateway({ isAlone: true });
  await untilReady(gateway);
  reportMs("from the start to 10,000 clients", [performance.now() - startMs]);
  const { kernel } = gateway;
  assert.deepEqual(kernel.calls, ["set 10000"]);
  assert.ok(kernel.clients.has(addressOf(9_999)));
  const moreMiB = (usedBytes() - beforeBytes) / 2 ** 20;
  // deno-lint-ignore no-console -- a figure for anyone who runs the tests
  console.log(`  it holds ${moreMiB.toFixed(1)} MiB more`);
  assert.ok(moreMiB < CLIENTS_LIMIT_MIB, `${moreMiB} MiB more`);
});

/**
 * Starts a gateway and returns what the process holds more with it. The first
 * one after a change also pays for what stays: compiled code, connections.
 */
async function costBytes(lab: EgressLab): Promise<number> {
  const beforeBytes = usedBytes();
  const startMs = performance.now();
  await using gateway = await lab.startGateway();
  await untilReady(gateway);
  reportMs(`from the start to ${CLIENTS} clients`, [
    performance.now() - startMs,
  ]);
  assert.deepEqual(gateway.kernel.calls, [`set ${CLIENTS}`]);
  assert.equal(gateway.kernel.clients.size, CLIENTS);
  const moreBytes = usedBytes() - beforeBytes;
  const [count] = await gateway.metrics("coil_egress_client_pod_count");
  assert.match(count ?? "", / 1000$/);
  return moreBytes;
}
