// Another network than Coil's: Debian's bridge and host-local.

/** Of the network, as runtimes know it. */
export const BRIDGE_NETWORK = "bridge";
/** What its pods' addresses are of. */
export const BRIDGE_SUBNETS = ["10.110.0.0/16", "fd02:6e::/112"] as const;
/** Sorts behind Coil's own file. */
export const BRIDGE_FILE = "20-bridge.conflist";

/** Debian's bridge plugin, with its addresses; the rest as in Coil's configuration. */
export const BRIDGE_CONFIGURATION: unknown = {
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
