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
import type { Lost } from "./world_api.ts";

/** So long everything goes well before. */
const CALM_MS = 1_000;
/** After that nothing more is waited for. */
const WINDOW_MS = 15_000;

/** A client, and the Egress of which it loses the gateway that it uses. */
interface LosingClient {
  readonly client: Client;
  readonly egress: string;
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
  const watches: { client: Client; doomed: Gateway; watch: FailoverWatch }[] =
    [];
  for (const { client, egress } of losing) {
    const doomed = await gatewayOf(cluster, { client, egress });
    const options = { doomed, download: true };
    const watch = stack.use(await FailoverWatch.open(client, options));
    watches.push({ client, doomed, watch });
  }
  await sleep(jittered(CALM_MS));
  for (const { watch } of watches) watch.failing();
  const gateways = watches.map(({ doomed }) => doomed);
  const heal = await failGateways("kill", { cluster, gateways });
  const isOver = () => watches.every(({ watch }) => watch.isOver);
  const options = { timeoutMs: WINDOW_MS };
  // What is not over by then is shown so.
  await eventually("the end of all gaps", isOver, options).catch(() => {});
  const seen = watches.map(async ({ client, doomed, watch }) => {
    const { gaps, connections, waiting, download = 0 } = await watch.seen();
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
  { client, egress }: LosingClient,
): Promise<Gateway> {
  const source = await askTcp(client.sockets, OUTSIDE.ipv4.near);
  const gateway = cluster.gatewaysOf(egress)
    .find(({ pod }) => pod.addresses.includes(source));
  if (gateway !== undefined) return gateway;
  throw new Error(`${source} is not a gateway of ${egress}`);
}
