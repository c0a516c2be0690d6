// What containerd itself knows of its pods, by the Container Runtime Interface
// (k8s.io/cri-api runtime.v1, api.proto): field numbers are in brackets.
import { ProtoReader } from "../../lib/bytes/mod.ts";
import { GrpcError, StatusCode } from "../../lib/grpc/mod.ts";
import { callUnary } from "../../lib/grpc/testing.ts";
import { ProtoWriter } from "./protobuf_wire.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { eventually } from "../lab/mod.ts";

/** A pod of the runtime that runs. */
export interface Sandbox {
  readonly id: string;
  readonly namespace: string;
  readonly pod: string;
  readonly uid: string;
  /** None in the node's network. */
  readonly addresses: readonly string[];
}

/** PodSandboxState: SANDBOX_READY. */
const READY = 0;

/** The sandboxes that containerd says to be ready. */
export async function listSandboxes(
  node: ClusterNode,
): Promise<readonly Sandbox[]> {
  const list = await call(node, "ListPodSandbox", new Uint8Array());
  const found: Sandbox[] = [];
  for (const item of messages(list, 1)) { // items [1]
    if (number(item, 3) !== READY) continue; // state [3]
    const id = text(item, 1); // id [1]
    found.push({ id, ...metadata(item), addresses: await addresses(node, id) });
  }
  return found;
}

/** What containerd has read from /etc/cni/net.d, as JSON. */
export async function networkConfiguration(node: ClusterNode): Promise<string> {
  const verbose = new ProtoWriter().bool(1, true).finish(); // verbose [1]
  const answer = await call(node, "Status", verbose);
  for (const entry of messages(answer, 2)) { // info [2]: key [1], value [2]
    if (text(entry, 1) === "cniconfig") return text(entry, 2);
  }
  return "";
}

/** Why containerd thinks that pods can have no network; undefined when they can. */
export async function networkProblem(
  node: ClusterNode,
): Promise<string | undefined> {
  const answer = await call(node, "Status", new Uint8Array());
  const [status = new Uint8Array()] = messages(answer, 1); // status [1]
  // conditions [1]: type [1], status [2], message [4]
  const condition = messages(status, 1)
    .find((each) => text(each, 1) === "NetworkReady");
  if (condition === undefined) return "it does not say";
  return number(condition, 2) === 1 ? undefined : text(condition, 4);
}

/** Names of the networks that containerd puts a pod into now: that of its loopback, and the one configured. */
export async function networkNames(
  node: ClusterNode,
): Promise<readonly string[]> {
  return (await networks(node)).map(({ Name }) => Name);
}

/** Types of the plugins that containerd calls for a pod now, in their order, after the loopback's. */
export async function networkPlugins(
  node: ClusterNode,
): Promise<readonly string[]> {
  return (await networks(node)).flatMap(({ Plugins }) => Plugins)
    .map(({ Network }) => Network.type)
    .filter((type) => type !== "loopback");
}

/** A list of plugins: go-cni's ConfNetwork, which its fields name. */
interface Network {
  readonly Name: string;
  readonly Plugins: readonly { readonly Network: { readonly type: string } }[];
}

async function networks(node: ClusterNode): Promise<readonly Network[]> {
  const read = await networkConfiguration(node);
  const { Networks } = JSON.parse(read === "" ? "{}" : read) as {
    readonly Networks?: readonly { readonly Config: Network }[];
  };
  return (Networks ?? []).map(({ Config }) => Config);
}

/** Waits until containerd, which sees changed files by itself, puts pods into this network. */
export async function usesNetwork(
  node: ClusterNode,
  name: string,
): Promise<void> {
  await eventually(`containerd to use network "${name}"`, async () => {
    const names = await networkNames(node);
    return names.includes(name);
  });
}

/** Has the node use the network of that file, which sorts before Coil's own, until it is disposed of. */
export async function useInstead(
  node: ClusterNode,
  fileName: string,
  configuration: Readonly<Record<string, unknown>> & { readonly name: string },
): Promise<AsyncDisposable> {
  const file = `${node.directory}/cni-conf/${fileName}`;
  // Its reader of changed files would see a half-written one.
  await Deno.writeTextFile(`${file}.new`, JSON.stringify(configuration));
  await Deno.rename(`${file}.new`, file);
  await usesNetwork(node, configuration.name);
  return {
    async [Symbol.asyncDispose]() {
      await Deno.remove(file);
      await usesNetwork(node, "k8s-pod-network");
    },
  };
}

/** PodSandboxMetadata, field 2 of what has it. */
function metadata(message: Uint8Array) {
  const [data = new Uint8Array()] = messages(message, 2);
  return { pod: text(data, 1), uid: text(data, 2), namespace: text(data, 3) };
}

/** PodSandboxStatusResponse: status [1], its network [5]: ip [1], additional_ips [2] with ip [1]. */
async function addresses(
  node: ClusterNode,
  id: string,
): Promise<readonly string[]> {
  const request = new ProtoWriter().string(1, id).finish();
  const answer = await call(node, "PodSandboxStatus", request)
    .catch((error) => {
      // It has gone since the list.
      if (error instanceof GrpcError && error.code === StatusCode.NOT_FOUND) {
        return new Uint8Array();
      }
      throw error;
    });
  const [status = new Uint8Array()] = messages(answer, 1);
  const [network = new Uint8Array()] = messages(status, 5);
  const more = messages(network, 2).map((ip) => text(ip, 1));
  return [text(network, 1), ...more].filter((ip) => ip !== "");
}

async function call(
  node: ClusterNode,
  verb: string,
  message: Uint8Array,
): Promise<Uint8Array> {
  return await callUnary({
    socketPath: node.file("/run/containerd/containerd.sock"),
    method: `/runtime.v1.RuntimeService/${verb}`,
    message,
  });
}

function messages(message: Uint8Array, field: number): readonly Uint8Array[] {
  const found: Uint8Array[] = [];
  const reader = new ProtoReader(message);
  while (reader.next()) if (reader.field === field) found.push(reader.bytes);
  return found;
}

function text(message: Uint8Array, field: number): string {
  const [bytes] = messages(message, field);
  return new TextDecoder().decode(bytes);
}

function number(message: Uint8Array, field: number): number {
  const reader = new ProtoReader(message);
  while (reader.next()) if (reader.field === field) return reader.number;
  return 0;
}
