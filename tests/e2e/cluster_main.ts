// Starts a cluster with a running pod and stays, until it is killed.
import { KubeClient } from "../../lib/kube/mod.ts";
import { Cluster } from "../lab/cluster/mod.ts";
import { PodRunner } from "./pods.ts";

const [name = ""] = Deno.args;
const cluster = await Cluster.start({ name, nodes: 1 });
const { plane } = cluster;
const client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
const pods = new PodRunner(plane, client);
const [node] = cluster.nodes;
// In the host's network: there is no plugin.
await pods.run({ name: "pod", hostNetwork: true, node: node?.name ?? "" });
const init = await Deno.readLink(node?.file("/proc/1/ns/pid") ?? "");
Deno.stdout.writeSync(new TextEncoder().encode(`${init}\n`));
await new Promise(() => setInterval(() => {}, 60_000));
