// The peer: Debian's ptp with host-local, called the same way in the same node.
import { callPlugin, type Sandbox } from "../lab/runtime.ts";
import type { LabNode } from "../lab/mod.ts";

const PTP = "/usr/lib/cni/ptp";

/** Debian packages that the peer needs. */
export const PEER_PACKAGES: Readonly<Record<string, string>> = {
  "containernetworking-plugins": PTP,
};

/** A network of the peer; host-local keeps its state in `dataDir`. */
export function peerNetwork(
  name: string,
  options: { subnets: readonly string[]; dataDir: string },
): Record<string, unknown> {
  return {
    cniVersion: "1.0.0",
    name,
    type: "ptp",
    ipam: {
      type: "host-local",
      dataDir: options.dataDir,
      ranges: options.subnets.map((subnet) => [{ subnet }]),
      routes: [{ dst: "0.0.0.0/0" }],
    },
  };
}

/** Runs the peer once and returns what it took, in ms. */
export async function callPeer(options: {
  readonly command: "ADD" | "DEL";
  readonly node: LabNode;
  readonly sandbox: Sandbox;
  readonly config: Record<string, unknown>;
}): Promise<number> {
  const { command, node, sandbox, config } = options;
  const answer = await callPlugin({
    plugin: PTP,
    command,
    config,
    sandbox,
    nodeNetns: node.netns,
  });
  if (answer.code !== 0) {
    throw new Error(`Cannot ${command} with ptp: ${answer.stdout}`);
  }
  return answer.wallMs;
}
