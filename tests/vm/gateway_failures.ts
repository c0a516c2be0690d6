// What happens to gateways in the tests: each failure, and its end.
import { PODS } from "../../lib/kube/mod.ts";
import { nft, type NftTable } from "../../lib/netlink/mod.ts";
import { run } from "../lab/mod.ts";
import type { EgressCluster } from "./e2e_cluster.ts";
import type { Gateway } from "./e2e_kubelet.ts";
import { addTables, removeTables } from "./nft_tables.ts";
import type { VmNode } from "./topology.ts";

/**
 * What happens to gateways: the process hangs; the kernel hangs; the node's link is
 * cut; the processes are killed and the namespaces' interfaces go.
 */
export const FAILURES = ["stop", "hung", "link", "kill"] as const;
export type Failure = typeof FAILURES[number];

/** A chain that drops everything. */
const DROPPING = {
  type: "filter",
  priority: -400,
  policy: "accept",
  rules: [nft.rule([nft.drop()])],
} as const;

/** What keeps a gateway's kernel from everything. */
const HUNG: NftTable = {
  family: "inet",
  name: "hung",
  counters: [],
  sets: [],
  chains: [
    { ...DROPPING, name: "incoming", hook: "prerouting" },
    { ...DROPPING, name: "outgoing", hook: "output" },
  ],
};

/** Cuts the links of nodes. Returns what ends it. */
export async function cutOff(
  nodes: readonly VmNode[],
): Promise<() => Promise<void>> {
  const set = async (state: "down" | "up") => {
    await Promise.all(
      nodes.map(({ netns }) => run("ip", ["link", "set", `${netns}p`, state])),
    );
  };
  await set("down");
  return () => set("up");
}

/** Causes a failure of gateways, all of one node where it is the link's. Returns what ends it. */
export async function failGateways(
  failure: Failure,
  { cluster, gateways }: {
    readonly cluster: EgressCluster;
    readonly gateways: readonly Gateway[];
  },
): Promise<() => Promise<void>> {
  const each = async (work: (gateway: Gateway) => unknown) => {
    await Promise.all(
      gateways.map(async (gateway) => void await work(gateway)),
    );
  };
  const netnsOf = ({ pod }: Gateway) => pod.sandbox.netns;
  switch (failure) {
    case "stop":
      await each(({ process }) => process.signal("SIGSTOP"));
      return () => each(({ process }) => process.signal("SIGCONT"));
    case "hung": {
      // All at once: a gateway that answers while another does not is a witness that the other is lost.
      const namespaces = gateways.map(netnsOf);
      await addTables(namespaces, HUNG);
      return () => removeTables(namespaces, HUNG.name);
    }
    case "link":
      return await cutOff(gateways.map(({ pod }) => pod.node));
    case "kill": {
      const cordon = cluster.kubelet.cordon();
      await each(async (gateway) => {
        await run("ip", ["-n", netnsOf(gateway), "link", "delete", "eth0"]);
        await gateway.process.kill9();
      });
      return async () => {
        await each(({ pod: { namespace, name } }) => {
          const target = { namespace, name, gracePeriodSeconds: 0 };
          return cluster.access.client.delete(PODS, target);
        });
        cordon[Symbol.dispose]();
      };
    }
  }
}
