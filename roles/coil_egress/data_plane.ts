import { EgressServer, planServer } from "../../lib/egress/mod.ts";
import { parseListenAddress } from "../../lib/telemetry/mod.ts";
import type { EgressOptions } from "./flags.ts";
import type { GatewayIdentity } from "./base/identity.ts";
import type { DataPlane } from "./base/ports.ts";

/** The one interface of a pod, to the clients and to the outside. */
const IFNAME = "eth0";

/** How many destinations the metrics have. */
const TOP_DESTINATIONS = 10;

/**
 * Makes a gateway of the network namespace that this runs in, or takes over
 * the one that is there with its clients. Closing it leaves it at work.
 *
 * @throws {FouUnsupportedError} when the kernel cannot do Foo over UDP
 * @throws {TypeError} when there is no such interface as a pod has
 */
export async function openDataPlane(
  { addresses }: Pick<GatewayIdentity, "addresses">,
  { fouPort: port, sourcePortAuto, maxFlowsPerClient, healthAddress }: Pick<
    EgressOptions,
    "fouPort" | "sourcePortAuto" | "maxFlowsPerClient" | "healthAddress"
  >,
): Promise<DataPlane> {
  const probePort = parseListenAddress(healthAddress)?.port;
  const server = await EgressServer.open(planServer({
    addresses,
    ifname: IFNAME,
    port,
    sourcePortAuto,
    // 0: that of the interface.
    mtu: 0,
    maxFlowsPerClient,
    probePort,
  }));
  return {
    setClients: async (clients) => void await server.setClients(clients),
    changeClients: async (change) => void await server.changeClients(change),
    readCounters: () => server.readCounters(),
    readFlows: () => server.flows({ top: TOP_DESTINATIONS }),
    readConntrack: () => server.conntrack(),
    readLimited: () => server.limitedClients(),
    readNodes: () => server.probingNodes(),
    get limits() {
      return server.limits;
    },
    upkeep: server,
    [Symbol.dispose]: () => server[Symbol.dispose](),
  };
}
