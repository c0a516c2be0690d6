import { type Address, Prefix } from "../../inet/mod.ts";
import type {
  AddressEntry,
  Link,
  Neighbour,
  Route,
  Rule,
} from "../../netlink/mod.ts";
import { COORDINATOR_PROTOCOL } from "../../names/mod.ts";

/** Where an object is. */
export type Place = "pod" | "host";

/** What the kernel has on one side: all of a pod, and of the host what concerns the pod. */
export interface SideState {
  readonly links: readonly Link[];
  readonly addresses: readonly AddressEntry[];
  readonly rules: readonly Rule[];
  readonly routes: readonly Route[];
  readonly neighbours: readonly Neighbour[];
}

/** What pod and host have. */
export interface Sides {
  readonly pod: SideState;
  readonly host: SideState;
}

/** What the kernel has before anything is changed. */
export interface State extends Sides {
  /** Values of the sysctls of a plan by place and name; absent where the kernel has none of that name. */
  readonly sysctls: ReadonlyMap<string, string>;
  /** Whether the pod has the table of reply marks, as it should be. */
  readonly repliesMarked: boolean;
}

/** One side alone, for steps of that side that rtnetlink carries out. */
export function stateOf(side: SideState): State {
  return { pod: side, host: side, sysctls: new Map(), repliesMarked: false };
}

/** The key of a sysctl in {@linkcode State.sysctls}. */
export function sysctlKey(
  { place, name }: { readonly place: Place; readonly name: string },
): string {
  return `${place} ${name}`;
}

/** The index of a link; undefined when there is none of that name. */
export function indexOf(
  side: Pick<SideState, "links">,
  device: string,
): number | undefined {
  return side.links.find(({ name }) => name === device)?.index;
}

/** The addresses of a link that others can reach: not link-local, not a duplicate; IPv4 first, else in the kernel's order. */
export function addressesOf(
  { addresses }: Pick<SideState, "addresses">,
  index: number | undefined,
): Address[] {
  const own = addresses.filter((entry) => entry.index === index)
    .filter(isUsable).map(({ prefix }) => prefix.address);
  return [
    ...own.filter(({ family }) => family === "ipv4"),
    ...own.filter(({ family }) => family === "ipv6"),
  ];
}

/**
 * The sources that rules for the side's addresses have, as text: a pod may have
 * thousands of both. `except` is the index of a link whose addresses do not count.
 */
export function sourcesOf(
  { addresses }: Pick<SideState, "addresses">,
  { except }: { readonly except?: number | undefined } = {},
): ReadonlySet<string> {
  return sourceTexts(
    addresses.filter((entry) => entry.index !== except && isUsable(entry))
      .map(({ prefix }) => prefix.address),
  );
}

/** The same of some addresses. */
export function sourceTexts(addresses: readonly Address[]): Set<string> {
  return new Set(addresses.map((address) => String(Prefix.host(address))));
}

/** The addresses of a link that the kernel does not use: it has found them at another machine. */
export function duplicatesOf(
  { addresses }: Pick<SideState, "addresses">,
  index: number | undefined,
): Address[] {
  return addresses.filter((entry) => entry.index === index && entry.dadFailed)
    .map(({ prefix }) => prefix.address);
}

/** Whether just this network is at one of the side's links: the kernel's own route leads there. */
export function isNetworkOf(
  { addresses }: Pick<SideState, "addresses">,
  network: Prefix,
): boolean {
  return addresses.some(({ prefix: { address, length } }) =>
    Prefix.of(address, length).equals(network)
  );
}

function isUsable({ dadFailed, prefix }: AddressEntry): boolean {
  return !dadFailed && isReachable(prefix.address);
}

function isReachable(address: Address): boolean {
  if (address.isLinkLocal) return false;
  const first = address.toBytes()[0] ?? 0;
  // 127.0.0.0/8, 224.0.0.0/4 and up; ::/8, ff00::/8.
  return address.family === "ipv4"
    ? first !== 127 && first < 224
    : first !== 0 && first !== 0xff;
}

/** Whether the coordinator made it. */
export function isOurs(
  { protocol }: Pick<Rule, "protocol">,
): boolean {
  return protocol === COORDINATOR_PROTOCOL;
}
