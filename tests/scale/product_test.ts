// The table of patterns says what the product's own code does: both have the same
// cluster, by the same server's counts.
import assert from "node:assert/strict";
import {
  type AddressBlock,
  blockOf,
  internalAddresses,
} from "../../lib/api/mod.ts";
import type { V1Node } from "../../lib/kube/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import type { CountedRequest } from "./counting_api.ts";
import { addressesOf, isClient } from "./objects.ts";
import { type Pattern, PATTERNS, type WatchKind } from "./patterns.ts";
import type { ProductCluster, ProductRole } from "./product_cluster.ts";
import { egressStatusesS } from "./egress_statuses.ts";
import {
  type Outcome,
  runProduct,
  runScenario,
  type Scenario,
  SCENARIOS,
} from "./scenarios.ts";
import { LEASE_MS, RESTART_MS } from "./simulated.ts";
import { egressesOfNode, gatewaysOf, LARGE, sampleOf } from "./size.ts";

configureLogging({ level: "panic", write: () => {} });

const NODES = 20;
const SIZE = sampleOf(LARGE, NODES);
/** A watch ends after about so long. */
const WATCH_S = 450;
/** On a node, with addresses, gone: of slices. */
const WRITES_OF_CLIENT = 3;
/** So that many go and come in an hour. */
const RETURN_MS = 600_000;
const HOUR: Scenario = { name: "an hour", seconds: 3_600, begin() {} };
/** Two controllers' leases are three times as many requests as 20 nodes make. */
const { lease: LEASE, ...WITHOUT_LEASES } = PATTERNS.now;
const PATTERN: Pattern = {
  ...WITHOUT_LEASES,
  giveBack: { afterMs: RETURN_MS, ampleMs: RETURN_MS, jitter: 1 },
};

interface Comparison {
  readonly product: Outcome;
  readonly table: Outcome;
  /** Of the coilds. */
  readonly requests: readonly CountedRequest[];
  readonly of: (role: ProductRole) => readonly CountedRequest[];
  /** At the end. */
  readonly cluster: ProductCluster;
}

async function compare(
  scenario: Scenario,
  { warmUpMs }: { readonly warmUpMs: number },
): Promise<Comparison> {
  const requests: (CountedRequest & { readonly role: ProductRole })[] = [];
  const clusters: ProductCluster[] = [];
  const product = await runProduct(scenario, {
    size: SIZE,
    seed: 1,
    warmUpMs,
    flags: [`--block-return-delay=${RETURN_MS}ms`],
    onRequest: (request, role) => void requests.push({ ...request, role }),
    onEnd: (ended) => void clusters.push(ended),
  });
  const table = runScenario(scenario, {
    size: SIZE,
    pattern: PATTERN,
    seed: 1,
  });
  const of = (role: ProductRole) => requests.filter((r) => r.role === role);
  const [cluster] = clusters;
  assert.ok(cluster);
  return { product, table, requests: of("coild"), of, cluster };
}

function scenarioOf(name: string): Scenario {
  const found = SCENARIOS.find((s) => s.name === name);
  assert.ok(found, name);
  return found;
}

/** The two differ by such a part at most: other pods come, by chance. */
function assertNear(
  what: string,
  { is, wanted, part }: {
    readonly is: number;
    readonly wanted: number;
    readonly part: number;
  },
): void {
  const text = `${what}: ${is}, by the table ${wanted}`;
  assert.ok(Math.abs(is - wanted) <= part * wanted, text);
}

const isWatch = ({ query }: CountedRequest) => query.has("watch");
const isAbout = (plural: string) => (request: CountedRequest) =>
  request.plural === plural;
const isLook = (request: CountedRequest) =>
  request.plural === "addressblocks" &&
  request.query.get("resourceVersion") === "0";
const isList = ({ method, name, query }: CountedRequest) =>
  method === "GET" && name === undefined && !query.has("watch");

async function run(
  t: Deno.TestContext,
  name: string,
  scenario: Scenario,
  { warmUpMs, steps }: {
    readonly warmUpMs: number;
    readonly steps: Readonly<Record<string, (c: Comparison) => void>>;
  },
) {
  const compared = await compare(scenario, { warmUpMs });
  for (const [step, check] of Object.entries(steps)) {
    await t.step(`${name}: ${step}`, () => check(compared));
  }
}

function assertSameWatches({ requests, of }: Comparison): void {
  const { coild, egress, router, gateway, controller } = PATTERN;
  const wanted = (kinds: readonly WatchKind[]) =>
    new Set(kinds.map(({ type, by }) => `${type.plural} by ${by}`));
  const watched = (all: readonly CountedRequest[]) =>
    new Set(all.filter(isWatch).map(({ plural, by }) => `${plural} by ${by}`));
  const ofCoild = wanted([...coild, ...egress]).add("blockrequests by name");
  assert.deepEqual(watched(requests), ofCoild);
  assert.deepEqual(watched(of("coil-router")), wanted(router));
  assert.deepEqual(watched(of("coil-egress")), wanted(gateway));
  assert.deepEqual(watched(of("coil-controller")), wanted(controller));
}

/** Clients come and go; the number of an Egress' clients is written once in a while. */
function assertSameEgress({ of, product }: Comparison): void {
  const requests = of("coil-controller");
  const writesOf = (plural: string) =>
    requests.filter((r) => r.method !== "GET" && r.plural === plural);
  const { clients, pods } = SIZE;
  assertNear("slices", {
    is: writesOf("egressclientslices").length,
    wanted: WRITES_OF_CLIENT * product.starts * clients / pods,
    part: 0.3,
  });
  assertNear("statuses of Egresses", {
    is: writesOf("egresses").length,
    wanted: HOUR.seconds * egressStatusesS(SIZE, PATTERN, { rush: 1 }),
    part: 0.3,
  });
  for (const plural of ["deployments", "services", "rolebindings"]) {
    assert.deepEqual(writesOf(plural), [], plural);
  }
}

/** Each of so many daemons has the one watch, and asks for nothing besides. */
function assertOnlyWatches(
  requests: readonly CountedRequest[],
  daemons: number,
): void {
  assert.deepEqual(requests.filter((request) => !isWatch(request)), []);
  const wanted = daemons * HOUR.seconds / WATCH_S;
  assertNear("watches", { is: requests.length, wanted, part: 0.15 });
}

/** The two are the same but for a few, which came or went a moment ago. */
function assertSameBut(
  few: number,
  what: string,
  { is, wanted }: {
    readonly is: readonly string[];
    readonly wanted: readonly string[];
  },
): void {
  assert.ok(wanted.length > 10 * few, `${what}: ${wanted.length}`);
  const others = [...new Set(is).symmetricDifference(new Set(wanted))];
  assert.ok(others.length <= few, `${what}: not in both: ${others}`);
}

/** Routes lead to all blocks but the node's own. */
function assertRouters({ of, cluster }: Comparison): void {
  assertOnlyWatches(of("coil-router"), NODES);
  const addresses = new Map(
    cluster.list("nodes").map((node) =>
      [node.metadata.name, internalAddresses(node as V1Node).ipv4] as const
    ),
  );
  const blocks = cluster.list("addressblocks")
    .map((block) => blockOf(block as unknown as AddressBlock));
  for (const { name, router } of cluster.nodes) {
    const wanted = blocks.filter(({ node }) => node !== name)
      .map(({ node, prefixes }) =>
        `${prefixes.ipv4} via ${addresses.get(node)}`
      );
    // A block comes or goes every 23 s, and a router pauses for 0.5 s at most.
    assertSameBut(1, `routes of ${name}`, { is: router.routes, wanted });
  }
}

/** In the sample all clients are those of the same gateways. */
function assertGateways({ of, cluster }: Comparison): void {
  const { gateways } = cluster;
  assert.equal(gateways.length, gatewaysOf(SIZE));
  assertOnlyWatches(of("coil-egress"), gateways.length);
  const wanted = cluster.list("pods").filter(isClient).flatMap(addressesOf);
  for (const { served } of gateways) {
    // One comes or goes once in a minute.
    assertSameBut(1, "addresses served", { is: served, wanted });
  }
}

function assertSameCounts({ product, table }: Comparison): void {
  assertNear("watches", {
    is: product.watches,
    wanted: table.watches,
    part: 0.1,
  });
  const parts = {
    requests: 0.1,
    compared: 0.15,
    sent: 0.1,
    bytes: 0.15,
    seatS: 0.35,
    busyMs: 0.1,
  };
  for (const [count, part] of Object.entries(parts)) {
    const key = count as keyof typeof parts;
    const [is, wanted] = [product.mean[key], table.mean[key]];
    assertNear(key, { is, wanted, part });
  }
  for (const key of ["obtained", "givenBack"] as const) {
    assertNear(key, { is: product[key], wanted: table[key], part: 0.3 });
  }
}

function assertSameRequests({ product, requests }: Comparison): void {
  const times = (fits: (request: CountedRequest) => boolean) =>
    requests.filter(fits).length;
  const { look, listS = NaN, servicesS = NaN, cycle } = PATTERN;
  const { seconds } = HOUR;
  const near = (what: string, is: number, wanted: number, part: number) =>
    assertNear(what, { is, wanted, part });
  near("looks", times(isLook), product.blocks * seconds / look.everyS, 0.1);
  near("lists", times(isList), NODES * seconds / listS, 0.3);
  const services = NODES * egressesOfNode(SIZE) * seconds / servicesS;
  near("Services", times(isAbout("services")), services, 0.3);
  const isOfBlocks = (request: CountedRequest) =>
    /block/.test(request.plural) && !isLook(request) && !isList(request);
  const sum = (writes: Readonly<Record<string, number>>) =>
    Object.values(writes).reduce((a, b) => a + b, 0);
  // The controller creates the block and writes the answer.
  const obtain = cycle.reads.obtain + sum(cycle.writes.obtain) - 2;
  const giveBack = cycle.reads.giveBack + sum(cycle.writes.giveBack);
  const { obtained, givenBack } = product;
  const wanted = obtained * obtain + givenBack * giveBack;
  near("requests about blocks", times(isOfBlocks), wanted, 0.03);
  // An Egress of a namespace that is not followed yet.
  const others = times((r) =>
    !isWatch(r) && !isLook(r) && !isList(r) && !isOfBlocks(r) &&
    r.plural !== "services"
  );
  assert.ok(others < 0.02 * requests.length, `${others} other requests`);
}

/** All coilds have started together, and their blocks came within a minute. */
function assertSpread({ requests }: Comparison): void {
  const WINDOW_MS = 30_000;
  const counts = new Map<number, number>();
  for (const { atMs } of requests.filter(isLook)) {
    const at = Math.floor(atMs / WINDOW_MS);
    counts.set(at, (counts.get(at) ?? 0) + 1);
  }
  const mean = requests.filter(isLook).length * WINDOW_MS /
    (1000 * HOUR.seconds);
  const most = Math.max(...counts.values());
  assert.ok(most < 2 * mean, `${most} looks in half a minute, ${mean} usually`);
}

const UNCHECKED = { sanitizeOps: false, sanitizeResources: false };

Deno.test({
  name: "product: the same seed counts the same",
  ...UNCHECKED,
  fn: async () => {
    const scenario = { ...HOUR, seconds: 300 };
    const size = sampleOf(LARGE, 3);
    const options = { size, seed: 1, warmUpMs: 90_000 };
    const first = await runProduct(scenario, options);
    assert.ok(first.obtained + first.starts > 0);
    assert.deepEqual(await runProduct(scenario, options), first);
  },
});

Deno.test({
  name: "product: an hour of 20 nodes is as the table says",
  ...UNCHECKED,
  fn: (t) =>
    run(t, "an hour", HOUR, {
      warmUpMs: 1_500_000,
      steps: {
        "each watch is one of the table's": assertSameWatches,
        "the server counts the same": assertSameCounts,
        "coilds make the table's requests": assertSameRequests,
        "coil-routers only watch": assertRouters,
        "gateways only watch": assertGateways,
        "coil-controller writes clients and statuses": assertSameEgress,
        "looks are spread": assertSpread,
      },
    }),
});

Deno.test({
  name: "product: an API server that was away is asked as the table says",
  ...UNCHECKED,
  fn: (t) =>
    run(t, "a restart", scenarioOf("API servers away for 10 s"), {
      warmUpMs: 300_000,
      steps: {
        "each watch reads all objects once more, and nothing is listed"(
          { product, requests, of },
        ) {
          const all = [
            ...requests,
            ...of("coil-router"),
            ...of("coil-egress"),
          ].filter(({ query }) => query.has("sendInitialEvents"));
          const controllers = PATTERN.controllers * PATTERN.controller.length;
          assertNear("watches that read all", {
            is: all.length,
            wanted: product.watches - controllers,
            part: 0.05,
          });
          assert.ok(requests.filter(isList).length <= 0.2 * NODES);
        },
        "the worst second is no worse"({ product, table }) {
          const { requests } = table.peak;
          const is = product.peak.requests;
          assert.ok(is < 1.7 * requests, `${is} requests, ${requests}`);
          assertNear("processor time", {
            is: product.mean.busyMs,
            wanted: table.mean.busyMs,
            part: 0.2,
          });
        },
      },
    }),
});

Deno.test({
  name: "product: a leader that is killed is followed after its lease's time",
  ...UNCHECKED,
  fn: async () => {
    const leases: CountedRequest[] = [];
    const scenario = scenarioOf("controller fails over");
    const size = sampleOf(LARGE, 3);
    const { seconds } = scenario;
    await runProduct(scenario, {
      size,
      seed: 1,
      warmUpMs: 90_000,
      hasLeases: true,
      onRequest: (r) => void (r.plural === "leases" && leases.push(r)),
    });
    const writes = leases.filter(({ method }) => method === "PUT");
    const reads = leases.filter(({ method }) => method === "GET");
    const names = new Set(leases.map(({ name }) => name));
    assert.equal(names.size, LEASE?.leases);
    const { leases: each = NaN, renewS = NaN, waitS = NaN } = LEASE ?? {};
    // For a while no controller leads; then one leads without a standby.
    const renewedS = seconds - LEASE_MS / 1000;
    const waitedS = seconds - RESTART_MS / 1000;
    assertNear("renewals", {
      is: writes.length,
      wanted: each * renewedS / renewS,
      part: 0.05,
    });
    assertNear("looks", {
      is: reads.length,
      wanted: each * waitedS / waitS,
      part: 0.05,
    });
    for (const name of names) {
      const atMs = writes.filter((r) => r.name === name).map((r) => r.atMs);
      const gapsMs = atMs.map((ms, i) => ms - (atMs[i - 1] ?? ms));
      const gapMs = Math.max(...gapsMs);
      assertNear("no renewal", { is: gapMs, wanted: LEASE_MS, part: 0.1 });
    }
  },
});

Deno.test({
  name: "product: nodes that are refused a block ask as the table says",
  ...UNCHECKED,
  fn: (t) =>
    run(t, "a pool used up", scenarioOf("a pool used up"), {
      warmUpMs: 1_500_000,
      steps: {
        "as many requests are refused"({ product, table }) {
          const [is, wanted] = [product.refused, table.refused];
          assertNear("refused", { is, wanted, part: 0.2 });
        },
        "the server counts the same"({ product, table }) {
          for (const key of ["requests", "sent"] as const) {
            const [is, wanted] = [product.mean[key], table.mean[key]];
            assertNear(key, { is, wanted, part: 0.15 });
          }
        },
      },
    }),
});
