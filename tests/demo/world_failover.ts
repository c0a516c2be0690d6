// Gateways killed under the traffic of their clients.
import { jittered } from "../../lib/async/mod.ts";
import { sleep } from "../lab/mod.ts";
import { eventually } from "../lab/wait.ts";
import type { Client, EgressCluster } from "../vm/e2e_cluster.ts";
import type { Gateway } from "../vm/e2e_kubelet.ts";
import { FailoverWatch } from "../vm/failover_watch.ts";
import { failGateways } from "../vm/gateway_failures.ts";
import { OUTSIDE } from "../vm/topology.ts";
import { askTcp } from "../vm/traffic.ts";
import type { Losing, Lost } from "./world_api.ts";

/** So long everything goes well before. */
const CALM_MS = 1_000;
/** The time for an answer on a connection that has not ended: those of the Service's clients wait for ever. */
const WORKS_MS = 5_000;
/** After that nothing more is waited for. */
const WINDOW_MS = 15_000;

/** A {@link Losing}, with its sockets. */
interface LosingClient extends Omit<Losing, "pod"> {
  readonly client: Client;
}

/** What became of it, and what has the gateways replaced. */
export interface Killed {
  readonly lost: readonly Lost[];
  readonly heal: () => Promise<void>;
}

/** Kills the gateways, and waits until the clients' traffic goes on. */
export async function killUnderTraffic(
  cluster: EgressCluster,
  losing: readonly LosingClient[],
): Promise<Killed> {
  await using stack = new AsyncDisposableStack();
  const watches: {
    client: Client;
    doomed: Gateway;
    isTold: boolean;
    watch: FailoverWatch;
  }[] = [];
  for (const { client, egress, isTold } of losing) {
    const doomed = await gatewayOf(cluster, { client, egress });
    const options = { doomed, download: true };
    const watch = stack.use(await FailoverWatch.open(client, options));
    watches.push({ client, doomed, isTold, watch });
  }
  await sleep(jittered(CALM_MS));
  for (const { watch } of watches) watch.failing();
  const gateways = watches.map(({ doomed }) => doomed);
  const heal = await failGateways("kill", { cluster, gateways });
  for (const { client, isTold, watch } of watches) {
    const ended = () => !isTold || watch.hasEnded;
    await eventually(`the connection of ${client.pod.name} to end`, ended);
  }
  const isOver = () => watches.every(({ watch }) => watch.isOver);
  const options = { timeoutMs: WINDOW_MS };
  // What is not over by then is shown so.
  await eventually("the end of all gaps", isOver, options).catch(() => {});
  const seen = watches.map(async ({ client, doomed, watch }) => {
    const { gaps, connections, waiting, download = 0 } = await watch.seen({
      worksMs: WORKS_MS,
    });
    return {
      pod: client.pod.name,
      gateway: doomed.pod.name,
      poller: Math.max(...gaps),
      connections,
      download,
      waiting,
    };
  });
  return { lost: await Promise.all(seen), heal };
}

async function gatewayOf(
  cluster: EgressCluster,
  { client, egress }: Pick<LosingClient, "client" | "egress">,
): Promise<Gateway> {
  const source = await askTcp(client.sockets, OUTSIDE.ipv4.near);
  const gateway = cluster.gatewaysOf(egress)
    .find(({ pod }) => pod.addresses.includes(source));
  if (gateway !== undefined) return gateway;
  throw new Error(`${source} is not a gateway of ${egress}`);
}
