// TCP connections that come and go while gateways are replaced, and many at once.
import assert from "node:assert/strict";
import { settled, sleep } from "../../lib/async/mod.ts";
import type { Client } from "./e2e_cluster.ts";
import { assertWithin, eventually, lagWhile } from "../lab/mod.ts";
import { egressTest } from "./e2e_stage.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "./topology.ts";
import { echoBulk, TcpFlow } from "./traffic.ts";

/** How long a connection lasts: shorter than gateways drain. */
const VISIT_MS = 3_000;
/** In a visit, without an answer. */
const MAX_GAP_MS = 3_000;
/** A client begins one in each family this often, unless this many are under way: a slow machine is not to be flooded. */
const INTERVAL_MS = 500;
const MAX_VISITS = 32;
/** In a visit, between two lines. */
const LINE_MS = 200;
const MIB = 1 << 20;

let clients: readonly Client[];

interface Visit {
  /** The gateway that it used. */
  readonly source: string;
  readonly longestGapMs: number;
}

/** A connection from its beginning to its end. @throws {Error} when it breaks. */
async function visit(client: Client, address: string): Promise<Visit> {
  const options = { address, intervalMs: LINE_MS };
  await using flow = await TcpFlow.open(client.sockets, options);
  await sleep(VISIT_MS);
  await eventually(`an answer of ${address}, or the connection's end`, () => {
    const { answered, error } = flow.report;
    return answered > 0 || error !== undefined;
  });
  const { error, sources, longestGapMs } = flow.report;
  if (error !== undefined) throw new Error(`${address}: ${error}`);
  return { source: [...sources].join(), longestGapMs };
}

/** Visits begin until what is given has been done; what came of each. */
async function visitDuring(
  run: () => Promise<void>,
): Promise<readonly PromiseSettledResult<Visit>[]> {
  const visits: Promise<PromiseSettledResult<Visit>[]>[] = [];
  let isDone = false;
  let underWay = 0;
  const begin = (client: Client, address: string) => {
    underWay++;
    const visiting = Promise.allSettled([visit(client, address)]);
    visits.push(visiting.finally(() => underWay--));
  };
  const visiting = (async () => {
    while (!isDone) {
      for (const client of underWay < MAX_VISITS ? clients : []) {
        for (const family of VM_FAMILIES) begin(client, OUTSIDE[family].near);
      }
      await sleep(INTERVAL_MS);
    }
  })();
  try {
    await run();
  } finally {
    isDone = true;
    await visiting;
    await Promise.all(visits);
  }
  return (await Promise.all(visits)).flat();
}

egressTest("egress of TCP", {
  setUp: async (cluster) => {
    await cluster.createEgress("rolling", {
      destinations: VM_FAMILIES.map((f) => OUTSIDE_NETWORKS[f].near),
      replicas: 2,
      fouSourcePortAuto: true,
    });
    await cluster.createEgress("fixed", {
      destinations: VM_FAMILIES.map((f) => OUTSIDE_NETWORKS[f].far),
      replicas: 2,
    });
    clients = await Promise.all([0, 1].map((node) =>
      cluster.createClient({
        name: `client${node}`,
        node,
        egresses: "rolling,fixed",
      })
    ));
  },
  scenarios: {
    "rolling restart of the gateways: every connection is made, and goes on to its end":
      async (cluster) => {
        const old = cluster.gatewaysOf("rolling").flatMap(({ pod }) => [
          ...pod.addresses,
        ]);
        const { value: visits, lagMs } = await lagWhile(() =>
          visitDuring(() => cluster.replaceGateways("rolling", 2))
        );
        const broken = visits.flatMap((visit) =>
          visit.status === "rejected" ? [`${visit.reason}`] : []
        );
        assert.deepEqual(broken, [], `of ${visits.length}`);
        const made = visits.flatMap((visit) =>
          visit.status === "fulfilled" ? [visit.value] : []
        );
        const longestMs = Math.max(...made.map((each) => each.longestGapMs));
        const what = "a connection without an answer";
        assertWithin(longestMs, { what, limitMs: MAX_GAP_MS, lagMs });
        const used = new Set(made.map(({ source }) => source));
        assert.ok(old.some((a) => used.has(a)), "no old gateway was used");
        assert.ok([...used].some((a) => !old.includes(a)), "no new one was");
      },

    "E2E-13: 101 connections at once send 1 MiB and get it back, source port automatic and fixed":
      async () => {
        for (const { near, far } of Object.values(OUTSIDE)) {
          for (const address of [near, far]) {
            // Each ends before the next test begins, also when one fails.
            const echoes = await settled(
              Array.from({ length: 101 }, (_, i) => {
                const client = clients[i % clients.length];
                assert.ok(client);
                return echoBulk(client.sockets, address, MIB);
              }),
            );
            assert.deepEqual(new Set(echoes), new Set([true]), address);
          }
        }
      },
  },
});
