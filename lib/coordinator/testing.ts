import { CniError } from "../cni/mod.ts";
import { Address } from "../inet/mod.ts";
import {
  type AddressEntry,
  type Link,
  type LinkSelector,
  type Neighbour,
  NetlinkError,
  type Request,
  type Route,
  type Rule,
} from "../netlink/mod.ts";
import { bytesOf, linkMessage } from "../netlink/testing.ts";
import type { Routes } from "./kernel/ports.ts";
import { renderStep } from "./state/step_text.ts";
import type { Step } from "./state/steps.ts";
import type { VethSpec } from "./plan/veth.ts";

/**
 * A plan as the commands that do the same, for people and for golden files.
 * `netns` is the pod's network namespace as `ip -n` knows it.
 */
export function renderPlan(
  { veth, steps }: {
    readonly veth?: VethSpec | undefined;
    readonly steps: readonly Step[];
  },
  options: { readonly netns: string },
): string {
  return [
    ...veth === undefined ? [] : renderVeth(veth, options),
    ...steps.map((step) => renderStep(step, options)),
    "",
  ].join("\n");
}

function renderVeth(veth: VethSpec, { netns }: { netns: string }): string[] {
  const { hostName, hostMac, podName, podMac, mtu, alias } = veth;
  return [
    `ip link add ${hostName} address ${hostMac} mtu ${mtu} type veth peer name ${podName} address ${podMac} mtu ${mtu} netns ${netns}`,
    `ip link set dev ${hostName} alias ${alias}`,
    `ip link set dev ${hostName} up`,
    `ip -n ${netns} link set dev ${podName} up`,
  ];
}

/** Whether an error is a CniError with that code and a message like this. */
export function isRefusal(
  code: number,
  message: RegExp,
): (error: unknown) => boolean {
  return (error) =>
    error instanceof CniError && error.code === code &&
    message.test(error.message);
}

/** The default route of the main table by a link, as DHCP or another plugin makes it. */
export function defaultRoute(index: number, gateway?: string): Route {
  return {
    family: gateway?.includes(":") ? "ipv6" : "ipv4",
    destination: undefined,
    gateway: gateway === undefined ? undefined : Address.parse(gateway),
    index,
    table: 254,
    protocol: 3,
    scope: "global",
    type: "unicast",
  };
}

/** A veth that is up, as the kernel lists it. */
export function linkOf(index: number, changes: Partial<Link> = {}): Link {
  return {
    index,
    name: `link${index}`,
    kind: "veth",
    mac: "02:00:00:00:00:01",
    mtu: 1500,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 1,
    ...changes,
  };
}

/** What a network namespace has. Tests change it. */
export interface NetworkState {
  links: Link[];
  addresses: AddressEntry[];
  rules: Rule[];
  routes: Route[];
  neighbours: Neighbour[];
}

/** ENODEV */
const ABSENT = 19;

/** A network namespace in memory: what is asked of it is noted, and changes nothing. */
export class FakeNetwork implements Routes {
  /** The requests so far, in words. */
  readonly sent: string[] = [];
  /** The same as bytes. */
  readonly bytes: string[] = [];
  /** From which address it says that it sends. */
  source: Address = Address.of("ipv4", 0n);
  /** Called after each thing that is read of it. */
  onRead: () => void = () => {};
  /** Its answer to a request. */
  answer: (request: string) => NetlinkError | undefined = () => undefined;
  readonly #state: Partial<NetworkState>;

  constructor(state: Partial<NetworkState>) {
    this.#state = state;
  }

  #read<T>(found: readonly T[] = []): Promise<T[]> {
    const copy = [...found];
    this.onRead();
    return Promise.resolve(copy);
  }

  listLinks(): Promise<Link[]> {
    return this.#read(this.#state.links);
  }

  listAddresses(): Promise<AddressEntry[]> {
    return this.#read(this.#state.addresses);
  }

  listRules(): Promise<Rule[]> {
    return this.#read(this.#state.rules);
  }

  listNeighbours(): Promise<Neighbour[]> {
    return this.#read(this.#state.neighbours);
  }

  listRoutes(
    { protocol, keep = () => true }: Parameters<Routes["listRoutes"]>[0] = {},
  ): Promise<Route[]> {
    return this.#read(
      this.#state.routes?.filter((route) =>
        keep(route) && (protocol === undefined || route.protocol === protocol)
      ),
    );
  }

  lookUpRoutes(addresses: readonly Address[]): Promise<Route[]> {
    const route = { source: this.source } as Route; // all that is looked at
    return this.#read(addresses.map(() => route));
  }

  async getLink(selector: LinkSelector): Promise<Link | undefined> {
    const links = await this.#read(this.#state.links);
    return links.find(({ index, name }) =>
      "index" in selector ? index === selector.index : name === selector.name
    );
  }

  async execute(requests: readonly Request[]): Promise<void> {
    for (const error of await this.tryExecute(requests)) if (error) throw error;
  }

  tryExecute(
    requests: readonly Request[],
  ): Promise<(NetlinkError | undefined)[]> {
    const texts = requests.map((request) => request.describe());
    this.sent.push(...texts);
    this.bytes.push(...requests.map(bytesOf));
    return Promise.resolve(
      requests.map((request, i) =>
        this.answer(texts[i] ?? "") ?? this.#showLink(request)
      ),
    );
  }

  /** Answers `linkGet()`, nothing else. */
  #showLink(request: Request): NetlinkError | undefined {
    const what = request.describe();
    const [text, name, index] = /^get link (?:"(.+)"|(\d+))$/.exec(what) ?? [];
    if (text === undefined || request.onReply === undefined) return undefined;
    const link = this.#state.links?.find((link) =>
      link.name === name || `${link.index}` === index
    );
    if (link === undefined) return new NetlinkError(what, { errno: ABSENT });
    request.onReply(linkMessage(link));
    return undefined;
  }

  [Symbol.dispose](): void {}
}
