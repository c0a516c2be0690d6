// The world of the egress demo: nodes with coild, gateways, pods and an outside
// network. It is made where this program runs, and does what the story asks.
import { messageOf } from "../../lib/errors/mod.ts";
import { EgressCluster } from "../vm/e2e_cluster.ts";
import type { Client } from "../vm/e2e_cluster.ts";
import { takeSources } from "../vm/topology.ts";
import { within } from "../lab/vm/deadline.ts";
import { askTcp, askUdp } from "../vm/traffic.ts";
import { killUnderTraffic } from "./world_failover.ts";
import {
  type Answer,
  type Heard,
  JsonLines,
  type Question,
  type Request,
  type WorldApi,
} from "./world_api.ts";

const TIMEOUT_MS = 3_000;
const PATIENCE_MS = 30_000;

async function hear(
  client: Client,
  { address, protocol, patient }: Omit<Question, "pod">,
): Promise<Heard> {
  const { sockets } = client;
  const timeoutMs = patient ? PATIENCE_MS : TIMEOUT_MS;
  const options = { timeoutMs };
  const started = performance.now();
  const since = () => performance.now() - started;
  try {
    const source = protocol === "tcp"
      // A connection that was made by another way may stay silent for ever.
      ? await within(timeoutMs, askTcp(sockets, address, options))
      : (await askUdp(sockets, address, options))?.source;
    if (source !== undefined) return { source, ms: since() };
    return { refusal: "no answer", ms: since() };
  } catch (error) {
    const isSilence = error instanceof Error && error.name === "TimeoutError";
    const refusal = isSilence ? "no answer" : messageOf(error);
    return { refusal, ms: since() };
  }
}

function apiOf(cluster: EgressCluster): WorldApi {
  const clients = new Map<string, Client>();
  let heal = () => Promise.resolve();
  return {
    async createPod({ name, node, egresses, firstAsks }) {
      const client = await cluster.createClient({
        name,
        node,
        report: firstAsks === undefined,
        ...(egresses === undefined ? {} : { egresses }),
      });
      clients.set(name, client);
      const heard: Heard[] = [];
      for (const address of firstAsks ?? []) {
        const question = { address, protocol: "udp", patient: true } as const;
        heard.push(await hear(client, question));
      }
      if (firstAsks !== undefined) await cluster.reportClient(client);
      const { addresses } = client.pod;
      const pod = { name, node: client.pod.node.name, addresses };
      return { pod, heard };
    },
    async ask({ pod, ...question }) {
      const client = clients.get(pod);
      if (client === undefined) throw new Error(`no pod "${pod}"`);
      return await hear(client, question);
    },
    async gateways({ egress, count }) {
      const ready = await cluster.gatewaysReady(egress, count);
      return ready.map(({ pod: { name, node, addresses } }) => ({
        name,
        node: node.name,
        addresses,
      }));
    },
    freeze({ egress, frozen }) {
      for (const { process } of cluster.gatewaysOf(egress)) {
        process.signal(frozen ? "SIGSTOP" : "SIGCONT");
      }
      return Promise.resolve();
    },
    async killGateways({ clients: losing }) {
      const killed = await killUnderTraffic(
        cluster,
        losing.map(({ pod, ...rest }) => {
          const client = clients.get(pod);
          if (client === undefined) throw new Error(`no pod "${pod}"`);
          return { client, ...rest };
        }),
      );
      heal = killed.heal;
      return killed.lost;
    },
    replaceGateways: () => heal(),
    async leaks() {
      const { wrong } = await takeSources();
      return wrong;
    },
    logs: () => cluster.logs(),
  };
}

async function answer(api: WorldApi, request: Request): Promise<Answer> {
  // Both ends are of the same sources.
  const method = api[request.name] as (argument: unknown) => Promise<unknown>;
  try {
    return { value: await method(request.argument) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

const { hostname, port } = new URL(`tcp://${Deno.args[0]}`);
const conn = await Deno.connect({ hostname, port: Number(port) });
using story = new JsonLines(conn);
const cluster = await EgressCluster.start({ probes: "wanted" }).catch(
  async (error) => {
    await story.send({ error: messageOf(error) });
    Deno.exit(1);
  },
);
await story.send({});
const api = apiOf(cluster);
while (true) {
  const request = await story.receive() as Request | undefined;
  if (request === undefined) break;
  await story.send(await answer(api, request));
}
// What is left ends with the machine or the namespaces that this runs in.
Deno.exit(0);
