import {
  ConntrackSocket,
  type ConntrackTuple,
  type Link,
  NetlinkError,
} from "../../netlink/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";

/** IPPROTO_UDP. */
const UDP = 17;

/**
 * Makes the node forget what it translated for tunnels that are about to go.
 *
 * A Service that gets another ClusterIP may keep its gateways. With a fixed
 * source port the packets to the new address then look, translated, as those to
 * the old one did, which the kernel goes on tracking for as long as the gateways
 * answer: it would drop every packet of the new tunnel. Proxies do not care
 * about Services that are gone.
 *
 * Works in the process' own network namespace, the node's. What cannot be
 * forgotten is logged: it goes by itself after some minutes.
 */
export async function forgetTunnels(links: readonly Link[]): Promise<void> {
  const tuples = links.flatMap(tupleOf);
  if (tuples.length === 0) return;
  try {
    await using conntrack = ConntrackSocket.open();
    for (const tuple of tuples) await conntrack.delete(tuple);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    getLogger("egress").warn("Failed to forget an old tunnel's translation", {
      err: error,
    });
  }
}

/** How a tunnel's packets leave the pod; none where each flow has a port of its own. */
function tupleOf({ tunnel }: Link): ConntrackTuple[] {
  const { local, remote, encap } = tunnel ?? {};
  if (local === undefined || remote === undefined) return [];
  if (encap === undefined || encap.sourcePort === "auto") return [];
  const { sourcePort, destinationPort } = encap;
  const ports = { sourcePort, destinationPort };
  return [{ protocol: UDP, source: local, destination: remote, ...ports }];
}
