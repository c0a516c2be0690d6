// How long traffic stands still when a gateway is lost: one Egress whose
// clients choose their gateways, and one whose clients use its Service, at the
// same time, in the virtual machine of the tests.
import { jittered } from "../../../lib/async/mod.ts";
import { sleep } from "../../lab/mod.ts";
import { eventually } from "../../lab/wait.ts";
import { announceDrain } from "../../vm/announced_drain.ts";
import { type Client, EgressCluster } from "../../vm/e2e_cluster.ts";
import type { Gateway } from "../../vm/e2e_kubelet.ts";
import { FailoverWatch, type SeenFailure } from "../../vm/failover_watch.ts";
import {
  failGateways,
  type Failure,
  FAILURES,
} from "../../vm/gateway_failures.ts";
import { OUTSIDE_NETWORKS, takeSources } from "../../vm/topology.ts";
import type { Samples } from "./samples.ts";

const MODES = ["direct", "service"] as const;
type Mode = typeof MODES[number];
const SELECTION = { direct: "Direct", service: "Service" } as const;

/** After that nothing more is waited for, and it is the figure. */
const WINDOW_MS = 20_000;
/** The time for an answer on a connection that has not ended: those of the Service's clients wait for ever. */
const WORKS_MS = 5_000;
/** The Service's proxy may break later what works at first. */
const LEAST_MS = 10_000;
/** So long everything goes well before the failure. */
const CALM_MS = 2_000;

/** Measures, most of an hour with 20 rounds; after each failure `say` gets what was seen, and `report` all that is known. */
export async function failover(options: {
  readonly rounds: number;
  readonly say: (text: string) => void;
  readonly report: (samples: Samples) => Promise<void>;
}): Promise<void> {
  await using cluster = await EgressCluster.start({ probes: "wanted" });
  const clients = {
    direct: await makeMode(cluster, "direct"),
    service: await makeMode(cluster, "service"),
  };
  await takeSources();
  const figures: Record<string, { unit: "ms" | "packets"; samples: number[] }> =
    {};
  const note = (name: string, unit: "ms" | "packets", value: number) =>
    (figures[`failover.${name}`] ??= { unit, samples: [] }).samples.push(value);
  for (let round = 0; round < options.rounds; round++) {
    for (const failure of FAILURES) {
      const { seen, commandMs } = await measure(cluster, { clients, failure });
      note(`${failure}.command`, "ms", commandMs);
      for (const [mode, each] of seen) {
        const { gaps, moved, connections, waiting, lost } = each;
        const name = `${failure}.${mode}`;
        for (const ms of gaps) note(`${name}.udp`, "ms", ms);
        for (const ms of moved) note(`${name}.udp.moved`, "ms", ms);
        note(`${name}.tcp.new`, "ms", connections);
        note(`${name}.tcp.open`, "ms", waiting ?? WINDOW_MS);
        note(`${name}.other.lost`, "packets", lost ?? 0);
      }
      const { wrong } = await takeSources();
      note("wrong", "packets", wrong);
      const text = JSON.stringify({ ...Object.fromEntries(seen), wrong });
      options.say(`round ${round}, ${failure}: ${text}`);
      await options.report(figures);
    }
    const [gateway] = await cluster.gatewaysReady("direct", 2);
    if (gateway === undefined) throw new Error("no gateway");
    const drain = await announceDrain(cluster, {
      egress: "direct",
      client: clients.direct,
      gateway,
    });
    note("drain", "ms", drain.ms);
    note("drain.call", "ms", drain.callMs);
    await drain.undo();
    await options.report(figures);
  }
}

/** An Egress with two gateways on two nodes, and a client on the first. */
async function makeMode(cluster: EgressCluster, mode: Mode): Promise<Client> {
  await cluster.createEgress(mode, {
    destinations: [OUTSIDE_NETWORKS.ipv4.near],
    replicas: 2,
    fouSourcePortAuto: true,
    gatewaySelection: SELECTION[mode],
    // So that the connections of a client of the Service use both gateways, too.
    sessionAffinity: "None",
  });
  return await cluster.createClient({ name: `${mode}-client`, egresses: mode });
}

async function measure(
  cluster: EgressCluster,
  { clients, failure }: {
    readonly clients: Readonly<Record<Mode, Client>>;
    readonly failure: Failure;
  },
): Promise<{
  readonly seen: ReadonlyMap<Mode, SeenFailure>;
  /** What the command took that causes the failure: `tcp.*` begin before it. */
  readonly commandMs: number;
}> {
  const [, node] = cluster.nodes;
  const gateways: Gateway[] = [];
  await using stack = new AsyncDisposableStack();
  const watches = new Map<Mode, FailoverWatch>();
  for (const mode of MODES) {
    const ready = await cluster.gatewaysReady(mode, 2);
    const doomed = ready.find(({ pod }) => pod.node.name === node.name);
    if (doomed === undefined) throw new Error(`no gateway on ${node.name}`);
    gateways.push(doomed);
    const options = { doomed, other: true };
    const watch = await FailoverWatch.open(clients[mode], options);
    watches.set(mode, stack.use(watch));
  }
  await sleep(jittered(CALM_MS));
  for (const watch of watches.values()) watch.failing();
  const startMs = performance.now();
  const heal = await failGateways(failure, { cluster, gateways });
  const commandMs = performance.now() - startMs;
  try {
    await sleep(LEAST_MS);
    const isOver = () => watches.values().every((watch) => watch.isOver);
    const options = { timeoutMs: WINDOW_MS - LEAST_MS };
    // After that it is the figure.
    await eventually("the end of all gaps", isOver, options).catch(() => {});
    const seen = new Map<Mode, SeenFailure>();
    for (const [mode, watch] of watches) {
      seen.set(mode, await watch.seen({ worksMs: WORKS_MS }));
    }
    return { seen, commandMs };
  } finally {
    await heal();
  }
}
