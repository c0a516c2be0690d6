import assert from "node:assert/strict";
import {
  type Announcement,
  formatAnnouncement,
  parseRefusal,
} from "../../lib/announce/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/mod.ts";
import { ClientsKernel } from "./clients_kernel.ts";
import {
  assertClients,
  CLIENT,
  EGRESS,
  EgressLab,
  NAMESPACE,
  reportMs,
  type RunningGateway,
  type TokenOptions,
  untilReady,
} from "./egress_gateway_lab.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egressannounce");
  await lab.plane.apply({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { namespace: "team", name: "stranger" },
  });
  for (const node of ["node1", "node2"]) {
    await lab.createPod(`coild-${node}`, {
      namespace: "kube-system",
      node,
      serviceAccount: "coild",
    });
  }
  await lab.createBlock("default-1", "node1");
  await lab.createBlock("default-2", "node2");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

const token = (options?: TokenOptions) => lab.token(options);
const coildOn = (node: string) => token({ pod: `coild-${node}` });

function announcement(
  name: string,
  uid: string,
  addresses: readonly string[],
  block: string | undefined = "default-1",
): Announcement {
  return {
    egress: { namespace: NAMESPACE, name: EGRESS },
    pod: { namespace: "team", name, uid },
    addresses: addresses.map((text) => Address.parse(text)),
    block,
  };
}

/** Announces, and returns the status and, of a refusal, the reason. */
async function announce(
  gateway: RunningGateway,
  message: Announcement,
  options: { readonly token: string },
): Promise<{ readonly status: number; readonly reason: string }> {
  const response = await fetch(gateway.announceUrl, {
    method: "POST",
    headers: { authorization: `Bearer ${options.token}` },
    body: formatAnnouncement(message),
  });
  return {
    status: response.status,
    reason: parseRefusal(await response.text()),
  };
}

/** Announces until the client is in a slice: on a busy machine that may be later than an announcement waits. Returns what comes of it then. */
async function announceKnown(
  ...args: Parameters<typeof announce>
): ReturnType<typeof announce> {
  return await eventually("the client in a slice", async () => {
    const answer = await announce(...args);
    return answer.status !== 404 && answer;
  });
}

/** Announces a client, which is served then. */
async function announceClient(
  ...args: Parameters<typeof announce>
): Promise<void> {
  const { status, reason } = await announceKnown(...args);
  assert.equal(status, 204, reason);
}

Deno.test("coil-egress serves an announced client before its status (W40)", async (t) => {
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  await untilReady(gateway);
  const coild = await coildOn("node1");
  const wanted: string[] = [];

  await t.step("at once, when its pod is known", async () => {
    const uid = await lab.createPod("known", { annotations: CLIENT });
    await eventually("the pod", async () => {
      const [line] = await gateway.metrics("coil_egress_client_pod_count");
      return line?.endsWith(" 1");
    });
    const addresses = ["10.1.1.2", "fd01::2"];
    const message = announcement("known", uid, addresses);
    const { status } = await announce(gateway, message, { token: coild });
    assert.equal(status, 204);
    assert.deepEqual([...kernel.clients].sort(), addresses);
    wanted.push(...addresses);
  });

  await t.step("also when the watch is behind the pod", async () => {
    const uid = await lab.createPod("quick", { annotations: CLIENT });
    const message = announcement("quick", uid, ["10.1.1.3"]);
    await announceClient(gateway, message, { token: coild });
    assert.ok(kernel.clients.has("10.1.1.3"));
    wanted.push("10.1.1.3");
  });

  await t.step("and further on by its status", async () => {
    const announced = () => gateway.metrics("coil_egress_announced_clients ");
    assert.deepEqual(await announced(), ["coil_egress_announced_clients 2"]);
    const calls = kernel.calls.length;
    await lab.setStatus("known", ["10.1.1.2", "fd01::2"]);
    await lab.setStatus("quick", ["10.1.1.3"]);
    await eventually("the confirmation", async () => {
      return (await announced())[0] === "coil_egress_announced_clients 0";
    });
    await assertClients(kernel, wanted);
    assert.equal(kernel.calls.length, calls, "nothing to do for the kernel");
  });

  await t.step("until it is gone", async () => {
    await lab.deletePod("known");
    await assertClients(kernel, ["10.1.1.3"]);
  });

  await t.step(
    "by one change each, without asking about its token again",
    async () => {
      const tookMs: number[] = [];
      const calls = kernel.calls.length;
      for (let n = 0; n < 5; n++) {
        const uid = await lab.createPod(`fast-${n}`, { annotations: CLIENT });
        const message = announcement(`fast-${n}`, uid, [`10.1.2.${n}`]);
        const startMs = performance.now();
        await announceClient(gateway, message, { token: coild });
        tookMs.push(performance.now() - startMs);
      }
      assert.deepEqual(
        kernel.calls.slice(calls),
        tookMs.map(() => "add 1 remove 0"),
      );
      reportMs("from an announcement to its answer", tookMs);
      const reviews = await lab.plane.auditRequests({
        resource: "tokenreviews",
      });
      assert.equal(reviews.length, 1);
    },
  );
});

Deno.test("coil-egress takes an announced client out that no status confirms", async () => {
  await using gateway = await lab.startGateway({ confirmMs: 1_000 });
  const { kernel } = gateway;
  await untilReady(gateway);
  const others = [...kernel.clients];
  const coild = await coildOn("node1");
  const uid = await lab.createPod("lost", { annotations: CLIENT });
  const message = announcement("lost", uid, ["10.1.3.1"]);
  await announceClient(gateway, message, { token: coild });
  await assertClients(kernel, others);
  // It was there, and has been taken out again.
  assert.ok(kernel.removed.has("10.1.3.1"));
  assert.ok(
    gateway.logs.some((line) =>
      line.includes("No pod status confirmed") && line.includes("team/lost")
    ),
  );
  // The status is the authority also when it says something else.
  assert.equal(
    (await announce(gateway, message, { token: coild })).status,
    204,
  );
  await lab.setStatus("lost", ["10.1.3.2"]);
  await assertClients(kernel, [...others, "10.1.3.2"]);
});

Deno.test("coil-egress takes announcements from nobody else, and about nobody else", async (t) => {
  await using gateway = await lab.startGateway();
  const { kernel } = gateway;
  await untilReady(gateway);
  const before = [...kernel.clients].sort();
  const client = await lab.createPod("victim", { annotations: CLIENT });
  const stranger = await lab.createPod("stranger", {
    serviceAccount: "stranger",
  });
  const host = await lab.createPod("host", {
    annotations: CLIENT,
    hostNetwork: true,
  });
  const good = announcement("victim", client, ["10.1.4.1"]);
  const coild = await coildOn("node1");
  const gone = await lab.createPod("coild-gone", {
    namespace: "kube-system",
    serviceAccount: "coild",
  }).then(() => token({ pod: "coild-gone" }));
  await lab.deletePod("coild-gone", { namespace: "kube-system" });
  for (
    const [what, message, bearer, status, reason] of [
      ["no token of anybody's", good, "a.b.c", 401, /not valid here/],
      [
        "a token for the API server",
        good,
        await token({ pod: "coild-node1", audience: "" }),
        ...[401, /not valid here/] as const,
      ],
      [
        "a token for another audience",
        good,
        await token({ pod: "coild-node1", audience: "vault" }),
        ...[401, /not valid here/] as const,
      ],
      [
        "coild's token for another Egress",
        good,
        await token({
          pod: "coild-node1",
          audience: `coil-egress/other/${EGRESS}`,
        }),
        401,
        /not valid here/,
      ],
      [
        "coild's token of earlier versions, good at every gateway",
        good,
        await token({ pod: "coild-node1", audience: "coil-egress" }),
        401,
        /not valid here/,
      ],
      [
        "an address outside of the block",
        announcement("victim", client, ["8.8.8.8"]),
        coild,
        403,
        /does not have the address 8\.8\.8\.8/,
      ],
      [
        "an address of another node's block",
        announcement("victim", client, ["10.2.0.1"], "default-2"),
        coild,
        403,
        /not of node "node1"/,
      ],
      [
        "an address of a block that does not exist",
        announcement("victim", client, ["10.3.0.1"], "default-3"),
        coild,
        403,
        /AddressBlock ".*" does not exist/,
      ],
      [
        "an address without a block, as earlier versions announce it",
        { ...good, block: undefined },
        coild,
        403,
        /does not name the AddressBlock/,
      ],
      [
        "the token of a coild that is gone",
        ...[good, gone, 401, /not valid here/] as const,
      ],
      [
        "another account's token",
        good,
        await token({
          namespace: "team",
          account: "stranger",
          pod: "stranger",
        }),
        ...[403, /^only ".*" may announce/] as const,
      ],
      [
        "coild's token of another node",
        good,
        await coildOn("node2"),
        ...[403, /not on the node/] as const,
      ],
      [
        "coild's token of no node",
        ...[
          good,
          await token(),
          403,
          /does not contain its pod's node/,
        ] as const,
      ],
      [
        "a pod that is no client",
        announcement("stranger", stranger, ["10.1.4.1"]),
        ...[coild, 404, /annotations/] as const,
      ],
      [
        "a pod on the host's network",
        announcement("host", host, ["10.1.4.1"]),
        ...[coild, 404, /annotations/] as const,
      ],
      [
        "a pod that does not exist",
        announcement("nobody", client, ["10.1.4.1"]),
        ...[coild, 404, /the pod does not exist/] as const,
      ],
      [
        "a pod's predecessor",
        announcement("victim", "8d2a", ["10.1.4.1"]),
        ...[coild, 404, /the pod does not exist/] as const,
      ],
      [
        "another Egress",
        { ...good, egress: { namespace: NAMESPACE, name: "dmz" } },
        ...[coild, 403, /serves Egress "nat\/internet"/] as const,
      ],
      [
        "the gateway's address",
        announcement("victim", client, ["10.99.0.1"]),
        ...[coild, 403, /no client has/] as const,
      ],
    ] as const
  ) {
    await t.step(`${status} for ${what}`, async () => {
      const ask = status === 404 ? announce : announceKnown;
      const answer = await ask(gateway, message, { token: bearer });
      assert.equal(answer.status, status, answer.reason);
      assert.match(answer.reason, reason);
      assert.deepEqual([...kernel.clients].sort(), before);
    });
  }

  await t.step("the good one is taken", async () => {
    await announceClient(gateway, good, { token: coild });
    await assertClients(kernel, [...before, "10.1.4.1"]);
  });
});

Deno.test("coil-egress answers 503 before it is ready, and when the kernel refuses", async () => {
  const kernel = new ClientsKernel();
  const { promise, resolve: open } = Promise.withResolvers<void>();
  kernel.gate = promise;
  await using gateway = await lab.startGateway({ kernel });
  const coild = await coildOn("node1");
  const uid = await lab.createPod("early", { annotations: CLIENT });
  const message = announcement("early", uid, ["10.1.5.1"]);
  const early = await announce(gateway, message, { token: coild });
  assert.deepEqual(early, {
    status: 503,
    reason: "the gateway is not ready yet",
  });
  open();
  await untilReady(gateway);
  kernel.failures = 1;
  const refused = await announceKnown(gateway, message, { token: coild });
  assert.equal(refused.status, 503);
  assert.doesNotMatch(refused.reason, /kernel refuses/);
  // It is a client all the same, as soon as the kernel takes it.
  await eventually("the client", () => kernel.clients.has("10.1.5.1"));
  const codes = await gateway.metrics("coil_egress_announcements_total");
  assert.ok(codes.includes('coil_egress_announcements_total{code="503"} 2'));
});
