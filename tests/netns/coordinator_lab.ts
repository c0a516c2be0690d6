import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import type { PluginAnswer } from "../../lib/cnirpc/plugin/mod.ts";
import {
  type CoordinatorCall,
  type Outside,
  runCoordinator,
} from "../../lib/coordinator/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import type { Family } from "../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import { runPlugin } from "../../lib/plugin/mod.ts";
import { outsideOf } from "../../roles/coordinator/outside.ts";
import { run } from "../lab/command.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

/** Networks of the lab: the host's own, and two more. Network n is 10.N.0.0/24 and fd00:10:N::/64. */
export const NETWORKS = [6, 7, 8] as const;
export type NetworkNumber = typeof NETWORKS[number];

/** What the lab's Services are in. */
export const SERVICES: Readonly<Record<Family, string>> = {
  ipv4: "10.233.0.0/18",
  ipv6: "fd00:233::/116",
};
/** A Service that leads to the host's own port 8080. */
export const CLUSTER_IP: Readonly<Record<Family, string>> = {
  ipv4: "10.233.0.10",
  ipv6: "fd00:233::10",
};

export function prefixOf(network: NetworkNumber, family: Family): string {
  return family === "ipv4" ? `10.${network}.0.` : `fd00:10:${network}::`;
}

/** The address number n of a network, as text. */
export function addressIn(
  network: NetworkNumber,
  family: Family,
  n: number,
): string {
  return `${prefixOf(network, family)}${n}`;
}

/** The same with the length of the network's prefix. */
export function interfaceAddressIn(
  ...[network, family, n]: Parameters<typeof addressIn>
): string {
  const length = family === "ipv4" ? 24 : 64;
  return `${addressIn(network, family, n)}/${length}`;
}

/** The address of a pod's first interface in an overlay, as text. */
export function overlayAddress(family: Family, number: number): string {
  return family === "ipv4" ? `10.244.1.${number}` : `fd00:244::${number}`;
}

/** One interface as a plugin like macvlan leaves it. */
export interface NicSpec {
  readonly name: string;
  readonly network: NetworkNumber;
  readonly number: number;
  /** `macvlan` without it; not every kernel has the other one. */
  readonly kind?: "macvlan" | "ipvlan";
  /** Of its addresses and routes; the lab's without it. */
  readonly families?: readonly Family[];
}

/** A call as a runtime makes it. */
export interface RuntimeCall {
  readonly env: ReadonlyMap<string, string>;
  readonly stdin: Uint8Array;
}

/** A pod and what it has. */
export interface LabPod {
  readonly netns: TempNetns;
  readonly containerId: string;
}

/**
 * A switch with a gateway, a host on it by one veth per network, and pods by
 * macvlan on these: a parent and its children do not reach each other, so
 * all that passes between host and pod went by the coordinator's link.
 */
export class CoordinatorLab implements AsyncDisposable {
  readonly switch: TempNetns;
  readonly host: TempNetns;
  readonly families: readonly Family[];
  readonly #stack: AsyncDisposableStack;
  readonly #hostNetns: Netns;
  /** What calls are made with; tests change it. */
  change: (outside: Outside) => Outside = (outside) => outside;
  warnings: string[] = [];
  /** Who answers calls: the whole program, unless a test starts another one. */
  door: (call: RuntimeCall) => Promise<PluginAnswer> = (call) =>
    this.#alone(call);

  private constructor(
    parts: {
      readonly switch: TempNetns;
      readonly host: TempNetns;
      readonly families: readonly Family[];
      readonly stack: AsyncDisposableStack;
    },
  ) {
    this.switch = parts.switch;
    this.host = parts.host;
    this.families = parts.families;
    this.#stack = parts.stack;
    this.#hostNetns = parts.stack.use(Netns.open(parts.host.path));
  }

  static async start(families: readonly Family[]): Promise<CoordinatorLab> {
    const stack = new AsyncDisposableStack();
    const host = stack.use(await tempNetns("host"));
    const sw = stack.use(await tempNetns("sw"));
    const lab = new CoordinatorLab({ switch: sw, host, families, stack });
    await lab.#wire();
    return lab;
  }

  async #wire(): Promise<void> {
    for (const netns of [this.switch, this.host]) {
      for (const family of this.families) {
        const name = family === "ipv4"
          ? "net.ipv4.ip_forward"
          : "net.ipv6.conf.all.forwarding";
        await netns.exec("sysctl", "-qw", `${name}=1`);
      }
    }
    for (const network of NETWORKS) {
      const link = `net${network}`;
      await this.host.ip(
        ...["link", "add", link, "type", "veth"],
        ...["peer", "name", link, "netns", this.switch.name],
      );
      await this.host.ip("link", "set", link, "up");
      await this.switch.ip("link", "set", link, "up");
      await this.#address(this.switch, link, { network, number: 1 });
    }
    await this.#address(this.host, "net6", { network: 6, number: 10 });
    for (const family of this.families) {
      const gateway = addressIn(6, family, 1);
      await this.host.ip("route", "add", "default", "via", gateway);
      await this.#service(family);
    }
  }

  async #address(
    netns: TempNetns,
    device: string,
    { network, number, families = this.families }: Omit<NicSpec, "name">,
  ): Promise<void> {
    for (const family of families) {
      await netns.ip(
        ...["address", "add", interfaceAddressIn(network, family, number)],
        ...["dev", device, ...family === "ipv6" ? ["nodad"] : []],
      );
    }
  }

  /** As kube-proxy would do it. */
  async #service(family: Family): Promise<void> {
    const ip = family === "ipv4" ? "ip" : "ip6";
    const own = addressIn(6, family, 10);
    const to = family === "ipv4" ? `${own}:8080` : `[${own}]:8080`;
    await this.host.exec(
      "nft",
      `table ${ip} svc { chain pre { type nat hook prerouting priority -100; ` +
        `${ip} daddr ${CLUSTER_IP[family]} tcp dport 80 dnat to ${to}; }; }`,
    );
  }

  /** A pod with these interfaces; the first one's default route comes first. */
  async pod(
    nics: readonly NicSpec[],
    containerId: string = crypto.randomUUID().replaceAll("-", ""),
  ): Promise<LabPod> {
    const netns = this.#stack.use(await tempNetns("pod"));
    for (const nic of nics) await this.addNic(netns, nic);
    return { netns, containerId };
  }

  /** A pod with these interfaces, behind one of an overlay where that has a number, joined one after the other. */
  async joined(
    nics: readonly NicSpec[],
    { config = {}, overlay }: {
      readonly config?: JsonObject;
      readonly overlay?: number | undefined;
    } = {},
  ): Promise<LabPod> {
    const pod = await this.pod([]);
    if (overlay !== undefined) await this.addOverlay(pod.netns, overlay);
    for (const nic of nics) {
      await this.addNic(pod.netns, nic);
      await this.ok("ADD", pod, { ifname: nic.name, config });
    }
    return pod;
  }

  /** As macvlan or ipvlan and a static IPAM: addresses, and a default route beside others. */
  async addNic(pod: TempNetns, nic: NicSpec): Promise<void> {
    const { kind = "macvlan" } = nic;
    await this.host.ip(
      ...["link", "add", "link", `net${nic.network}`, "name", "tmp"],
      ...["type", kind, "mode", kind === "macvlan" ? "bridge" : "l2"],
    );
    await this.host.ip(
      "link",
      "set",
      "tmp",
      "netns",
      pod.name,
      "name",
      nic.name,
    );
    await pod.ip("link", "set", nic.name, "up");
    await this.#address(pod, nic.name, nic);
    await this.#ready(pod, nic);
    for (const family of nic.families ?? this.families) {
      await pod.ip(
        ...[family === "ipv4" ? "-4" : "-6", "route", "prepend", "default"],
        ...["via", addressIn(nic.network, family, 1), "dev", nic.name],
      );
    }
  }

  async #ready(
    netns: TempNetns,
    { name, network, number, families = this.families }: NicSpec,
  ): Promise<void> {
    for (const family of families) {
      await untilUsed(netns, name, addressIn(network, family, number));
    }
  }

  /** A first interface as Calico makes it: 10.244.1.N and fd00:244::N, by a veth, with a gateway that is no one's address. */
  async addOverlay(pod: TempNetns, number: number): Promise<string> {
    const hostName = `cali${number}`;
    await this.host.ip(
      ...["link", "add", hostName, "type", "veth"],
      ...["peer", "name", "eth0", "netns", pod.name],
    );
    await this.host.ip("link", "set", hostName, "up");
    await pod.ip("link", "set", "eth0", "up");
    if (this.families.includes("ipv6")) {
      await untilRouted(this.host, hostName, "ff00::/8 ");
    }
    for (const family of this.families) {
      const address = overlayAddress(family, number);
      const gateway = family === "ipv4" ? "169.254.1.1" : "fe80::1";
      const nodad = family === "ipv6" ? ["nodad"] : [];
      await pod.ip("address", "add", address, "dev", "eth0", ...nodad);
      await this.host.ip(
        ...["address", "add", gateway, "dev", hostName, "scope", "link"],
        ...nodad,
      );
      await this.host.ip("route", "add", address, "dev", hostName);
      await pod.ip("route", "add", gateway, "dev", "eth0", "scope", "link");
      await pod.ip(
        ...[family === "ipv4" ? "-4" : "-6", "route", "add", "default"],
        ...["via", gateway, "dev", "eth0"],
      );
      await untilUsed(pod, "eth0", address);
    }
    return hostName;
  }

  /** A call of a runtime, as the plugin gets it. */
  async call(
    command: CoordinatorCall["command"],
    { netns, containerId }: LabPod,
    options: {
      readonly ifname?: string;
      readonly config?: JsonObject;
      readonly netns?: string;
      /** `CNI_ARGS`. */
      readonly args?: string;
      readonly prevResult?: JsonObject | null;
    } = {},
  ): Promise<PluginAnswer> {
    const env: Record<string, string> = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: options.netns ?? netns.path,
      CNI_IFNAME: options.ifname ?? "eth0",
      CNI_PATH: "/opt/cni/bin",
      ...options.args === undefined ? {} : { CNI_ARGS: options.args },
    };
    const { prevResult = { cniVersion: "1.1.0", ours: "kept" } } = options;
    const stdin = JSON.stringify({
      cniVersion: "1.1.0",
      name: "lab",
      type: "coordinator",
      serviceCIDR: this.families.map((family) => SERVICES[family]),
      ...options.config,
      ...prevResult === null ? {} : { prevResult },
    });
    return await this.door({
      env: new Map(Object.entries(env)),
      stdin: new TextEncoder().encode(stdin),
    });
  }

  async #alone({ env, stdin }: RuntimeCall): Promise<PluginAnswer> {
    return await runPlugin({
      env: (name) => env.get(name),
      readStdin: () => stdin,
      perform: async (call) => ({
        stdout: await runCoordinator(this.outside(), call),
        exitCode: 0,
      }),
      isOwnNetns: () => false,
      defaultSocket: "/none",
    });
  }

  /** As `call()`, which has to succeed. */
  async ok(...args: Parameters<CoordinatorLab["call"]>): Promise<string> {
    const { stdout, exitCode } = await this.call(...args);
    if (exitCode !== 0) throw new Error(`${args[0]} failed: ${stdout}`);
    return stdout;
  }

  /** Code and message of a call that fails. */
  async refusal(...args: Parameters<CoordinatorLab["call"]>): Promise<string> {
    const { stdout, exitCode } = await this.call(...args);
    assert.equal(exitCode, 1, stdout);
    const { code, msg } = JSON.parse(stdout);
    return `${code} ${msg}`;
  }

  outside(): Outside {
    const outside = outsideOf({
      hostNetns: this.#hostNetns,
      defaultsPath: "/nonexistent/coordinator.json",
      warn: (message, fields) => {
        this.warnings.push(`${message} ${Object.values(fields).join(" ")}`);
      },
    });
    return this.change(outside);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

/** Until the kernel has taken an address of a link into use: an IPv6 address a while after the link is up, or after it was added. States are compared that have its route. */
export async function untilUsed(
  netns: TempNetns,
  device: string,
  address: string,
): Promise<void> {
  if (address.includes(":")) {
    await untilRouted(netns, device, `local ${address} `);
  }
}

/** Until the kernel has a route of its own for a link: one for multicast comes a while after the link's carrier. */
async function untilRouted(
  { ip }: TempNetns,
  device: string,
  route: string,
): Promise<void> {
  await untilPasses(async () => {
    const table = ["table", "local", "dev", device];
    const routes = await ip("-6", "route", "show", ...table);
    assert.ok(routes.includes(route), routes);
  });
}

/** Those of `ip`, which fails for a family that the kernel lacks. */
async function familyOptions(): Promise<readonly string[]> {
  const isThere = await Deno.stat("/proc/net/if_inet6")
    .then(() => true, () => false);
  return isThere ? ["-4", "-6"] : ["-4"];
}

/** What of each family the coordinator may change. */
const OF_FAMILY = `rule
route show table all
neighbour show nud permanent
`;
const SYSCTLS =
  "grep -r . /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv6/conf/all/disable_ipv6";

/** Everything of a namespace that the coordinator may change, as text, in an order of its own. */
export async function stateOf(netns: TempNetns): Promise<string[]> {
  const inNetns = ["-n", netns.name, "-batch", "-"];
  const [links, rules, sysctls, ...families] = await Promise.all([
    netns.ipJson("link", "show"),
    netns.tryExec("nft", "list", "ruleset"),
    netns.tryExec("sh", "-c", SYSCTLS),
    ...(await familyOptions()).map((family) =>
      run("ip", [family, ...inNetns], { stdin: OF_FAMILY })
    ),
  ]);
  const texts = [
    ...families,
    rules.stdout,
    sysctls.stdout,
    ...links.map(({ ifname, address, mtu, txqlen, ifalias, flags }) =>
      JSON.stringify({ ifname, address, mtu, txqlen, ifalias, flags })
    ),
  ];
  // The kernel makes link-local addresses some time after a link is up.
  return texts.flatMap((text) => text.split("\n"))
    .map((line) => line.trim().replaceAll(/\s+/g, " "))
    .filter((line) => line !== "" && !line.includes("fe80:"))
    .toSorted();
}

/** What of a state is the coordinator's, but for the host's rule, which stays. */
export function ours(state: readonly string[]): string[] {
  return state.filter((line) =>
    /proto 32|COIL-COORD|coil-coordinator|PERMANENT/.test(line) &&
    !/^1000: from all lookup 500/.test(line)
  );
}

/** Detection whose answer comes: it ends with that, however long a busy kernel takes for it. */
export const ANSWERED: JsonObject = { timeout: "5s" };

/** So many of {@linkcode reaches}'s 33 requests are sent by a ping that did not stand still. */
const SOME_REQUESTS = 20;

/** Whether an echo request is answered within ten seconds: the first may come before a macvlan has joined the multicast groups of its addresses. */
export async function reaches(
  from: TempNetns,
  to: string,
  options: { readonly source?: string } = {},
): Promise<boolean> {
  const source = options.source === undefined ? [] : ["-I", options.source];
  for (let tries = 0; tries < 3; tries++) {
    // With -w, -c counts answers: the first one ends it.
    const { code, stdout } = await from.tryExec(
      "ping",
      ...["-n", "-q", "-c", "1", "-i", "0.3", "-w", "10", ...source, to],
    );
    if (code === 0) return true;
    const sent = Number(/(\d+) packets transmitted/.exec(stdout)?.[1]);
    // On a machine that stood still it may have looked for no answer.
    const isSure = /\+\d+ errors/.test(stdout) || !(sent < SOME_REQUESTS);
    if (isSure) return false;
  }
  return false;
}

/** What a Service answers to a pod. */
export async function fetched(
  pod: TempNetns,
  family: Family,
  options: { readonly source?: string } = {},
): Promise<string> {
  const source = options.source === undefined
    ? []
    : ["--interface", options.source];
  const host = family === "ipv4" ? CLUSTER_IP.ipv4 : `[${CLUSTER_IP.ipv6}]`;
  const { stdout } = await pod.tryExec(
    ...["curl", "-s", "-m", "120", ...source, `http://${host}/`] as [
      string,
      ...string[],
    ],
  );
  return stdout;
}

/** A server on the host's port 8080 that answers who asked. */
export async function serving(
  lab: CoordinatorLab,
  work: () => Promise<void>,
): Promise<void> {
  const hostname = lab.families.includes("ipv6") ? "::" : "0.0.0.0";
  const server = new Deno.Command("nsenter", {
    args: [
      `--net=${lab.host.path}`,
      Deno.execPath(),
      "eval",
      `Deno.serve({ port: 8080, hostname: "${hostname}", onListen() { console.log("up") } }, (_, { remoteAddr }) => new Response(remoteAddr.hostname));`,
    ],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  try {
    const reader = server.stdout.getReader();
    await reader.read();
    await reader.cancel();
    await work();
  } finally {
    server.kill("SIGKILL");
    await server.status;
  }
}
