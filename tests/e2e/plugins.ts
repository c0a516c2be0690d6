// Coil, and Debian's bridge plugin in its place on the same node.
import {
  BRIDGE_CONFIGURATION,
  BRIDGE_FILE,
  BRIDGE_NETWORK,
  BRIDGE_SUBNETS,
} from "./bridge_network.ts";
import { usesNetwork } from "./cri.ts";
import { type Installation, POOL } from "./installation.ts";

/** Who gives pods their network. */
export interface Plugin {
  readonly name: string;
  readonly subnets: readonly string[];
  /** Puts it in force; away again when disposed of. */
  readonly use: (site: Installation) => Promise<AsyncDisposable | undefined>;
  /** Whether coild and the API server know of its pods' addresses. */
  readonly isOurs: boolean;
}

/** Name of Coil's network, as the manifests have it. */
const COIL_NETWORK = "k8s-pod-network";

/** Gives node1 the bridge plugin in Coil's place, until disposed of; containerd knows it when this returns. */
async function bridgeInstead(site: Installation): Promise<AsyncDisposable> {
  const directory = `${site.node(1).directory}/cni-conf`;
  const [coil, away] = [
    `${directory}/10-coil.conflist`,
    `${directory}/10-coil.conflist.away`,
  ];
  const bridge = `${directory}/${BRIDGE_FILE}`;
  await using undo = new AsyncDisposableStack();
  await Deno.writeTextFile(bridge, JSON.stringify(BRIDGE_CONFIGURATION));
  undo.defer(() => Deno.remove(bridge));
  await Deno.rename(coil, away);
  undo.defer(async () => {
    await Deno.rename(away, coil);
    await usesNetwork(site.node(1), COIL_NETWORK);
  });
  await usesNetwork(site.node(1), BRIDGE_NETWORK);
  return undo.move();
}

/** By the manifests; it only has to be in force again. */
export const COIL: Plugin = {
  name: "Coil",
  subnets: [POOL.ipv4, POOL.ipv6],
  use: async (site) => {
    await usesNetwork(site.node(1), COIL_NETWORK);
    return undefined;
  },
  isOurs: true,
};
/** Debian's bridge and host-local. */
export const BRIDGE: Plugin = {
  name: "bridge",
  subnets: BRIDGE_SUBNETS,
  use: bridgeInstead,
  isOurs: false,
};
