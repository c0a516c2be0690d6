import assert from "node:assert/strict";
import { abortable, withTimeout } from "../../lib/async/mod.ts";
import { Address, type Family, Prefix } from "../../lib/inet/mod.ts";
import { inNetns, Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  applyClient,
  type ApplyOptions,
  type ClientGateway,
  type ClientPlan,
  type ClientReport,
  type ClientRequest,
  planClient,
} from "../../lib/egress/mod.ts";
import { run } from "../lab/mod.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** Addresses of the pod, and of a host outside that is one hop away. */
export const HOSTS = {
  pod: { ipv4: "10.1.2.3", ipv6: "fd02::1" },
  outside: { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" },
} as const;

/** A pod as coild makes it, joined with a host outside. */
export interface PodLab extends AsyncDisposable {
  readonly pod: TempNetns;
  readonly outside: TempNetns;
  /** The pod's namespace, open. */
  readonly netns: Netns;
  /** The outside's namespace, open. */
  readonly outsideNetns: Netns;
  /** Plans and applies. */
  apply(
    gateways: readonly ClientGateway[],
    changes?: Partial<ClientRequest>,
  ): Promise<ClientReport>;
}

/** Makes the pod and the host outside. */
export async function podLab(): Promise<PodLab> {
  await using stack = new AsyncDisposableStack();
  const pod = stack.use(await tempNetns("pod"));
  const outside = stack.use(await tempNetns("outside"));
  await shell(outside, joinScript(pod));
  const netns = stack.use(Netns.open(pod.path));
  const outsideNetns = stack.use(Netns.open(outside.path));
  const resources = stack.move();
  return {
    pod,
    outside,
    netns,
    outsideNetns,
    apply: (gateways, changes) => apply(netns, planOf(gateways, changes)),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Applies a plan and returns what was done. */
export function apply(netns: Netns, plan: ClientPlan): Promise<ClientReport> {
  return applyClient(plan, { netns });
}

/** The plan of the lab's pod. */
export function planOf(
  gateways: readonly ClientGateway[],
  changes: Partial<ClientRequest> = {},
): ClientPlan {
  return planClient({
    addresses: {
      ipv4: Address.parse(HOSTS.pod.ipv4),
      ipv6: Address.parse(HOSTS.pod.ipv6),
    },
    ifname: "eth0",
    mtu: 0,
    port: 5555,
    gateways,
    originatingOnly: false,
    ...changes,
  });
}

/** An Egress that has no Service: its destinations are refused, and no tunnel is needed. */
export function missingGateway(
  destinations: readonly string[],
  changes: Partial<ClientGateway> = {},
): ClientGateway {
  return {
    name: "internet/egress",
    service: {},
    destinations: destinations.map(Prefix.parse),
    sourcePortAuto: true,
    senders: [],
    available: [],
    failurePolicy: "Closed",
    ...changes,
  };
}

/** Runs a shell script in a namespace, and fails when one of its commands does. */
export function shell(netns: TempNetns, script: string): Promise<string> {
  return netns.exec("sh", "-euc", script);
}

function joinScript(pod: TempNetns): string {
  const inPod = `ip -n ${pod.name}`;
  return `
    ip link add pod0 type veth peer name eth0 netns ${pod.name}
    ip address add 169.254.1.1/32 dev pod0 scope link
    ip address add ${HOSTS.outside.ipv4}/32 dev pod0
    ip address add ${HOSTS.outside.ipv6}/128 dev pod0 nodad
    ip address add fe80::1/64 dev pod0 nodad
    ip link set pod0 up
    ip route add ${HOSTS.pod.ipv4} dev pod0 src ${HOSTS.outside.ipv4}
    ip -6 route add ${HOSTS.pod.ipv6} dev pod0 src ${HOSTS.outside.ipv6}
    ${inPod} address add ${HOSTS.pod.ipv4}/32 dev eth0
    ${inPod} address add ${HOSTS.pod.ipv6}/128 dev eth0 nodad
    ${inPod} address add fe80::2/64 dev eth0 nodad
    ${inPod} link set eth0 up
    ${inPod} route add 169.254.1.1 dev eth0 scope link
    ${inPod} route add default via 169.254.1.1
    ${inPod} -6 route add default via fe80::1 dev eth0`;
}

/** What `ip` and `nft` show of a client, without what depends on the order in which things were made. */
export async function clientState(netns: TempNetns): Promise<string> {
  const links = await netns.ipJson("link", "show");
  const names = new Map(
    links.map(({ ifindex, ifname }) => [String(ifindex), String(ifname)]),
  );
  // Few processes, each of which asks for much: the virtual machine of suite vm takes ten times longer to start one.
  const text = [
    ...await rulesAndRoutes(netns, "-4"),
    ...await rulesAndRoutes(netns, "-6"),
    ...linksOfKinds(await netns.ip("-o", "-d", "link", "show"), links),
    // A kernel without FoU has none.
    ...(await netns.tryExec("ip", "fou", "show")).stdout.split("\n").sort(),
  ].join("\n");
  const { stdout: table } = await netns.tryExec(
    ...["nft", "list", "table", "inet", "coil"] as const,
  );
  return normalise(`${text}\n${sortObjects(table)}`, names);
}

async function rulesAndRoutes(
  netns: TempNetns,
  family: "-4" | "-6",
): Promise<string[]> {
  const text = await run("ip", [family, "-n", netns.name, "-batch", "-"], {
    stdin: "rule show\nroute show table all",
  });
  const lines = text.split("\n");
  return [
    ...lines.filter((line) => /^\d+:/.test(line) && !OWN_RULES.test(line)),
    ...lines.filter((line) => / table (117|118|10\d\d|[234]\d{9}) /.test(line)),
  ];
}

/** What each namespace has. */
const OWN_RULES = /^(0|32766|32767):/;

/** Their lines, without the index that each begins with. */
function linksOfKinds(
  text: string,
  links: readonly Readonly<Record<string, unknown>>[],
): string[] {
  const lines = new Map(
    text.split("\n").map((line) => [/^\d+/.exec(line)?.[0], line]),
  );
  return ["ipip", "ip6tnl", "dummy"].flatMap((kind) =>
    links.filter(({ linkinfo }) =>
      (linkinfo as { readonly info_kind?: string } | undefined)?.info_kind ===
        kind
    ).map(({ ifindex }) =>
      lines.get(String(ifindex))?.replace(/^\d+: /, "") ?? ""
    ).sort()
  );
}

/** The kernel lists the sets and chains of a table in the order in which they were made. */
function sortObjects(table: string): string {
  const [first, ...objects] = table.split(/^(?=\t(?:counter|set|map|chain) )/m);
  return [first, ...objects.map((object) => object.replace(/^}$/m, "")).sort()]
    .join("");
}

/** Numbers of links become their names; what grows by itself goes. */
function normalise(text: string, names: ReadonlyMap<string, string>): string {
  return text
    .replaceAll(/ permaddr \S+/g, "")
    .replaceAll(/ (encap-remcsum|noencap-remcsum) /g, " ")
    // Upstream Coil's take other protocols as well; that cannot be changed, and the nft table refuses those.
    .replaceAll(/ (ipip|ip6tnl external) (any|ipip|ip6ip6) /g, " $1 P ")
    .replaceAll(/ ipip external (any|ipip) /g, " ipip external P ")
    .replaceAll(/packets \d+ bytes \d+/g, "packets N bytes N")
    .replaceAll(/\b(fwmark|mark(?: set)?) 0x0*([0-9a-f]+)/g, (_, word, hex) => {
      const number = String(parseInt(hex, 16));
      return `${word} ${names.get(number) ?? number}`;
    })
    .replaceAll(/\b(lookup|table) 1(\d\d\d)\b/g, (_, word, index) => {
      const name = names.get(String(Number(index)));
      return `${word} of-${name ?? index}`;
    })
    .split("\n").map((line) => line.trimEnd()).filter((line) => line !== "")
    .join("\n");
}

/** Links of a namespace by name with their index: a link recreated has another one. */
export async function linkIndexes(
  netns: TempNetns,
): Promise<Record<string, number>> {
  const links = await netns.ipJson("link", "show");
  return Object.fromEntries(
    links.map(({ ifname, ifindex }) => [String(ifname), Number(ifindex)]),
  );
}

/** Connects within a namespace; the socket is made there at once. */
export function connectIn(
  netns: Netns,
  to: { readonly hostname: string; readonly port: number },
): Promise<Deno.TcpConn> {
  return inNetns(netns, () => ({ connection: Deno.connect(to) })).connection;
}

/** Listens within a namespace on all addresses of a family; without a port on any. */
export function listenIn(
  netns: Netns,
  family: Family,
  { port = 0 }: { readonly port?: number } = {},
): Deno.TcpListener {
  const hostname = family === "ipv4" ? "0.0.0.0" : "::";
  return inNetns(netns, () => Deno.listen({ hostname, port }));
}

/**
 * Applies a plan, and stops before step number `steps` as if the process had
 * been killed there. False when it came to the end.
 */
export async function applyCut(
  plan: ClientPlan,
  options: ApplyOptions & { readonly steps: number },
): Promise<boolean> {
  const controller = new AbortController();
  const { signal } = controller;
  let left = options.steps;
  // It is asked before each step.
  signal.throwIfAborted = () => {
    if (left-- === 0) controller.abort();
    AbortSignal.prototype.throwIfAborted.call(signal);
  };
  try {
    await applyClient(plan, { ...options, signal });
    return false;
  } catch (error) {
    if (!signal.aborted) throw error;
    return true;
  }
}

/** Connects from the pod to outside; what is sent arrives. */
export async function reach(lab: PodLab, family: Family): Promise<void> {
  const { netns, outsideNetns } = lab;
  using listener = listenIn(outsideNetns, family);
  const hostname = HOSTS.outside[family];
  using _client = await connectIn(netns, {
    hostname,
    port: listener.addr.port,
  });
  using _server = await listener.accept();
}

/** Much longer than a byte takes, and than TCP needs to send it again. */
const ARRIVAL_MS = 60_000;

/** A connection from outside to a server in the pod, at a server's port unless another is given. */
export async function visit(
  lab: PodLab,
  family: Family,
  { port = 8080 }: { readonly port?: number } = {},
): Promise<Visit> {
  const { netns, outsideNetns } = lab;
  using listener = listenIn(netns, family, { port });
  const to = { hostname: HOSTS.pod[family], port: listener.addr.port };
  using stack = new DisposableStack();
  const outside = stack.use(await connectIn(outsideNetns, to));
  const inside = stack.use(await listener.accept());
  const resources = stack.move();
  const send = async (from: Deno.Conn, to: Deno.Conn): Promise<void> => {
    assert.equal(await from.write(new Uint8Array(1)), 1);
    const read = withTimeout(
      ARRIVAL_MS,
      (signal) => abortable(to.read(new Uint8Array(1)), signal),
    );
    assert.equal(await read, 1);
  };
  return {
    async talk(): Promise<void> {
      await send(outside, inside);
      await send(inside, outside);
    },
    push: () => send(inside, outside),
    [Symbol.dispose]: () => resources.dispose(),
  };
}

/** A connection from outside to the pod. */
export interface Visit extends Disposable {
  /** A byte each way, the first from outside. */
  talk(): Promise<void>;
  /** A byte from the pod. */
  push(): Promise<void>;
}

/**
 * Whether a connection from outside is answered. Not by ping: the kernel sends
 * IPv6 echo replies out by the way the request came, regardless of the rules.
 */
export async function answers(
  lab: PodLab,
  family: Family,
  { seconds = 60 }: { readonly seconds?: number } = {},
): Promise<boolean> {
  using listener = listenIn(lab.netns, family);
  const path = `/dev/tcp/${HOSTS.pod[family]}/${listener.addr.port}`;
  const args = [`${seconds}`, "bash", "-c", `: < ${path}`];
  return (await lab.outside.tryExec("timeout", ...args)).code === 0;
}
