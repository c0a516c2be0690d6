import assert from "node:assert/strict";
import {
  conditionOf,
  type Egress,
  EGRESS_READY,
  EGRESSES,
} from "../../../lib/api/mod.ts";
import { FakeClock } from "../../../lib/async/testing.ts";
import {
  KubeApiError,
  type KubeClient,
  type KubeObject,
  POD_DISRUPTION_BUDGETS,
  SERVICES,
  Store,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { egressesOf } from "../clients/client_pods.ts";
import { EgressReconciler } from "./reconciler.ts";

const KEY = "internet/nat";
const { signal } = new AbortController();

/** An Egress with everything it needs, whose clients and gateways the test sets. */
class Site {
  readonly clock = new FakeClock();
  /** When the status was written, in seconds, and of how many clients. */
  readonly writes: (readonly [number, number | undefined])[] = [];
  /** The reasons of its Events. */
  readonly events: string[] = [];
  /** The kind of objects that the API server does not take. */
  refused: unknown;
  readonly #egresses = new Store<Egress>();
  readonly #clients = new Store<V1Pod>({ egress: egressesOf });
  readonly #reconciler: EgressReconciler;
  #version = 1;

  constructor() {
    this.#put({});
    const nothing = () => Promise.resolve(undefined);
    const empty = { store: new Store<KubeObject>() };
    const pods = new Store<KubeObject>();
    for (const name of ["nat-1", "nat-2", "nat-3"]) {
      pods.set(`internet/${name}`, { metadata: { name } });
    }
    this.#reconciler = new EgressReconciler({
      client: { patch: this.#patch } as unknown as KubeClient,
      cluster: {
        egresses: { store: this.#egresses },
        clients: { store: this.#clients },
        pods: { store: pods },
        deployments: empty,
        services: empty,
        budgets: empty,
      } as never,
      applier: {
        apply: (type: unknown) =>
          type === this.refused
            ? Promise.reject(new KubeApiError("no", { status: 422 }))
            : Promise.resolve({ isNew: false }),
        forget() {},
      } as never,
      access: { ensure: nothing } as never,
      deployments: { keep: nothing, forget() {} } as never,
      slices: { ensure: nothing } as never,
      settings: { port: 5555 } as never,
      commonProblem: () => undefined,
      onEvent: (_, { reason }) => void this.events.push(reason),
      clock: this.clock,
      random: () => 0,
    });
  }

  /** So many pods name the Egress. */
  setClients(count: number): void {
    for (let i = 0; i < count; i++) {
      this.#clients.set(`team/${i}`, {
        metadata: {
          name: `${i}`,
          namespace: "team",
          annotations: { "egress.coil.cybozu.com/internet": "nat" },
        },
        spec: { nodeName: "node1", containers: [] },
      });
    }
  }

  /** Why the Egress is ready, or not. */
  get reason(): string | undefined {
    const { status } = this.#egresses.get(KEY) ?? {};
    return conditionOf(status?.conditions, EGRESS_READY)?.reason;
  }

  /** The gateway says how full its table is. */
  report(conntrackPercent: number): void {
    const gateways = [{ name: "nat-1", conntrackPercent }];
    this.#put({ ...this.#egresses.get(KEY)?.status, gateways });
  }

  /** Other gateways say how many nodes have lost the first, or have no reports. */
  reportLost(...counts: readonly (number | undefined)[]): void {
    const address = "10.2.0.1";
    const since = "2026-01-02T03:04:05Z";
    const others = counts.map((nodes, i) => ({
      name: `nat-${i + 2}`,
      losses: nodes === undefined
        ? []
        : [{ address, nodes, since, endedConnections: 0 }],
    }));
    const gateways = [{ name: "nat-1", addresses: [address] }, ...others];
    this.#put({ ...this.#egresses.get(KEY)?.status, gateways });
  }

  /** Reconciles as the queue does; returns when it is to be done again, in seconds. */
  async reconcile(): Promise<number | undefined> {
    const result = await this.#reconciler.reconcile(KEY, signal);
    const { requeueAfterMs } = result ?? {};
    return requeueAfterMs === undefined ? undefined : requeueAfterMs / 1000;
  }

  #put(status: NonNullable<Egress["status"]>): Egress {
    const egress: Egress = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: {
        namespace: "internet",
        name: "nat",
        uid: "u",
        resourceVersion: `${++this.#version}`,
      },
      spec: {
        destinations: ["0.0.0.0/0"],
        podDisruptionBudget: { maxUnavailable: 1 },
      },
      status,
    };
    this.#egresses.set(KEY, egress);
    return egress;
  }

  readonly #patch = (
    type: unknown,
    _target: unknown,
    { status }: { readonly status: NonNullable<Egress["status"]> },
  ) => {
    assert.equal(type, EGRESSES);
    this.writes.push([this.clock.nowMs() / 1000, status.clients]);
    const { gateways = [] } = this.#egresses.get(KEY)?.status ?? {};
    return Promise.resolve(this.#put({ ...status, gateways }));
  };
}

Deno.test("the number of an Egress' clients is written once a minute, and the last of them in any case", async () => {
  const site = new Site();
  await site.reconcile();
  assert.deepEqual(site.writes, [[0, 0]]);
  for (let second = 1; second <= 90; second++) {
    await site.clock.advance(1000);
    site.setClients(second);
    await site.reconcile();
  }
  assert.deepEqual(site.writes, [[0, 0], [60, 60]]);
  assert.equal(await site.reconcile(), 30, "asks to come again");
  await site.clock.advance(30_000);
  await site.reconcile();
  assert.deepEqual(site.writes, [[0, 0], [60, 60], [120, 90]]);
  assert.equal(await site.reconcile(), undefined);
});

Deno.test("a condition of an Egress is written at once, its words with the numbers", async () => {
  const site = new Site();
  site.report(0);
  await site.reconcile();
  await site.clock.advance(5_000);
  site.report(85);
  await site.reconcile();
  assert.equal(site.writes.length, 2, "CapacityLow");
  site.report(95);
  assert.equal(await site.reconcile(), 60);
  assert.equal(site.writes.length, 2, "the same with another number");
  await site.clock.advance(10_000);
  site.report(10);
  await site.reconcile();
  assert.deepEqual(site.writes.map(([second]) => second), [0, 5, 15]);
});

Deno.test("an Egress has one Event of a gateway that is lost while the reports move, and one when it is back", async () => {
  const site = new Site();
  for (const nodes of [1, undefined, 1, 0, 0]) {
    site.reportLost(nodes);
    await site.reconcile();
  }
  assert.deepEqual(site.events, ["GatewayLost", "GatewayBack"]);
});

Deno.test("an Egress has an Event of a gateway that is back while its status stays as it is", async () => {
  const site = new Site();
  for (const nodes of [1, undefined, 0, 0]) {
    site.reportLost(nodes);
    await site.reconcile();
  }
  assert.deepEqual(site.events, ["GatewayLost", "GatewayBack"]);
});

Deno.test("an Egress has no Event of a gateway that was said to be back while its status had to wait", async () => {
  const site = new Site();
  for (const [one, other] of [[1], [1, 1], [0, 2], [0]]) {
    site.reportLost(one, other);
    await site.reconcile();
  }
  assert.deepEqual(site.events, ["GatewayLost"]);
});

Deno.test("an Egress says that its Service is refused, not that its budget is: gateways work without", async () => {
  for (
    const [refused, reason] of [
      [SERVICES, "ServiceRefused"],
      [POD_DISRUPTION_BUDGETS, "NoGatewayAvailable"],
    ] as const
  ) {
    const site = new Site();
    site.refused = refused;
    await assert.rejects(site.reconcile(), /^Error: no$/);
    assert.equal(site.reason, reason);
  }
});
