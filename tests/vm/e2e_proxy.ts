// What kube-proxy does on a node for Services of one port, in its nftables
// mode: translation to a random endpoint, affinity by client address, a source
// of the node's for a pod that reaches itself, and connections of UDP forgotten
// when their endpoint serves no more.
import { CoalescedRunner, TaskGroup } from "../../lib/async/mod.ts";
import {
  ENDPOINT_SLICES,
  Informer,
  type KubeClient,
  SERVICES,
  type V1EndpointSlice,
  type V1Service,
} from "../../lib/kube/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { inNetns } from "../lab/mod.ts";
import type { VmFamily, VmNode } from "./topology.ts";

const UDP = 17;
/** As kube-proxy marks what it masquerades. */
const HAIRPIN_MARK = 0x4000;

/** A Service's address of one family, and who is behind it. */
export interface Translation {
  readonly family: VmFamily;
  readonly address: string;
  readonly protocol: "udp" | "tcp";
  readonly port: number;
  /** The endpoints' own. */
  readonly targetPort: number;
  readonly affinitySeconds?: number;
  /** Whom new connections go to. */
  readonly usable: readonly string[];
  /** Whose connections stay. */
  readonly serving: readonly string[];
}

/** Translates on some nodes for as long as it is not disposed. */
export class ServiceProxy implements AsyncDisposable {
  readonly #nodes: readonly VmNode[];
  readonly #services: Informer<V1Service>;
  readonly #slices: Informer<V1EndpointSlice>;
  readonly #stop = new AbortController();
  readonly #tasks = new TaskGroup();
  /** Chains and sets of each node, by table. */
  readonly #made = new Map<string, Set<string>>();
  #current: readonly Translation[] = [];

  constructor(client: KubeClient, nodes: readonly VmNode[]) {
    this.#nodes = nodes;
    const runner = new CoalescedRunner(() => this.#sync());
    const options = { onChange: () => runner.trigger() };
    this.#services = new Informer(client, SERVICES, options);
    this.#slices = new Informer(client, ENDPOINT_SLICES, options);
    const { signal } = this.#stop;
    this.#tasks.run("services", () => this.#services.run(signal));
    this.#tasks.run("slices", () => this.#slices.run(signal));
    this.#tasks.run("translation", () => runner.run(signal));
    runner.trigger();
  }

  /** What is in force on all nodes. */
  get translations(): readonly Translation[] {
    return this.#current;
  }

  async #sync(): Promise<void> {
    const wanted = this.#services.store.list().flatMap((service) =>
      translationsOf(service, this.#slicesOf(service))
    );
    for (const node of this.#nodes) {
      await this.#apply(node, wanted);
      await forgetStale(node, wanted);
    }
    this.#current = wanted;
  }

  #slicesOf(service: V1Service): V1EndpointSlice[] {
    const { namespace, name } = service.metadata ?? {};
    return this.#slices.store.list().filter(({ metadata }) =>
      metadata?.namespace === namespace &&
      metadata?.labels?.["kubernetes.io/service-name"] === name
    );
  }

  /** One transaction per node; sets stay, since they hold who is bound to whom. */
  async #apply(
    node: VmNode,
    wanted: readonly Translation[],
  ): Promise<void> {
    const lines: string[] = [];
    for (const family of ["ipv4", "ipv6"] as const) {
      const rows = wanted.filter((row) => row.family === family);
      const made = this.#madeOn(node, family);
      lines.push(...render(family, rows));
      const used = new Set(rows.flatMap(chainNames));
      const stale = [...made].filter((name) => !used.has(name));
      lines.push(...renderRemoval(`${KEYWORDS[family].table} proxy`, stale));
      for (const name of stale) made.delete(name);
      for (const name of used) made.add(name);
    }
    await inNetns(node.netns, "sh", [
      ...["-c", 'echo "$1" | nft -f -', "sh", lines.join("\n")],
    ]);
  }

  #madeOn(node: VmNode, family: VmFamily): Set<string> {
    const key = `${node.name} ${family}`;
    const made = this.#made.get(key) ?? new Set<string>();
    this.#made.set(key, made);
    return made;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#tasks.wait();
  }
}

const KEYWORDS = {
  ipv4: { table: "ip", type: "ipv4_addr" },
  ipv6: { table: "ip6", type: "ipv6_addr" },
} as const;

function hexOf(address: string): string {
  return address.replaceAll(/[.:]/g, "_");
}

function endpointNames(row: Translation): string[] {
  return row.usable.map((e) => `ep-${hexOf(row.address)}-${hexOf(e)}`);
}

function serviceName({ address }: Translation): string {
  return `svc-${hexOf(address)}`;
}

function chainNames(row: Translation): string[] {
  return [serviceName(row), ...endpointNames(row)];
}

/** Chains go when no other leads to them any more, sets after the chains that use them. */
function renderRemoval(table: string, chains: readonly string[]): string[] {
  const endpoints = chains.filter((name) => name.startsWith("ep-"));
  return [
    ...chains.map((name) => `flush chain ${table} ${name}`),
    ...chains.map((name) => `delete chain ${table} ${name}`),
    ...endpoints.map((name) => `delete set ${table} bound-${name}`),
  ];
}

function render(family: VmFamily, rows: readonly Translation[]): string[] {
  const { table: keyword, type } = KEYWORDS[family];
  const table = `${keyword} proxy`;
  const lines = [
    `add table ${table}`,
    `add chain ${table} postrouting { type nat hook postrouting priority srcnat; }`,
    `flush chain ${table} postrouting`,
    `add rule ${table} postrouting meta mark & ${HAIRPIN_MARK} != 0 masquerade`,
    `add map ${table} services { type ${type} . inet_proto . inet_service : verdict; }`,
    `add chain ${table} prerouting { type nat hook prerouting priority dstnat; }`,
    `flush chain ${table} prerouting`,
    `add rule ${table} prerouting ${keyword} daddr . meta l4proto . th dport vmap @services`,
    `flush map ${table} services`,
    // Services without endpoints refuse, at once.
    `add set ${table} refused { type ${type} . inet_service; }`,
    `flush set ${table} refused`,
    `add chain ${table} forward { type filter hook forward priority filter; }`,
    `flush chain ${table} forward`,
    `add rule ${table} forward ${keyword} daddr . udp dport @refused reject`,
  ];
  for (const row of rows) lines.push(...renderRow(table, row));
  return lines;
}

function renderRow(table: string, row: Translation): string[] {
  const { family, address, port, protocol, targetPort, usable } = row;
  const { affinitySeconds } = row;
  const { table: keyword, type } = KEYWORDS[family];
  const service = serviceName(row);
  const names = endpointNames(row);
  const lines = [
    `add chain ${table} ${service}`,
    `flush chain ${table} ${service}`,
  ];
  if (usable.length === 0) {
    return protocol === "tcp"
      ? lines
      : [...lines, `add element ${table} refused { ${address} . ${port} }`];
  }
  names.forEach((name, i) => {
    const to = family === "ipv6" ? `[${usable[i]}]` : usable[i];
    const seconds = affinitySeconds ?? 1;
    lines.push(
      `add set ${table} bound-${name} { type ${type}; flags dynamic,timeout; timeout ${seconds}s; }`,
      `add chain ${table} ${name}`,
      `flush chain ${table} ${name}`,
      ...(affinitySeconds === undefined ? [] : [
        `add rule ${table} ${name} update @bound-${name} { ${keyword} saddr }`,
      ]),
      `add rule ${table} ${name} ${keyword} saddr ${
        usable[i]
      } meta mark set meta mark | ${HAIRPIN_MARK}`,
      `add rule ${table} ${name} meta l4proto ${protocol} dnat to ${to}:${targetPort}`,
    );
  });
  if (affinitySeconds !== undefined) {
    for (const name of names) {
      lines.push(
        `add rule ${table} ${service} ${keyword} saddr @bound-${name} goto ${name}`,
      );
    }
  }
  const choice = names.map((name, i) => `${i} : goto ${name}`).join(", ");
  lines.push(
    `add rule ${table} ${service} numgen random mod ${names.length} vmap { ${choice} }`,
    `add element ${table} services { ${address} . ${protocol} . ${port} : goto ${service} }`,
  );
  return lines;
}

/** As kube-proxy reads Services: without a ready endpoint those that end but serve still are used. */
export function translationsOf(
  service: V1Service,
  slices: readonly V1EndpointSlice[],
): Translation[] {
  const [first] = service.spec?.ports ?? [];
  const port = first?.port ?? 0;
  const { sessionAffinity, sessionAffinityConfig } = service.spec ?? {};
  const seconds = sessionAffinityConfig?.clientIP?.timeoutSeconds ?? 10_800;
  return (service.spec?.clusterIPs ?? []).map((address) => {
    const family = address.includes(":") ? "ipv6" : "ipv4";
    const type = family === "ipv6" ? "IPv6" : "IPv4";
    const endpoints = slices.filter((s) => s.addressType === type)
      .flatMap((slice) => slice.endpoints ?? []);
    const serving = endpoints.filter((e) => e.conditions?.serving);
    const ready = endpoints.filter((e) => e.conditions?.ready);
    const usable = ready.length > 0 ? ready : serving;
    return {
      family,
      address,
      protocol: first?.protocol === "UDP" ? "udp" as const : "tcp" as const,
      port,
      targetPort: slices[0]?.ports?.[0]?.port ?? port,
      ...(sessionAffinity === "ClientIP" ? { affinitySeconds: seconds } : {}),
      usable: usable.flatMap((e) => e.addresses),
      serving: serving.flatMap((e) => e.addresses),
    };
  });
}

/** UDP has no end: what was translated to an endpoint that serves no more has to be forgotten. */
async function forgetStale(
  node: VmNode,
  wanted: readonly Translation[],
): Promise<void> {
  const serving = new Map(
    wanted.map((row) => [
      `${row.address} ${row.port}`,
      new Set(row.serving),
    ]),
  );
  using netns = Netns.open(`/run/netns/${node.netns}`);
  using conntrack = ConntrackSocket.open({ netns });
  await conntrack.deleteWhere((flow) => {
    if (flow.protocol !== UDP) return false;
    const { originalDestination, originalDestinationPort } = flow;
    const endpoints = serving.get(
      `${originalDestination} ${originalDestinationPort}`,
    );
    return endpoints !== undefined && !endpoints.has(`${flow.replySource}`);
  });
}
