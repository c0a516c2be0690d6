import assert from "node:assert/strict";
import { FakeClock, untilPasses } from "../../lib/async/testing.ts";
import { gatewayMark, GatewayNetnsError } from "../../lib/egress/mod.ts";
import { ProbedGateways } from "../../lib/egress/testing.ts";
import { Address } from "../../lib/inet/mod.ts";
import { MemoryApi } from "../../lib/kube/testing.ts";
import { egressLabels } from "../../lib/api/mod.ts";
import {
  CONNTRACK_STATUS,
  type ConntrackFlow,
  FouUnsupportedError,
} from "../../lib/netlink/mod.ts";
import { loggedLines } from "../../lib/telemetry/testing.ts";
import {
  EgressNotFoundError,
  InvalidAnnotationError,
  InvalidEgressError,
} from "./base/errors.ts";
import { PodCheckError } from "../../lib/podnet/mod.ts";
import { CLIENT, ClientLab } from "./testing.ts";

const APPLIED = "apply 10.96.0.9";

Deno.test("an ADD makes a client of its pod, of the main interface alone", async () => {
  await using lab = new ClientLab();
  await lab.add("none");
  await lab.add("second", CLIENT, { ifname: "net1" });
  await lab.add("gateway", CLIENT, { isGateway: true });
  assert.deepEqual(lab.plane.done, []);
  assert.equal(lab.part.setup.clients, 0);
  await lab.add("client", CLIENT);
  assert.deepEqual(lab.plane.done, [APPLIED]);
  assert.equal(lab.part.setup.clients, 1);
  assert.equal(lab.plane.plan?.ifname, "eth0");
  assert.equal(lab.plane.plan?.port, 5555);
  lab.part.calls.forget(lab.attachmentOf("client").key);
  assert.equal(lab.part.setup.clients, 0);
});

Deno.test("running pods follow the default Egress of their namespace, as it comes and goes", async () => {
  await using lab = new ClientLab();
  lab.found.set("team/a", lab.attachmentOf("a"));
  lab.found.set("team/out", lab.attachmentOf("out", "10.64.0.2"));
  lab.putPod("a");
  lab.putPod("out", { [Object.keys(CLIENT)[0] ?? ""]: "" }, {
    ip: "10.64.0.2",
  });
  lab.start();
  await lab.quiet();
  assert.equal(lab.part.setup.clients, 0);
  lab.putNamespace(CLIENT);
  await lab.until(() => assert.equal(lab.part.setup.clients, 1));
  assert.ok(lab.plane.done.includes(APPLIED), lab.plane.done.join());
  lab.putNamespace();
  await lab.until(() => assert.equal(lab.part.setup.clients, 0));
});

Deno.test("a start leaves a client by its namespace as it is, even if the namespace comes later than the pod", async () => {
  await using lab = new ClientLab();
  lab.found.set("team/a", lab.attachmentOf("a"));
  lab.putPod("a");
  lab.api.remove("namespaces//team");
  lab.start();
  await lab.quiet();
  assert.deepEqual(lab.plane.done, []);
  lab.putNamespace(CLIENT);
  await lab.until(() => assert.equal(lab.part.setup.clients, 1));
  assert.deepEqual(lab.plane.done, [APPLIED]);
});

/** An API server that gives coild, a pod of a ServiceAccount, tokens for it. */
class TokenApi extends MemoryApi {
  tokens = 0;

  override async request(
    request: Parameters<MemoryApi["request"]>[0],
  ): ReturnType<MemoryApi["request"]> {
    if (request.path.includes("/selfsubjectreviews?")) {
      const extra = {
        "authentication.kubernetes.io/pod-name": ["coild-x"],
        "authentication.kubernetes.io/pod-uid": ["u1"],
      };
      const username = "system:serviceaccount:kube-system:coild";
      return answer({ userInfo: { username, extra } });
    }
    if (!request.path.includes("/token?")) return await super.request(request);
    return answer({ token: `t${++this.tokens}` });
  }
}

function answer(status: unknown) {
  const spec = { expirationSeconds: 3_600 };
  const body = JSON.stringify({ spec, status });
  return { status: 201, headers: new Headers(), body };
}

Deno.test("a token that gateways are shown is renewed before it ends, apart from any ADD", async () => {
  const clock = new FakeClock();
  const api = new TokenApi();
  await using lab = new ClientLab({ api, clock });
  // No gateway listens there.
  lab.putGateways(["127.0.0.1"]);
  lab.start();
  await lab.add("client", CLIENT, { block: "default-0" });
  assert.equal(api.tokens, 1);
  await clock.advance(50 * 60_000);
  await lab.until(() => assert.equal(api.tokens, 2));
});

Deno.test("an ADD fails whose annotation leads nowhere", async () => {
  await using lab = new ClientLab();
  const prefix = "egress.coil.cybozu.com/";
  await assert.rejects(
    lab.add("a", { [`${prefix}nat`]: "internet,none" }),
    EgressNotFoundError,
  );
  await assert.rejects(
    lab.add("b", { [`${prefix}nat`]: "Not A Name" }),
    InvalidAnnotationError,
  );
  await using invalid = new ClientLab();
  invalid.putEgress({ destination: "nowhere" });
  await assert.rejects(invalid.add("c", CLIENT), InvalidEgressError);
  await using unserved = new ClientLab();
  unserved.api.remove("services/nat/internet");
  await assert.rejects(unserved.add("d", CLIENT), EgressNotFoundError);
  for (const each of [lab, invalid, unserved]) {
    assert.deepEqual(each.plane.done, []);
  }
});

Deno.test("an ADD that fails leaves nothing in the pod", async () => {
  await using lab = new ClientLab();
  lab.plane.failure = new Error("refused");
  await assert.rejects(lab.add("client", CLIENT), /^Error: refused$/);
  assert.deepEqual(lab.plane.done, ["clear"]);
  assert.equal(lab.part.setup.clients, 0);
});

Deno.test("a CHECK names what is damaged, and it is mended", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  await lab.check("client");
  await lab.check("unknown");
  lab.plane.damage = ["a rule is missing"];
  await assert.rejects(lab.check("client"), (error: unknown) => {
    assert.ok(error instanceof PodCheckError);
    assert.match(
      error.message,
      /a rule is missing.*its egress is being repaired/s,
    );
    return true;
  });
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED, APPLIED]));
  await lab.check("client");
});

Deno.test("a client whose address cannot be used yet is finished when it can, and a CHECK does not complain", async () => {
  await using lab = new ClientLab();
  lab.plane.awaitsAddress = true;
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.until(() => assert.ok(lab.plane.done.length > 2));
  lab.plane.damage = ["a route is missing"];
  await lab.check("client");
  lab.plane.awaitsAddress = false;
  const before = lab.plane.done.length;
  await lab.until(() => assert.ok(lab.plane.done.length > before));
  await lab.quiet();
  lab.plane.damage = ["a route is missing"];
  await assert.rejects(lab.check("client"), PodCheckError);
});

Deno.test("a look from time to time mends what nobody has reported", async () => {
  await using lab = new ClientLab({ inspectMs: 20 });
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  assert.deepEqual(lab.plane.done, [APPLIED]);
  lab.plane.damage = ["a rule is missing"];
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED, APPLIED]));
});

Deno.test("a pod that was no client at its ADD is looked at once", async () => {
  await using lab = new ClientLab({ inspectMs: 20 });
  lab.putPod("none");
  lab.start();
  await lab.quiet();
  await lab.add("none");
  await lab.until(() => assert.deepEqual(lab.plane.done, ["clear"]));
  await lab.quiet();
  assert.deepEqual(lab.plane.done, ["clear"]);
});

Deno.test("a client follows its Egress, its Service and its gateways", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  const { plane } = lab;
  lab.putEgress({ destination: "192.0.2.0/24", generation: 2 });
  const routes = () =>
    (plane.plan?.routes ?? []).map((r) => `${r.destination}`);
  await lab.until(() => assert.ok(routes().includes("192.0.2.0/24")));
  lab.putEgress({ serviceIp: "10.96.0.10", generation: 2 });
  await lab.until(() => assert.equal(plane.done.at(-1), "apply 10.96.0.10"));
  const senders = () => plane.plan?.senders.map(String);
  assert.deepEqual(senders(), ["10.64.0.9", "10.96.0.10"]);
  lab.putGateway({ isReady: false });
  await lab.until(() => assert.deepEqual(senders(), ["10.96.0.10"]));
  await lab.until(() =>
    assert.equal(lab.part.setup.conditions.get("EgressUnavailable"), 1)
  );
});

Deno.test("a client whose Egress is deleted goes on refusing what went through it", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  lab.api.remove("egresses/nat/internet");
  await lab.until(() =>
    assert.ok(!lab.plane.plan?.senders.map(String).includes("10.64.0.9"))
  );
  const kinds = lab.plane.plan?.routes.map(({ kind }) => kind) ?? [];
  assert.ok(kinds.includes("unreachable"), kinds.join());
});

Deno.test("a running pod becomes a client by its annotation, and ends by it", async () => {
  await using lab = new ClientLab();
  lab.putPod("pod");
  lab.start();
  await lab.add("pod");
  await lab.quiet();
  lab.putPod("pod", CLIENT);
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED]));
  lab.putPod("pod", {});
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED, "clear"]));
  assert.equal(lab.part.setup.clients, 0);
  lab.putPod("pod", { other: "annotation" });
  await lab.quiet();
  assert.deepEqual(lab.plane.done, [APPLIED, "clear"]);
});

Deno.test("a client that the kernel refuses is tried again, and both are counted", async () => {
  await using lab = new ClientLab();
  lab.plane.failure = new Error("no memory");
  lab.putPod("client", CLIENT);
  lab.found.set("team/client", lab.attachmentOf("client"));
  lab.start();
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED]));
  await lab.quiet();
  assert.deepEqual(lab.events, []);
  const metrics = await lab.registry.metrics();
  const count = (result: string) =>
    Number(
      new RegExp(
        `^coil_coild_egress_updates_total{result="${result}"} (.*)$`,
        "m",
      )
        .exec(metrics)?.[1],
    );
  assert.equal(count("error"), 1);
  assert.match(metrics, /reconcile_total\{controller="egress-watcher",/);
  assert.ok(count("ok") >= 1);
});

Deno.test("a client whose change failed half-way is made again although its Egress is as before", async () => {
  await using lab = new ClientLab();
  const { plane } = lab;
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  const apply = plane.apply.bind(plane);
  let failures = 0;
  plane.apply = () => {
    failures++;
    return Promise.reject(new Error("no memory"));
  };
  lab.putEgress({ destination: "192.0.2.0/24", generation: 2 });
  await lab.until(() => assert.ok(failures > 0));
  lab.putEgress({ generation: 3 });
  await lab.quiet();
  plane.apply = apply;
  await lab.until(() => assert.deepEqual(plane.done, [APPLIED, APPLIED]));
});

Deno.test("a client whose network namespace is not found is looked for again", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  const attachment = lab.attachmentOf("client");
  let looks = 0;
  let isThere = false;
  lab.found.set("team/client", {
    ...attachment,
    openNetns: () => {
      looks++;
      return isThere ? attachment.openNetns() : Promise.resolve(undefined);
    },
  });
  lab.start();
  await lab.until(() => assert.ok(looks > 0));
  await lab.quiet();
  isThere = true;
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED]));
});

Deno.test("after a start each pod that is found is made what its annotations say", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.putPod("none", {}, { ip: "10.64.0.2" });
  lab.found.set("team/client", lab.attachmentOf("client"));
  lab.found.set("team/none", lab.attachmentOf("none", "10.64.0.2"));
  lab.start();
  await lab.until(() =>
    assert.deepEqual(lab.plane.done.toSorted(), [APPLIED, "clear"])
  );
  await lab.quiet();
  assert.deepEqual(lab.plane.done.toSorted(), [APPLIED, "clear"]);
});

Deno.test("a client whose Egress was deleted while no coild ran refuses what it did", async () => {
  await using lab = new ClientLab();
  lab.api.remove("egresses/nat/internet");
  lab.putPod("client", CLIENT);
  lab.found.set("team/client", lab.attachmentOf("client"));
  lab.start();
  await lab.until(() => assert.deepEqual(lab.plane.done, ["apply"]));
  const kinds = lab.plane.plan?.routes.map(({ kind }) => kind) ?? [];
  assert.ok(kinds.includes("unreachable"), kinds.join());
});

const REFUSALS = [
  [
    "EgressUnsupported",
    "prepare",
    new FouUnsupportedError("no tunnels"),
    'Cannot make pod "team/client" a client of Egress "nat/internet": no tunnels',
  ],
  [
    "EgressRefused",
    "apply",
    new GatewayNetnsError("/netns"),
    'The pod is a gateway of an Egress, which cannot be a client of one; remove its annotation "egress.coil.cybozu.com/nat"',
  ],
] as const;

for (const [reason, step, error, message] of REFUSALS) {
  Deno.test(`a pod that cannot be a client has one Event ${reason}`, async () => {
    await using lab = new ClientLab();
    if (step === "prepare") lab.plane.unsupported = error;
    else lab.plane.failure = error;
    lab.putPod("client", CLIENT);
    lab.found.set("team/client", lab.attachmentOf("client"));
    lab.start();
    const told = [`${reason} of team/client: ${message}`];
    await lab.until(() => assert.deepEqual(lab.events, told));
    lab.putPod("client", { ...CLIENT, other: "annotation" });
    await lab.quiet();
    assert.deepEqual(lab.events, told);
    const { conditions } = lab.part.setup;
    const counted = step === "prepare" ? 1 : undefined;
    assert.equal(new Map<string, number>(conditions).get(reason), counted);
    // Where there can be no tunnels, all that would go through them is refused.
    if (step === "prepare") assert.equal(lab.plane.done[0], "apply");
  });
}

Deno.test("a pod whose annotation is wrong has one Event, and stays as it is", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  for (const other of ["x", "y"]) {
    lab.putPod("client", {
      "egress.coil.cybozu.com/nat": "Not A Name",
      "egress.coil.cybozu.com/other": other,
    });
    await lab.until(() => assert.equal(lab.events.length, 1));
    await lab.quiet();
  }
  assert.match(lab.events[0] ?? "", /^EgressInvalid of team\/client: /);
  assert.deepEqual(lab.plane.done, [APPLIED]);
  const invalid = () => lab.part.setup.conditions.get("EgressInvalid");
  assert.equal(invalid(), 1);
  lab.putPod("client", CLIENT);
  await lab.until(() => assert.equal(invalid(), 0));
});

Deno.test("a gateway that is annotated as a client gets an Event, and is left alone", async () => {
  await using lab = new ClientLab();
  const labels = {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
  };
  lab.putPod("gateway", CLIENT, { labels });
  lab.found.set("team/gateway", lab.attachmentOf("gateway"));
  lab.start();
  await lab.until(() => assert.equal(lab.events.length, 1));
  assert.match(lab.events[0] ?? "", /^EgressRefused of team\/gateway: /);
  lab.putPod("gateway", { ...CLIENT, other: "annotation" }, { labels });
  await lab.quiet();
  assert.deepEqual(lab.plane.done, []);
  assert.equal(lab.events.length, 1, "told once");
});

Deno.test("of two pods with one address neither is changed until one is gone", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.putPod("twin");
  lab.found.set("team/client", lab.attachmentOf("client"));
  lab.start();
  await lab.until(() => assert.ok(lab.events.length > 0));
  assert.match(
    lab.events.join(),
    /AddressConflict of team\/client: Pod "team\/twin" /,
  );
  lab.putPod("client", { ...CLIENT, other: "annotation" });
  await lab.quiet();
  assert.deepEqual(lab.plane.done, []);
  const told = lab.events.map((event) => event.replace(/:.*/, ""));
  assert.equal(new Set(told).size, told.length, "each once");
  lab.api.remove("pods/team/twin");
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED]));
});

Deno.test("a pod that is deleted is forgotten", async () => {
  await using lab = new ClientLab();
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.quiet();
  lab.api.remove("pods/team/client");
  await lab.until(() => assert.equal(lab.part.setup.clients, 0));
});

Deno.test("who has the lock of an attachment is waited for", async () => {
  await using lab = new ClientLab();
  lab.putPod("pod");
  lab.start();
  await lab.add("pod");
  await lab.quiet();
  {
    using _lock = await lab.locks.lock("c-pod:eth0");
    lab.putPod("pod", CLIENT);
    await lab.quiet();
    assert.deepEqual(lab.plane.done, []);
  }
  await lab.until(() => assert.deepEqual(lab.plane.done, [APPLIED]));
});

/** A client of two gateways that are probed, and of one on its own node if there is one. */
async function probedLab(
  { draining = [], local = [], lostConnections, zones = {} }: {
    readonly draining?: readonly string[];
    readonly local?: readonly string[];
    readonly lostConnections?: "End" | "Keep";
    readonly zones?: Readonly<Record<string, string>>;
  } = {},
) {
  const [lost, other] = ["10.64.0.9", "10.64.0.10"] as const;
  const all = [lost, other, ...local];
  const gateways = new ProbedGateways();
  for (const each of all) gateways.alive.add(each);
  const lab = new ClientLab({ openProbe: (peer) => gateways.socket(peer) });
  lab.putEgress({
    gatewaySelection: "Direct",
    ...lostConnections && { lostConnections },
  });
  lab.putGateways(all, draining, zones);
  const labels = { "topology.kubernetes.io/zone": "here" };
  lab.api.put("nodes", { metadata: { name: "n1", labels } });
  for (const ip of local) lab.putPod(`gateway-${ip}`, {}, { ip });
  lab.putPod("client", CLIENT);
  lab.start();
  await lab.add("client", CLIENT);
  await lab.until(() => assert.equal(gateways.counts.size, all.length));
  const marksOf = (addresses: readonly string[]) =>
    addresses.map((each) => gatewayMark(Address.parse(each)))
      .toSorted((a, b) => a - b);
  return {
    lab,
    lost,
    other,
    gateways,
    expectReady(...addresses: readonly string[]): void {
      const [choice] = lab.plane.plan?.choices ?? [];
      assert.deepEqual(choice?.ready, marksOf(addresses));
      assert.deepEqual(
        choice?.all.map(String).toSorted(),
        all.toSorted(),
      );
    },
    ends: () => lab.plane.done.filter((each) => each.startsWith("end")),
    [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose](),
  };
}

Deno.test("a gateway that answers no more gets no new connections of clients, and those that it has are ended once", async () => {
  await using probed = await probedLab();
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  expectReady(lost, other);
  gateways.alive.delete(lost);
  await lab.until(() => expectReady(other));
  await lab.until(() => assert.deepEqual(ends(), [`end ${lost}`]));
  // Nothing else of the pod's network was touched.
  assert.deepEqual(lab.plane.done.slice(1), ["choose", `end ${lost}`]);
  const metrics = await lab.registry.metrics();
  for (
    const line of [
      'egress_gateways{state="lost"} 1',
      'egress_gateways{state="healthy"} 1',
      "egress_gateway_loss_seconds_count 1",
      "egress_client_switch_seconds_count 1",
      'egress_connections_ended_total{how="aborted"} 1',
      'egress_connections_ended_total{how="forgotten"} 2',
    ]
  ) assert.ok(metrics.includes(`coil_coild_${line}\n`), line);
  // A pod that comes now does not use it either; nothing is ended twice.
  await lab.add("later", CLIENT);
  expectReady(other);
  lab.putPod("client", { ...CLIENT, other: "annotation" });
  await lab.quiet();
  // All are lost: the node is cut off, and nothing changes.
  gateways.alive.delete(other);
  await lab.quiet();
  expectReady(other);
  assert.deepEqual(ends(), [`end ${lost}`]);
});

Deno.test("a coild that was restarted reports a gateway that was lost before, and is still", async () => {
  const [lost, other] = ["10.64.0.9", "10.64.0.10"].map(Address.parse);
  assert.ok(lost && other);
  const gateways = new ProbedGateways();
  gateways.alive.add(`${other}`);
  const clock = new FakeClock();
  const lines = loggedLines();
  await using lab = new ClientLab({
    clock,
    openProbe: (peer) => gateways.socket(peer),
  });
  lab.plane.choices = () =>
    Promise.resolve({
      chosen: new Map([["nat/internet", [lost, other]]]),
      lost: new Set([gatewayMark(lost)]),
    });
  lab.putEgress({ gatewaySelection: "Direct" });
  lab.putGateways([`${lost}`, `${other}`]);
  lab.putPod("client", CLIENT);
  lab.found.set("team/client", lab.attachmentOf("client"));
  lab.start();
  // The API server here has no tokens, which the record of a report says.
  const reports = () =>
    lines.filter((line) => line.includes("Cannot report lost gateways"));
  await untilPasses(async () => {
    await clock.advance(1_000);
    assert.equal(reports().length, 1);
  });
  assert.match(reports()[0] ?? "", /"nat\/internet".*"10\.64\.0\.10"/);
  const metrics = await lab.registry.metrics();
  for (
    const line of [
      'egress_gateways{state="lost"} 1',
      "egress_gateway_loss_seconds_count 0",
      "egress_client_switch_seconds_count 0",
    ]
  ) assert.ok(metrics.includes(`coil_coild_${line}\n`), line);
});

Deno.test("a client prefers the gateways of its node's zone, while one of them answers", async () => {
  const zones = { "10.64.0.9": "here", "10.64.0.10": "there" };
  await using probed = await probedLab({ zones });
  const { lab, lost: near, other: far, gateways, expectReady, ends } = probed;
  expectReady(near);
  gateways.alive.delete(near);
  await lab.until(() => expectReady(far));
  await lab.until(() => assert.deepEqual(ends(), [`end ${near}`]));
  // What is preferred can change while pods run.
  lab.putGateways([near, far], [], { [far]: "here" });
  gateways.alive.add(near);
  await lab.quiet();
  expectReady(far);
  lab.putGateways([near, far]);
  await lab.until(() => expectReady(near, far));
});

Deno.test("a pod that becomes a client after a loss does not count as one that left the gateway", async () => {
  await using probed = await probedLab();
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  lab.putPod("annotated", {}, { ip: "10.64.0.3" });
  await lab.add("annotated");
  gateways.alive.delete(lost);
  await lab.until(() => expectReady(other));
  await lab.until(() => assert.deepEqual(ends(), [`end ${lost}`]));
  // Each is looked at again after it was made.
  lab.putPod("later", CLIENT, { ip: "10.64.0.2" });
  await lab.add("later", CLIENT);
  lab.putPod("annotated", CLIENT, { ip: "10.64.0.3" });
  await lab.until(() => assert.equal(lab.part.setup.clients, 3));
  lab.putPod("later", { ...CLIENT, other: "x" }, { ip: "10.64.0.2" });
  lab.putPod("annotated", { ...CLIENT, other: "x" }, { ip: "10.64.0.3" });
  await lab.quiet();
  const metrics = await lab.registry.metrics();
  assert.match(metrics, /client_switch_seconds_count 1$/m);
});

Deno.test("a gateway on the own node does not show that the others are lost: the node may be cut off", async () => {
  const local = "10.64.0.11";
  await using probed = await probedLab({ local: [local] });
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  gateways.alive.delete(lost);
  gateways.alive.delete(other);
  const asked = () => gateways.counts.get(local) ?? 0;
  const before = asked();
  // In fewer rounds a gateway is lost.
  await lab.until(() => assert.ok(asked() >= before + 6));
  await lab.quiet();
  expectReady(lost, other, local);
  assert.deepEqual(ends(), []);
});

Deno.test("connections through a gateway that drains are ended when it is lost", async () => {
  await using probed = await probedLab({ draining: ["10.64.0.9"] });
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  expectReady(other);
  const states = async () => {
    const metrics = await lab.registry.metrics();
    return [...metrics.matchAll(/egress_gateways\{state="(.*)"\} 1$/gm)]
      .map(([, state]) => state);
  };
  const expectStates = (...expected: readonly string[]) =>
    untilPasses(async () => assert.deepEqual(await states(), expected));
  await expectStates("healthy", "draining");
  gateways.alive.delete(lost);
  await lab.until(() => assert.deepEqual(ends(), [`end ${lost}`]));
  expectReady(other);
  await expectStates("healthy", "lost");
});

Deno.test("new connections leave a gateway that says that it ends, before its endpoints do, and open ones stay", async () => {
  await using probed = await probedLab();
  const { lab, lost: ending, other, expectReady, ends } = probed;
  expectReady(ending, other);
  lab.announceEnd(ending);
  await lab.until(() => expectReady(other));
  await lab.quiet();
  assert.deepEqual(lab.plane.done.slice(1), ["choose"]);
  assert.deepEqual(ends(), []);
});

Deno.test("connections through a gateway that leaves its Egress are ended before the rule for it goes", async () => {
  await using probed = await probedLab();
  const { lab, lost, other } = probed;
  const [made = ""] = lab.plane.done;
  const without = (...gone: readonly string[]) =>
    made.split(" ").filter((each) => !gone.includes(each)).join(" ");
  // Sooner than its probes can be missed.
  lab.putGateways([other]);
  await lab.until(() => assert.equal(lab.plane.done.length, 4));
  assert.deepEqual(lab.plane.done, [
    made,
    "choose",
    `end ${lost}`,
    without(lost),
  ]);
  // There may be a gap in what the API server has.
  lab.putGateways([]);
  await lab.until(() => assert.equal(lab.plane.done.length, 5));
  await lab.quiet();
  assert.deepEqual(lab.plane.done.slice(4), [without(lost, other)]);
});

Deno.test("a gateway that goes while the EndpointSlices of its family are away is left as soon as its probes are missed", async () => {
  await using probed = await probedLab();
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  lab.putIpv6Gateways(["fd64::9"]);
  lab.putGateways([]);
  await lab.quiet();
  expectReady(lost, other);
  gateways.alive.delete(lost);
  await lab.until(() => expectReady(other));
  await lab.until(() => assert.deepEqual(ends(), [`end ${lost}`]));
  assert.deepEqual(lab.plane.done.slice(1), ["choose", `end ${lost}`]);
});

Deno.test("a client's network is changed even if connections of a gateway that has left cannot be ended, which is tried again", async () => {
  await using probed = await probedLab();
  const { lab, lost, other } = probed;
  lab.plane.endFailure = new Error("not permitted");
  lab.putGateways([other]);
  await lab.until(() =>
    assert.equal(
      lab.plane.plan?.choices.flatMap(({ all }) => all).join(),
      other,
    )
  );
  lab.plane.endFailure = undefined;
  await lab.until(() => assert.ok(lab.plane.done.includes(`end ${lost}`)));
});

Deno.test("connections through a lost gateway stay where its Egress keeps them", async () => {
  await using probed = await probedLab({ lostConnections: "Keep" });
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  gateways.alive.delete(lost);
  await lab.until(() => expectReady(other));
  await lab.quiet();
  assert.deepEqual(ends(), []);
  const metrics = await lab.registry.metrics();
  assert.match(metrics, /client_switch_seconds_count 1$/m);
});

Deno.test("a client is made as planned, all of it, after its table could not be replaced", async () => {
  await using probed = await probedLab();
  const { lab, lost, other, gateways, expectReady, ends } = probed;
  const [made] = lab.plane.done;
  lab.plane.failure = new Error("no memory");
  gateways.alive.delete(lost);
  await lab.until(() => expectReady(other));
  await lab.until(() => assert.deepEqual(ends(), [`end ${lost}`]));
  assert.deepEqual(lab.plane.done, [made, made, `end ${lost}`]);
});

Deno.test("the node's connections show now and then that it translates the source of one of its gateways", async () => {
  const clock = new FakeClock();
  const lines = loggedLines();
  const gateway = "10.64.0.9";
  const flow = (protocol: number, destination: string) => ({
    protocol,
    status: CONNTRACK_STATUS.srcNat,
    originalSource: Address.parse(gateway),
    originalDestination: Address.parse(destination),
    originalDestinationPort: 5555,
    replyDestination: Address.parse("192.0.2.1"),
  } as ConntrackFlow);
  await using lab = new ClientLab({
    clock,
    openConntrack: () => ({
      visit: (visitor) => {
        visitor(flow(6, "203.0.113.9"));
        // A tunnel.
        visitor(flow(17, "203.0.113.8"));
        return Promise.resolve();
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }),
  });
  lab.api.put("egresses", {
    metadata: { namespace: "team", name: "nat" },
    spec: { destinations: ["203.0.113.0/24"] },
  });
  lab.putPod("nat-1", {}, { ip: gateway, labels: egressLabels("nat") });
  lab.start();
  await lab.quiet();
  const found = () =>
    lines.filter((line) => line.includes("translates the source"));
  assert.deepEqual(found(), []);
  await clock.advance(90_000);
  await lab.until(() => assert.equal(found().length, 1));
  assert.match(found()[0] ?? "", /team\/nat.*10\.64\.0\.9.*203\.0\.113\.9/);
});
