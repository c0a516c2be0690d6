import { VpcSite } from "../../lab/cloud/site.ts";
import { cloudConfig, GROUP, SUBNET } from "../../lab/cloud/testing.ts";
import { CoilCluster, type LabPod } from "../../lab/coil.ts";
import { type LabNode, type Log, sleep } from "../../lab/mod.ts";

const RIGHTS = new URL("../../../deploy/vpc", import.meta.url).pathname;

/** Until EC2 is no longer asked for what an earlier process may have done. */
const SETTLE_MS = 12_000;

/** More than the pods of a run: those that were used lately rest. */
const WARM = ["--addresses=vpc", "--vpc-mode=prefix", "--min-ips=256"];

/** A cluster with a node with pools, three of a VPC, and one without coild. */
export interface VpcBench extends AsyncDisposable {
  readonly cluster: CoilCluster;
  readonly site: VpcSite;
  readonly nodes: Readonly<
    Record<"pools" | "vpc" | "cold" | "burst" | "upstream", LabNode>
  >;
  readonly log: Log;
}

/** Starts it, with coild on the nodes `pools` and `vpc`, which have addresses in store and are at rest. */
export async function startVpcBench(
  { name, executable, log }: {
    readonly name: string;
    readonly executable: string;
    readonly log: Log;
  },
): Promise<VpcBench> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(
    await CoilCluster.start({ name, executable, nodes: 5, log }),
  );
  const [pools, vpc, cold, burst, upstream] = cluster.nodes;
  if (!pools || !vpc || !cold || !burst || !upstream) {
    throw new Error("Cannot measure without five nodes");
  }
  const site = stack.use(await joinVpc([vpc, cold, burst], name));
  await cluster.startController();
  // coild writes what its node has.
  await cluster.plane.kubectl("apply", "-k", RIGHTS);
  await cluster.plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { blockSizeBits: 8, subnets: [{ ipv4: "10.128.0.0/16" }] },
  });
  await cluster.startCoild(pools);
  await cluster.startCoild(vpc, WARM, site.envOf(vpc));
  await site.expectLayout(vpc, [16]);
  // What an earlier process may have done is settled then, by a last look.
  await sleep(SETTLE_MS);
  const moved = stack.move();
  return {
    cluster,
    site,
    nodes: { pools, vpc, cold, burst, upstream },
    log,
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}

async function joinVpc(
  nodes: readonly LabNode[],
  name: string,
): Promise<VpcSite> {
  const of = (id: string, type: string) => (
    { id, type, subnet: SUBNET, securityGroups: [GROUP] }
  );
  const config = cloudConfig({
    subnets: [{ id: SUBNET, zone: "eu-test-1a", cidr: "10.0.16.0/20" }],
    instances: [
      of("i-0000000000000000a", "m5.24xlarge"),
      of("i-0000000000000000b", "t3.small"),
      of("i-0000000000000000c", "t3.small"),
    ],
  });
  return await VpcSite.join(nodes, { config, name });
}

/** The requests that EC2 and the metadata service get while something is done, by name. */
export async function requestsIn(
  { cloud }: VpcSite,
  work: () => Promise<void>,
): Promise<{ readonly ec2: readonly string[]; readonly imds: number }> {
  const { length } = await cloud.ask.calls(0);
  await work();
  const calls = (await cloud.ask.calls(length)).map(({ call }) => call);
  const ec2 = calls.filter((call) => !call.startsWith("IMDS"));
  return { ec2, imds: calls.length - ec2.length };
}

/** A new pod with its network. */
export async function addPod(
  { cluster }: VpcBench,
  node: LabNode,
  name: string,
): Promise<LabPod> {
  const pod = { namespace: "default", name };
  return await cluster.add(node, await cluster.createSandbox(node, pod));
}
