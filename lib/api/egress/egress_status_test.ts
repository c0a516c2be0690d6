import assert from "node:assert/strict";
import type { Egress, EgressGatewayStatus, EgressStatus } from "./egress.ts";
import type { EgressProblem, EgressWorkload } from "./egress_conditions.ts";
import {
  egressStatus,
  egressStatusEquals,
  isEgressStatusNews,
} from "./egress_status.ts";

const NOW = new Date("2026-01-02T03:04:05.678Z");
const LATER = new Date("2026-01-02T04:00:00Z");

const WORKLOAD: EgressWorkload = {
  isObserved: true,
  replicas: 2,
  updatedReplicas: 2,
  availableReplicas: 2,
};

interface Seen {
  readonly workload?: EgressWorkload;
  readonly problems?: readonly EgressProblem[];
  readonly gateways?: readonly EgressGatewayStatus[];
  readonly clients?: number;
  readonly now?: Date;
  readonly previous?: EgressStatus;
  readonly destinations?: readonly string[];
}

function statusOf({ previous, ...seen }: Seen) {
  const { destinations = ["0.0.0.0/0"] } = seen;
  const egress: Egress = {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "internet", name: "nat", generation: 7 },
    spec: { destinations, replicas: 2 },
    ...(previous === undefined ? {} : { status: previous }),
  };
  return egressStatus(egress, {
    problems: [],
    gateways: [],
    clients: 0,
    now: NOW,
    ...seen,
  });
}

/** Each condition as `type=status reason`. */
function conditionsOf(seen: Seen): readonly string[] {
  const { conditions = [] } = statusOf(seen);
  return conditions.map((c) => `${c.type}=${c.status} ${c.reason}`);
}

function assertHas(seen: Seen, ...expected: readonly string[]): void {
  const conditions = conditionsOf(seen);
  for (const condition of expected) {
    assert.ok(conditions.includes(condition), conditions.join(", "));
  }
}

Deno.test("egressStatus() counts pods and names their selector", () => {
  const { conditions: _, ...rest } = statusOf({
    workload: { ...WORKLOAD, availableReplicas: 1 },
    clients: 5,
  });
  assert.deepEqual(rest, {
    observedGeneration: 7,
    replicas: 2,
    availableReplicas: 1,
    clients: 5,
    sources: [],
    selector:
      "app.kubernetes.io/component=egress,app.kubernetes.io/instance=nat,app.kubernetes.io/name=coil",
  });
});

Deno.test("egressStatus() is ready and complete when all pods are available", () => {
  assert.deepEqual(conditionsOf({ workload: WORKLOAD }), [
    "Ready=True GatewayAvailable",
    "Progressing=False Complete",
    "Degraded=False AsWanted",
    "CapacityLow=Unknown NoReport",
  ]);
});

Deno.test("W29: during a roll-out all pods count, and it is no loss", () => {
  const workload = {
    ...WORKLOAD,
    replicas: 3,
    updatedReplicas: 1,
    availableReplicas: 1,
  };
  assert.equal(statusOf({ workload }).replicas, 3);
  assertHas(
    { workload },
    "Ready=True GatewayAvailable",
    "Progressing=True RollingOut",
    "Degraded=False RollingOut",
  );
});

Deno.test("egressStatus() progresses until the Deployment has seen its spec", () => {
  assertHas(
    { workload: { ...WORKLOAD, isObserved: false } },
    "Progressing=True RollingOut",
  );
});

Deno.test("egressStatus() is degraded by a pod that fails after the roll-out", () => {
  const workload = {
    ...WORKLOAD,
    availableReplicas: 1,
    progress: { isStuck: false, isComplete: true, message: "" },
  };
  assertHas(
    { workload },
    "Ready=True GatewayAvailable",
    "Progressing=False Complete",
    "Degraded=True PodsUnavailable",
  );
});

Deno.test("egressStatus() is degraded by a roll-out that is stuck", () => {
  const workload = {
    ...WORKLOAD,
    updatedReplicas: 1,
    progress: { isStuck: true, isComplete: false, message: "timed out" },
  };
  assertHas(
    { workload },
    "Progressing=False DeadlineExceeded",
    "Degraded=True DeadlineExceeded",
  );
});

Deno.test("egressStatus() says why no pod can be made", () => {
  const failure = { reason: "FailedCreate", message: "quota exceeded" };
  const workload = {
    isObserved: true,
    replicas: 0,
    updatedReplicas: 0,
    availableReplicas: 0,
    failure,
  };
  assertHas(
    { workload },
    "Ready=False NoGatewayAvailable",
    "Degraded=True FailedCreate",
  );
});

Deno.test("egressStatus() names what was refused, and is ready while pods serve all the same", () => {
  const problems = [
    { reason: "DeploymentRefused", message: "no image", isFatal: true },
    { reason: "PodDisruptionBudgetRefused", message: "no", isFatal: false },
  ];
  assertHas(
    { problems },
    "Ready=False DeploymentRefused",
    "Progressing=Unknown NoDeployment",
    "Degraded=True DeploymentRefused",
  );
  assertHas({ problems, workload: WORKLOAD }, "Ready=True GatewayAvailable");
  const degraded = statusOf({ problems }).conditions?.find((c) =>
    c.type === "Degraded"
  );
  assert.equal(degraded?.message, "no image; no");
});

Deno.test("egressStatus() is never longer than the API server takes", () => {
  const message = "x".repeat(100_000);
  const problem = { reason: "DeploymentRefused", message, isFatal: true };
  const gateways = Array.from({ length: 4096 }, (_, i) => ({
    name: `${"n".repeat(60)}${i}`,
    conntrackPercent: 90,
    snatPortsPercent: 90,
  }));
  const failure = { reason: "FailedCreate", message };
  const progress = { isStuck: true, isComplete: false, message };
  for (
    const seen of [
      { problems: Array.from({ length: 20 }, () => problem), gateways },
      { workload: { ...WORKLOAD, failure, progress } },
    ]
  ) {
    for (const condition of statusOf(seen).conditions ?? []) {
      assert.ok(condition.message.length <= 32_768, condition.type);
    }
  }
});

Deno.test("egressStatus() warns of exhaustion from 80% on, until it is below 70%", () => {
  const at = (conntrackPercent: number, snatPortsPercent = 0) => ({
    gateways: [{ name: "a", conntrackPercent, snatPortsPercent }],
  });
  assertHas(at(79, 79), "CapacityLow=False Sufficient");
  assertHas(at(80), "CapacityLow=True ConntrackFull");
  assertHas(at(0, 80), "CapacityLow=True SourcePortsUsed");
  const previous = statusOf(at(85));
  assertHas({ ...at(75), previous }, "CapacityLow=True ConntrackFull");
  assertHas({ ...at(69), previous }, "CapacityLow=False Sufficient");
});

Deno.test("egressStatus() names who uses most of a gateway that is short, and that more gateways would help", () => {
  const short = { name: "a", conntrackPercent: 85, snatPortsPercent: 90 };
  const gateways = [{
    ...short,
    largestClient: "apps/web",
    snatPortsDestination: "203.0.113.9:443",
    snatPortsClient: "apps/crawler",
  }, { name: "b", snatPortsPercent: 81 }];
  const { conditions = [] } = statusOf({ gateways });
  const { message } = conditions.find(({ type }) => type === "CapacityLow") ??
    {};
  assert.equal(
    message,
    "a uses 85% of its connection table, the most for apps/web; a uses 90% of its source ports to 203.0.113.9:443, the most for apps/crawler; b uses 81% of its source ports to one destination. Raise spec.replicas above 2: each replica has its own connections and source ports",
  );
});

Deno.test("egressStatus() tells which clients have their share, and where there are no limits", () => {
  const gateways = [
    { name: "a", limitedClients: ["team/x", "team/y"] },
    { name: "b", unlimited: true },
    { name: "c", limitedClients: [] },
  ];
  assertHas({ gateways }, "ClientsLimited=True MaxFlowsPerClient");
  const condition = statusOf({ gateways }).conditions?.find((c) =>
    c.type === "ClientsLimited"
  );
  assert.match(condition?.message ?? "", /^a dropped .* team\/x, team\/y: /);
  assert.match(condition?.message ?? "", /; b does not limit its clients/);
  assertHas(
    { gateways: gateways.slice(1) },
    "ClientsLimited=False NotSupportedByKernel",
  );
  const fine = conditionsOf({ gateways: gateways.slice(2) });
  assert.ok(!fine.some((text) => text.startsWith("ClientsLimited")));
});

const LOSING = [
  { name: "a", node: "w1", addresses: ["10.2.0.1"] },
  {
    name: "b",
    addresses: ["10.2.0.2"],
    losses: [{
      address: "10.2.0.1",
      nodes: 1,
      nodeNames: ["n1"],
      since: "2026-01-02T03:04:05Z",
      endedConnections: 7,
    }],
  },
];

Deno.test("egressStatus() has gateways that nodes have lost, by name and in words", () => {
  assertHas({ gateways: LOSING }, "GatewaysLost=True NoAnswer");
  const { conditions, lostGateways } = statusOf({ gateways: LOSING });
  assert.deepEqual(lostGateways, ["a"]);
  const lost = conditions?.find(({ type }) => type === "GatewaysLost");
  assert.match(lost?.message ?? "", /^a on node w1 does not answer node n1: /);
  const [a] = LOSING;
  assert.ok(a);
  const fine = statusOf({ gateways: [a] });
  assert.equal(fine.lostGateways, undefined);
  assert.equal(fine.conditions?.length, 4);
});

Deno.test("egressStatus() says which sources of gateways their nodes translate, and how", () => {
  const translation = {
    address: "10.2.0.1",
    seenAs: "192.0.2.1",
    destination: "203.0.113.9",
  };
  const [a, b] = LOSING.map(({ name, node }) => ({ name, node: node ?? "w2" }));
  assert.ok(a && b);
  const gateways = [a, { ...b, translated: [translation] }];
  assertHas({ gateways }, "SourcesTranslated=True NodeMasquerades");
  const message = statusOf({ gateways }).conditions
    ?.find(({ type }) => type === "SourcesTranslated")?.message;
  assert.equal(
    message,
    "packets of b on node w2 leave the node as 192.0.2.1, not as 10.2.0.1 (for example to 203.0.113.9). Exclude the gateways' addresses or the destinations from the masquerading of these nodes",
  );
  assert.equal(statusOf({ gateways: [a] }).conditions?.length, 4);
});

Deno.test("isEgressStatusNews() is true of another gateway that is lost", () => {
  const [a, b] = LOSING.map(({ name }) => name);
  assert.ok(a && b);
  const lost = (...lostGateways: readonly string[]) => ({ lostGateways });
  assert.ok(isEgressStatusNews(lost(a), lost(a, b)));
  assert.ok(isEgressStatusNews(lost(a), {}));
  assert.ok(!isEgressStatusNews(lost(a), lost(a)));
});

Deno.test("egressStatus() reports redundant destinations", () => {
  const destinations = ["10.0.0.0/8", "10.0.0.1/8"];
  assertHas({ destinations }, "RedundantDestinations=True SameNetwork");
  assert.equal(conditionsOf({}).length, 4);
});

Deno.test("egressStatus() keeps the time of a condition as long as it holds", () => {
  const previous = statusOf({ workload: WORKLOAD });
  const workload = {
    ...WORKLOAD,
    availableReplicas: 1,
    progress: { isStuck: false, isComplete: true, message: "" },
  };
  const status = statusOf({ workload, previous, now: LATER });
  const times = Object.fromEntries(
    (status.conditions ?? []).map((c) => [c.type, c.lastTransitionTime]),
  );
  assert.deepEqual(times, {
    Ready: "2026-01-02T03:04:05Z",
    Progressing: "2026-01-02T03:04:05Z",
    Degraded: "2026-01-02T04:00:00Z",
    CapacityLow: "2026-01-02T03:04:05Z",
  });
});

Deno.test("egressStatus() has each gateway's addresses once, in an order of its own", () => {
  const sourcesOf = (...all: readonly (readonly string[] | undefined)[]) =>
    statusOf({
      gateways: all.map((addresses, i) => ({
        name: `g${i}`,
        ...(addresses !== undefined && { addresses }),
      })),
    }).sources;
  const sorted = ["10.2.0.8", "10.2.1.8", "fd02::8"];
  assert.deepEqual(sourcesOf(["10.2.1.8", "fd02::8"], ["10.2.0.8"]), sorted);
  // As an update of their entries may order them; one of an earlier version has none.
  assert.deepEqual(
    sourcesOf(undefined, ["10.2.0.8"], ["10.2.1.8", "fd02::8"], ["10.2.0.8"]),
    sorted,
  );
});

Deno.test("egressStatusEquals() looks neither at the order nor at what gateways write", () => {
  const status = statusOf({ workload: WORKLOAD });
  const { conditions = [], ...rest } = status;
  assert.ok(egressStatusEquals(status, {
    gateways: [{ name: "a", draining: true }],
    conditions: conditions.toReversed(),
    ...rest,
  }));
  assert.ok(!egressStatusEquals(status, { ...status, clients: 1 }));
  assert.ok(!egressStatusEquals(undefined, status));
});

Deno.test("isEgressStatusNews() tells conditions, pods and another spec from numbers and words", () => {
  const at = (seen: Seen) => statusOf({ workload: WORKLOAD, ...seen });
  const high = (conntrackPercent: number) => ({
    gateways: [{ name: "a", conntrackPercent }],
  });
  const before = at(high(0));
  const short = at({ ...high(85), previous: before });
  for (
    const [what, from, to, isNews] of [
      ["nothing", before, before, false],
      ["the first", undefined, before, true],
      ["clients", before, at({ ...high(0), clients: 9 }), false],
      [
        "sources",
        before,
        at({ gateways: [{ name: "a", addresses: ["10.2.0.8"] }] }),
        false,
      ],
      ["a time", before, at({ ...high(0), now: LATER }), false],
      ["a condition", before, short, true],
      ["its end", short, at({ ...high(0), previous: short }), true],
      ["its words", short, at({ ...high(95), previous: short }), false],
      ["its generation", before, { ...before, observedGeneration: 8 }, true],
      ["pods", before, { ...before, replicas: 3 }, true],
      ["ready pods", before, { ...before, availableReplicas: 1 }, true],
      ["a selector", before, { ...before, selector: "a=b" }, true],
    ] as const
  ) {
    assert.equal(isEgressStatusNews(from, to), isNews, what);
  }
});
