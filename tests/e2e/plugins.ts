// Coil, and Debian's bridge plugin in its place on the same node.
import { eventually } from "../lab/mod.ts";
import { networkNames } from "./cri.ts";
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

/** Name of Coil's network, as the manifests have it, and of the one in its place. */
const [COIL_NETWORK, BRIDGE_NETWORK] = ["k8s-pod-network", "bridge"];
const BRIDGE_SUBNETS = ["10.110.0.0/16", "fd02:6e::/112"] as const;

/** Debian's bridge plugin, with its addresses; the rest as in Coil's configuration. */
const BRIDGE_CONFIGURATION = {
  cniVersion: "1.0.0",
  name: BRIDGE_NETWORK,
  plugins: [{
    type: "bridge",
    bridge: "cni0",
    isGateway: true,
    ipam: {
      type: "host-local",
      ranges: BRIDGE_SUBNETS.map((subnet) => [{ subnet }]),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  }, { type: "portmap", capabilities: { portMappings: true } }],
};

/** Gives node1 the bridge plugin in Coil's place, until disposed of; containerd knows it when this returns. */
async function bridgeInstead(site: Installation): Promise<AsyncDisposable> {
  const directory = `${site.node(1).directory}/cni-conf`;
  const [coil, away] = [
    `${directory}/10-coil.conflist`,
    `${directory}/10-coil.conflist.away`,
  ];
  const bridge = `${directory}/20-bridge.conflist`;
  await using undo = new AsyncDisposableStack();
  await Deno.writeTextFile(bridge, JSON.stringify(BRIDGE_CONFIGURATION));
  undo.defer(() => Deno.remove(bridge));
  await Deno.rename(coil, away);
  undo.defer(async () => {
    await Deno.rename(away, coil);
    await usesNetwork(site, COIL_NETWORK);
  });
  await usesNetwork(site, BRIDGE_NETWORK);
  return undo.move();
}

/** Waits until node1's containerd, which sees changed files by itself, puts pods into this network. */
async function usesNetwork(
  site: Installation,
  name: string,
): Promise<void> {
  await eventually(`containerd to use network "${name}"`, async () => {
    const names = await networkNames(site.node(1));
    return names.includes(name);
  }, { timeoutMs: 60_000 });
}

/** By the manifests; it only has to be in force again. */
export const COIL: Plugin = {
  name: "Coil",
  subnets: [POOL.ipv4, POOL.ipv6],
  use: async (site) => {
    await usesNetwork(site, COIL_NETWORK);
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
