import assert from "node:assert/strict";
import { untilStopped } from "../../lib/async/testing.ts";
import type { ClientPod } from "../../roles/coil_egress/clients/client_pod.ts";
import { ClientWatcher } from "../../roles/coil_egress/clients/client_watcher.ts";
import { eventually } from "../lab/mod.ts";
import { ClientsController } from "./clients_controller.ts";
import { coilCommand } from "./coild_lab.ts";
import {
  assertClients,
  CLIENT,
  EGRESS,
  EGRESS_KEY,
  EgressLab,
  NAMESPACE,
  SLICES_PATH,
  untilReady,
} from "./egress_gateway_lab.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egressleaders");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

Deno.test("two leaders at once write each client once", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await using _first = await lab.controller.use(EGRESS_KEY);
  const rival = await ClientsController.on(lab.plane, { hasLease: false });
  await using _second = await rival.use(EGRESS_KEY);
  const names = Array.from({ length: 150 }, (_, n) => `pod-${n}`);
  await Promise.all(
    names.map((name) => lab.createPod(name, { annotations: CLIENT })),
  );
  await Promise.all(
    names.slice(0, 75).map((name) => lab.deletePod(name)),
  );
  const wanted = names.slice(75).sort().join();
  await eventually("the rest, each once", async () => {
    return (await lab.clientNames()).join() === wanted;
  });
});

async function filledSlices() {
  const all = await lab.slices();
  return all.filter(({ clients = [] }) => clients.length > 0);
}

/** As often as makes leaders that lose clients fail nearly always. */
const ROUNDS = 3;

/** How far one leader is behind the other: longer than a write takes. */
const LATE_MS = 15;

/** Reads slices as a gateway does; the result has each pod that lost an address, or went. */
async function watchLosses(signal: AbortSignal): Promise<string[]> {
  const losses: string[] = [];
  const served = new Map<string, ClientPod>();
  const client = await lab.gatewayClient();
  const watcher = new ClientWatcher({
    client,
    egress: { namespace: NAMESPACE, name: EGRESS },
    onChange: ({ uid, pod }) => {
      const { name = "", addresses = [] } = served.get(uid) ?? {};
      const after = pod?.addresses.map(String) ?? [];
      const isLess = addresses.some((a) => !after.includes(a.toString()));
      if (pod === undefined || isLess) losses.push(name);
      if (pod !== undefined) served.set(uid, pod);
    },
  });
  const { promise: synced, resolve } = Promise.withResolvers<void>();
  void untilStopped(watcher.run(signal, resolve), signal).finally(() => {
    watcher[Symbol.dispose]();
    client.close();
  });
  await synced;
  return losses;
}

Deno.test("with two leaders at once a gateway loses no client that stays", async (t) => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await using gateway = await lab.startGateway({ lostMs: 20_000 });
  const rival = await ClientsController.on(lab.plane, {
    hasLease: false,
    lateMs: LATE_MS,
  });
  await using _second = await rival.use(EGRESS_KEY);
  await untilReady(gateway);
  const stop = new AbortController();
  _pods.defer(() => stop.abort());
  const losses = await watchLosses(stop.signal);
  const { kernel } = gateway;
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  const staying = numbers.filter((n) => n % 4 === 0);
  const leaving = numbers.filter((n) => n % 4 !== 0);
  const stay = staying.map((n) => `10.1.5.${n}`);
  const start = (numbers: readonly number[]) =>
    Promise.all(
      numbers.map((n) =>
        lab.runPod(`pod-${n}`, [`10.1.5.${n}`], { annotations: CLIENT })
      ),
    );
  const leave = () =>
    Promise.all(leaving.map((n) => lab.deletePod(`pod-${n}`)));
  const isServing = (name: string) =>
    t.step(name, async () => {
      await eventually("fewer slices", async () => {
        return (await filledSlices()).length <= 2;
      });
      await assertClients(kernel, stay);
      const names = staying.map((n) => `pod-${n}`);
      assert.deepEqual(losses.filter((name) => names.includes(name)), []);
      assert.deepEqual(stay.filter((a) => kernel.removed.has(a)), []);
    });

  await start(staying);
  for (let round = 1; round <= ROUNDS; round++) {
    await start(leaving);
    await assertClients(kernel, numbers.map((n) => `10.1.5.${n}`));
    // So few are left that slices are put together.
    await leave();
    await isServing(`when most others go, round ${round}`);
  }
  for (let round = 1; round <= ROUNDS; round++) {
    await start(leaving);
    // A leader may delete one as well, where two have become one.
    await eventually("a slice to delete", async () => {
      const [slice] = await filledSlices();
      const path = `${SLICES_PATH}/${slice?.metadata.name}`;
      return await lab.plane.request("DELETE", path);
    });
    await leave();
    await isServing(`when a slice is deleted by hand, too, round ${round}`);
  }
});

Deno.test("a leader that hangs until another leads, and goes on, harms no client", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  const [command, ...args] = coilCommand("coil-controller");
  await using former = await lab.plane.startProcess({
    command,
    args: [...args, "--metrics-addr=0", "--health-addr=0"],
    serviceAccount: { namespace: "kube-system", name: "coil-controller" },
  });
  const stop = new AbortController();
  _pods.defer(() => stop.abort());
  const losses = await watchLosses(stop.signal);
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  const run = (numbers: readonly number[]) =>
    Promise.all(
      numbers.map((n) =>
        lab.runPod(`hung-${n}`, [`10.1.6.${n}`], { annotations: CLIENT })
      ),
    );
  await run(numbers.slice(0, 200));
  await eventually("their slices", async () => {
    return (await lab.clientNames()).length === 200;
  });
  // In the midst of its writes.
  const more = run(numbers.slice(200));
  await eventually("more of them", async () => {
    return (await lab.clientNames()).length > 200;
  }, { intervalMs: 2 });
  former.signal("SIGSTOP");
  await more;
  await using _controller = await lab.controller.use(EGRESS_KEY);
  const isStaying = (n: number) => n % 5 === 0;
  const leaving = numbers.filter((n) => !isStaying(n));
  await Promise.all(leaving.map((n) => lab.deletePod(`hung-${n}`)));
  const names = numbers.filter(isStaying).map((n) => `hung-${n}`).sort();
  const isDone = async () =>
    (await lab.clientNames()).join() === names.join() &&
    (await filledSlices()).length === 1;
  await eventually("those that stay, together", isDone);
  former.signal("SIGCONT");
  await eventually("it to know that it leads no longer", async () => {
    const text = await Deno.readTextFile(former.logFile);
    return text.split("\n").some((line) =>
      line.includes("Lost the lease") && line.includes("coil-egress-leader")
    );
  });
  await run(leaving.slice(0, 20));
  await Promise.all(
    leaving.slice(0, 20).map((n) => lab.deletePod(`hung-${n}`)),
  );
  await eventually("the same again", isDone);
  assert.deepEqual(losses.filter((name) => names.includes(name)), []);
});
