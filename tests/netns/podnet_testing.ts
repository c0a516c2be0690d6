import { Address, type DualStack } from "../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  PodNetwork,
  type PodNetworkOptions,
  type SetupRequest,
  type SetupResult,
} from "../../lib/podnet/mod.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** The addresses of the node in these tests. */
export const NODE: { readonly ipv4: Address; readonly ipv6: Address } = {
  ipv4: Address.parse("10.20.30.41"),
  ipv6: Address.parse("fd10::41"),
};

/** A network namespace that plays the host, with a pod network in it. */
export interface TestNode extends AsyncDisposable {
  readonly host: TempNetns;
  readonly net: PodNetwork;
  /** Another pod network on the same host, as after a restart of the daemon. */
  restart(options?: PodNetworkOptions): PodNetwork;
  /** A pod's network namespace, gone with the node. */
  pod(): Promise<TempNetns>;
}

/** Makes a node with one interface, `node0`, that has both of the node's addresses. */
export async function testNode(
  options: PodNetworkOptions & { readonly bare?: boolean } = {},
): Promise<TestNode> {
  const { bare, ...rest } = options;
  const stack = new AsyncDisposableStack();
  const host = stack.use(await tempNetns("host"));
  if (!bare) {
    await host.ip("link", "add", "node0", "type", "bridge");
    await host.ip("address", "add", `${NODE.ipv4}/24`, "dev", "node0");
    await host.ip("address", "add", `${NODE.ipv6}/64`, "dev", "node0", "nodad");
    await host.ip("link", "set", "node0", "up");
  }
  const hostNetns = stack.use(Netns.open(host.path));
  const restart = (changes: PodNetworkOptions = {}) =>
    stack.use(
      PodNetwork.open({
        hostNetns,
        nodeAddresses: bare ? {} : NODE,
        ...rest,
        ...changes,
      }),
    );
  return {
    host,
    net: restart(),
    restart,
    pod: async () => stack.use(await tempNetns("pod")),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Addresses by number: 10.1.2.N and fd02::N in hexadecimal. */
export function addressesOf(
  n: number,
  families: "ipv4" | "ipv6" | "dual" = "dual",
): DualStack<Address> {
  const ipv4 = Address.parse(`10.1.2.${n}`);
  const ipv6 = Address.parse(`fd02::${n.toString(16)}`);
  if (families === "dual") return { ipv4, ipv6 };
  return families === "ipv4" ? { ipv4 } : { ipv6 };
}

/** A request for pod number N of the pool "default". */
export function requestFor(
  n: number,
  netns: TempNetns,
  changes: Partial<SetupRequest> = {},
): SetupRequest {
  return {
    pool: "default",
    containerId: `cid${n}`,
    ifname: "eth0",
    netnsPath: netns.path,
    addresses: addressesOf(n),
    ...changes,
  };
}

/** Makes a pod's network in a fresh namespace. */
export async function addPod(
  node: TestNode,
  n: number,
  changes: Partial<SetupRequest> = {},
): Promise<{ pod: TempNetns; request: SetupRequest; result: SetupResult }> {
  const pod = await node.pod();
  const request = requestFor(n, pod, changes);
  return { pod, request, result: await node.net.setup(request) };
}

/** Makes a veth that is nobody's; its other end has a "p" behind the name. */
export async function addVeth(host: TempNetns, name: string): Promise<void> {
  await host.ip(
    ...["link", "add", name, "type", "veth", "peer", "name", `${name}p`],
  );
}

/** Names of the links of a namespace, without the loopback and the node's own. */
export async function linkNames(netns: TempNetns): Promise<string[]> {
  const links = await netns.ipJson("link", "show");
  return links.map(({ ifname }) => String(ifname))
    .filter((name) => name !== "lo" && name !== "node0").toSorted();
}

/** The routes of a table, sorted, as `ip` prints them. */
export async function routesOf(
  netns: TempNetns,
  table: number | string,
): Promise<string[]> {
  const lines: string[] = [];
  for (const family of ["-4", "-6"]) {
    const { stdout } = await netns.tryExec(
      "ip",
      family,
      "route",
      "show",
      "table",
      String(table),
    );
    lines.push(...stdout.split("\n"));
  }
  return lines.map((line) => line.trim().replaceAll(/ +/g, " "))
    .filter((line) => line !== "").toSorted();
}

/** One echo request, no second chance: fails when the first packet or its answer is lost. */
export async function ping(from: TempNetns, to: unknown): Promise<void> {
  await from.exec("ping", "-n", "-q", "-c", "1", "-w", "20", String(to));
}
