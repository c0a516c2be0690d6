import assert from "node:assert/strict";
import { sleep, untilAborted } from "../../lib/async/mod.ts";
import {
  EventRecorder,
  EVENTS,
  KubeClient,
  LeaderElector,
  LEASES,
  NAMESPACES,
  type ObjectReference,
} from "../../lib/kube/mod.ts";
import { ControlPlane, eventually } from "../lab/mod.ts";
import { GatedTransport } from "./gated_transport.ts";

const namespace = "default";
let plane: ControlPlane;
let admin: KubeClient;

Deno.test.beforeAll(async () => {
  plane = await ControlPlane.start({ name: "kubeleader" });
  admin = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  await admin.get(NAMESPACES, { name: namespace });
});

Deno.test.afterAll(async () => {
  admin.close();
  await plane[Symbol.asyncDispose]();
});

/** Takes part in an election and writes down who leads when. */
class Candidate implements AsyncDisposable {
  readonly gate: GatedTransport;
  readonly elector: LeaderElector;
  readonly #client: KubeClient;
  readonly #controller = new AbortController();
  readonly #running: Promise<void>;

  private constructor(
    gate: GatedTransport,
    { name, log, leaseMs }: {
      readonly name: string;
      readonly log: string[];
      readonly leaseMs: number;
    },
  ) {
    this.gate = gate;
    this.#client = new KubeClient(gate);
    this.elector = new LeaderElector(this.#client, {
      namespace,
      name: "election",
      identity: name,
      leaseMs,
      renewMs: leaseMs * 2 / 3,
      retryMs: 300,
    });
    this.#running = this.elector.run(
      this.#controller.signal,
      async (signal) => {
        log.push(`${name} leads`);
        await untilAborted(signal);
        log.push(`${name} stops`);
      },
    );
  }

  static async start(
    name: string,
    log: string[],
    { leaseMs = 9_000 }: { readonly leaseMs?: number } = {},
  ): Promise<Candidate> {
    const gate = await GatedTransport.open(plane.kubeconfig);
    return new Candidate(gate, { name, log, leaseMs });
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.#client.close();
  }
}

async function lease() {
  const name = "election";
  return (await admin.get(LEASES, { name, namespace })).spec;
}

Deno.test("LeaderElector hands over at once when the leader ends cleanly", async () => {
  const log: string[] = [];
  // Far longer than is waited for the second leader.
  const leaseMs = 3_600_000;
  await using first = await Candidate.start("first", log, { leaseMs });
  await eventually("the first leader", () => first.elector.isLeader);
  await using second = await Candidate.start("second", log, { leaseMs });
  await sleep(1_000);
  assert.deepEqual(log, ["first leads"]);
  await first.stop();
  await eventually("the second leader", () => second.elector.isLeader);
  assert.deepEqual(log, ["first leads", "first stops", "second leads"]);
  const spec = await lease();
  assert.equal(spec?.holderIdentity, "second");
  assert.equal(spec?.leaseTransitions, 1);
  await second.stop();
  assert.equal((await lease())?.holderIdentity, "");
});

Deno.test("LeaderElector stops leading before another begins when it is cut off", async () => {
  const log: string[] = [];
  await using first = await Candidate.start("cut", log);
  await eventually("the first leader", () => first.elector.isLeader);
  await using second = await Candidate.start("heir", log);
  first.gate.isOpen = false;
  await eventually("the second leader", () => second.elector.isLeader);
  assert.deepEqual(log, ["cut leads", "cut stops", "heir leads"]);
  assert.equal(first.elector.isLeader, false);
  // Back again, it waits for its turn.
  first.gate.isOpen = true;
  await second.stop();
  await eventually("the first leader again", () => first.elector.isLeader);
  assert.equal(log.at(-1), "cut leads");
});

Deno.test("LeaderElector takes over a lease whose times are nonsense, when it saw no renewal", async () => {
  const name = "nonsense";
  await admin.create(LEASES, {
    metadata: { name, namespace },
    spec: {
      holderIdentity: "dead",
      leaseDurationSeconds: 1,
      // A clock that was years ahead.
      renewTime: "2099-01-01T00:00:00.000000Z",
    },
  });
  // One of its own: after a request of a second without an answer a client has another connection.
  using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const elector = new LeaderElector(client, {
    namespace,
    name,
    identity: "alive",
    leaseMs: 3_000,
    renewMs: 2_000,
    retryMs: 200,
  });
  const startMs = performance.now();
  let waitedMs = 0;
  await elector.run(new AbortController().signal, () => {
    waitedMs = performance.now() - startMs;
    return Promise.resolve();
  });
  assert.ok(waitedMs >= 1_000, `taken after ${waitedMs} ms`);
  const spec = (await admin.get(LEASES, { name, namespace })).spec;
  assert.equal(spec?.holderIdentity, "");
});

Deno.test("EventRecorder counts the same event instead of repeating it", async () => {
  const recorder = new EventRecorder(admin, {
    component: "tester",
    host: "h1",
  });
  const controller = new AbortController();
  const running = recorder.run(controller.signal);
  const pod: ObjectReference = {
    apiVersion: "v1",
    kind: "Pod",
    name: "p1",
    namespace,
    uid: "u1",
  };
  const info = { type: "Warning", reason: "Full", message: "no room" } as const;
  const events = async (name: string) => {
    const fieldSelector = `involvedObject.name=${name}`;
    return (await admin.list(EVENTS, { namespace, fieldSelector })).items;
  };
  for (let n = 0; n < 3; n++) {
    recorder.event(pod, info);
    await eventually(
      "the event",
      async () => (await events("p1"))[0]?.count === n + 1,
    );
  }
  recorder.event(pod, { ...info, reason: "Other" });
  const node = { apiVersion: "v1", kind: "Node", name: "n1" };
  for (let n = 0; n < 100; n++) recorder.event(node, info);
  // At its end it takes a second, no longer, for what is still to be written.
  await eventually("both", async () => {
    const [ofNode] = await events("n1");
    return (await events("p1")).length === 2 && ofNode?.count === 25;
  });
  controller.abort();
  await running;
  const [full, other, ...more] = (await events("p1")).sort((a, b) =>
    (b.count ?? 0) - (a.count ?? 0)
  );
  assert.deepEqual(more, []);
  assert.deepEqual([full?.reason, full?.count], ["Full", 3]);
  assert.deepEqual(full?.source, { component: "tester", host: "h1" });
  assert.deepEqual([other?.reason, other?.count], ["Other", 1]);
  // Cluster-scoped: in "default"; limited: 25 at once.
  const ofNode = await events("n1");
  assert.deepEqual(ofNode.map((e) => e.count), [25]);
  assert.equal(recorder.dropped, 75);
});

Deno.test("EventRecorder gives a new Event when the old one has expired", async () => {
  const recorder = new EventRecorder(admin, { component: "tester" });
  const controller = new AbortController();
  const running = recorder.run(controller.signal);
  const ref = { apiVersion: "v1", kind: "Pod", name: "p2", namespace };
  const info = { type: "Normal", reason: "Again", message: "." } as const;
  const fieldSelector = "involvedObject.name=p2";
  const first = async () =>
    (await admin.list(EVENTS, { namespace, fieldSelector })).items[0];
  recorder.event(ref, info);
  const old = await eventually("the event", first);
  const { name = "" } = old.metadata;
  await admin.delete(EVENTS, { name, namespace });
  recorder.event(ref, info);
  const young = await eventually("the new event", first);
  assert.equal(young.count, 2);
  controller.abort();
  await running;
});
