// coil-egress on a kernel without Foo over UDP: all of it but the tunnel
// devices. nf_tables and routes are real; the routes lead to eth0 instead.
import {
  EgressServer,
  planServer,
  type ServerPlan,
} from "../../../lib/egress/mod.ts";
import {
  admit,
  changeClients,
  findClients,
  type FormerClients,
  type TunnelIndexes,
} from "../../../lib/egress/gateway/clients.ts";
import {
  openServerKernel,
  type ServerKernel,
} from "../../../lib/egress/gateway/kernel.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import { KubeClient, KubeMetrics } from "../../../lib/kube/mod.ts";
import { VERSION } from "../../../lib/names/mod.ts";
import {
  configureLogging,
  createRegistry,
  runDaemon,
} from "../../../lib/telemetry/mod.ts";
import type { EgressOptions } from "../../../roles/coil_egress/flags.ts";
import { readIdentity } from "../../../roles/coil_egress/base/identity.ts";
import {
  type DataPlane,
  parseEgressFlags,
  runGateway,
} from "../../../roles/coil_egress/mod.ts";

const PROGRAM = "coil-egress";

/** The gateway's half of the kernel, without tunnels. */
async function openPlane(
  plan: ServerPlan,
): Promise<DataPlane> {
  const kernel: ServerKernel = openServerKernel({});
  await kernel.netfilter.replaceTable(plan.table);
  const all = await kernel.routes.listLinks();
  const index = all.find(({ name }) => name === plan.ifname)?.index;
  if (index === undefined) throw new Error(`There is no ${plan.ifname}`);
  const links: TunnelIndexes = new Map([["ipv4", index], ["ipv6", index]]);
  const former: FormerClients = new Map();
  return {
    async setClients(addresses: readonly Address[]): Promise<void> {
      const { clients } = admit(plan, addresses);
      await findClients(kernel, plan, links);
      const add = [...clients.values()];
      await changeClients(kernel, plan, { add, remove: [], links, former });
    },
    changeClients: (change) =>
      changeClients(kernel, plan, { ...change, links, former }),
    async readCounters() {
      await kernel.netfilter.readCounters(plan.table.name);
      const none = {};
      return {
        masqueraded: none,
        invalid: none,
        unsolicited: none,
        foreignFou: none,
        limited: none,
      };
    },
    async readFlows() {
      await kernel.conntrack.visit(() => {}, { family: "ipv4" });
      return { flows: 0, established: 0, ports: [], clients: [] };
    },
    readLimited: () => Promise.resolve([]),
    readNodes: () => Promise.resolve(0),
    limits: { isSupported: true },
    readConntrack: () => kernel.conntrack.count(),
    [Symbol.dispose]: () => kernel[Symbol.dispose](),
  };
}

async function run(options: EgressOptions, signal: AbortSignal): Promise<void> {
  const identity = readIdentity(Deno.env);
  const { addresses } = identity;
  using kernel = await openPlane(
    planServer({
      addresses,
      ifname: "eth0",
      mtu: 0,
      port: options.fouPort,
      sourcePortAuto: options.sourcePortAuto,
    }),
  );
  const registry = createRegistry();
  using client = await KubeClient.load({
    userAgent: `${PROGRAM}/${VERSION}`,
    onRequest: new KubeMetrics(registry).onRequest,
  });
  await runGateway(
    { options, identity, kernel, client, registry },
    signal,
  );
}

// What the real role loads and this one does not use.
void EgressServer;
const options = parseEgressFlags(Deno.args, {
  program: PROGRAM,
  version: VERSION,
  about: "coil-egress without tunnels, for the bench.",
});
configureLogging(options.logging);
await runDaemon(PROGRAM, (signal) => run(options, signal), {
  graceMs: 1_000,
});
