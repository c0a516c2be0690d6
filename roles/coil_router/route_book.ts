import {
  type Address,
  type DualStack,
  FAMILIES,
  type Family,
  Prefix,
} from "../../lib/inet/mod.ts";
import { compareText } from "../../lib/names/mod.ts";
import type { GatewayRoute, GatewayRoutes } from "../../lib/routing/mod.ts";

/** Cached facts of a block, no more than its routes need: there may be 50,000. */
export interface RoutedBlock {
  /** Name of the object. */
  readonly name: string;
  readonly node: string;
  /** Its prefix of each family as text, in canonical form. */
  readonly ipv4?: string | undefined;
  readonly ipv6?: string | undefined;
  /** Addresses of its node, if it says; else those of the Node count. */
  readonly gateways?: DualStack<Address> | undefined;
}

/**
 * The routes to the blocks of all other nodes, kept up to date block by block:
 * each prefix of a block through its node's address of the same family, which
 * the block says itself, or else its Node. Blocks of nodes without either have
 * no route.
 *
 * Should two blocks overlap, the one whose name is first wins, on every node.
 * No I/O.
 */
export class RouteBook {
  readonly #nodeName: string;
  readonly #nodes = new Map<string, DualStack<Address>>();
  /** Of each node, the blocks that do not say its addresses, by name. */
  readonly #bare = new Map<string, Map<string, RoutedBlock>>();
  /** The blocks that want a destination, given as text: hardly ever more than one, which stands for itself. */
  readonly #claims = new Map<string, RoutedBlock | readonly RoutedBlock[]>();
  /** Nodes that lack an address for so many prefixes of their blocks. */
  readonly #lacking = new Map<string, number>();
  readonly #changed = new Set<string>();

  /** `nodeName` is the node that the routes are for. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /** Records a node's addresses, undefined when it is gone. */
  setNode(name: string, addresses: DualStack<Address> | undefined): void {
    if (textOf(this.#nodes.get(name)) === textOf(addresses)) return;
    const blocks = [...this.#bare.get(name)?.values() ?? []];
    for (const block of blocks) this.#withdraw(block);
    if (addresses === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, addresses);
    for (const block of blocks) this.#claim(block);
  }

  /** Records a block, given as it was recorded before, if it was; undefined when it is gone. */
  setBlock(
    block: RoutedBlock | undefined,
    { before }: { readonly before?: RoutedBlock | undefined } = {},
  ): void {
    if (before !== undefined) {
      this.#withdraw(before);
      const { name, node } = before;
      const bare = this.#bare.get(node);
      if (bare?.delete(name) && bare.size === 0) this.#bare.delete(node);
    }
    if (block === undefined) return;
    if (block.gateways === undefined) {
      this.#bare.getOrInsertComputed(block.node, () => new Map())
        .set(block.name, block);
    }
    this.#claim(block);
  }

  /** Whether there are blocks that do not say their node's addresses. */
  get needsNodes(): boolean {
    return this.#bare.size > 0;
  }

  /** Destinations whose route may be another one since the last call, as text. */
  takeChanged(): string[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  /** The routes that blocks want to a destination, given as text: the first one counts. */
  claimsOn(key: string): GatewayRoute[] {
    const destination = Prefix.parse(key);
    return this.#gatewaysTo(key, destination.family)
      .map((gateway) => ({ destination, gateway }));
  }

  /** All of them; the map is the caller's. */
  routes(): GatewayRoutes & { readonly gateways: Map<string, Address> } {
    const gateways = new Map<string, Address>();
    const conflicting: GatewayRoute[] = [];
    for (const [key, claims] of this.#claims) {
      const family = key.includes(":") ? "ipv6" : "ipv4";
      if ("name" in claims) {
        // Nearly always, so without lists: they were half a kilobyte of garbage for each of 50,000.
        const only = this.#gatewaysOf(claims)?.[family];
        if (only !== undefined) gateways.set(key, only);
        continue;
      }
      const [gateway, ...others] = this.#gatewaysTo(key, family);
      if (gateway === undefined) continue;
      gateways.set(key, gateway);
      for (const other of others.filter((one) => !one.equals(gateway))) {
        conflicting.push({ destination: Prefix.parse(key), gateway: other });
      }
    }
    return { gateways, conflicting };
  }

  /** Nodes that hold a block of a family of which they have no address, sorted. */
  get withoutAddress(): readonly string[] {
    return [...this.#lacking.keys()].sort();
  }

  #gatewaysTo(key: string, family: Family): Address[] {
    return listOf(this.#claims.get(key))
      .flatMap((block) => this.#gatewaysOf(block)?.[family] ?? []);
  }

  #gatewaysOf(
    { node, gateways }: RoutedBlock,
  ): DualStack<Address> | undefined {
    return gateways ?? this.#nodes.get(node);
  }

  #claim(block: RoutedBlock): void {
    this.#forEach(block, (key) => {
      const others = this.#claims.get(key);
      const claims = others === undefined ? block : [...listOf(others), block]
        .sort((a, b) => compareText(a.name, b.name));
      this.#claims.set(key, claims);
    }, 1);
  }

  #withdraw(block: RoutedBlock): void {
    this.#forEach(block, (key) => {
      const claims = listOf(this.#claims.get(key))
        .filter(({ name }) => name !== block.name);
      if (claims.length > 0) this.#claims.set(key, claims);
      else this.#claims.delete(key);
    }, -1);
  }

  /** Calls back with each destination of the block; counts those that lack a gateway up or down. */
  #forEach(
    block: RoutedBlock,
    act: (key: string) => void,
    step: 1 | -1,
  ): void {
    const { node } = block;
    const gateways = this.#gatewaysOf(block);
    if (node === this.#nodeName || gateways === undefined) return;
    for (const family of FAMILIES) {
      const key = block[family];
      if (key === undefined) continue;
      if (gateways[family] === undefined) {
        this.#lack(node, step);
        continue;
      }
      this.#changed.add(key);
      act(key);
    }
  }

  #lack(node: string, step: 1 | -1): void {
    const count = (this.#lacking.get(node) ?? 0) + step;
    if (count > 0) this.#lacking.set(node, count);
    else this.#lacking.delete(node);
  }
}

function listOf(
  claims: RoutedBlock | readonly RoutedBlock[] | undefined,
): readonly RoutedBlock[] {
  if (claims === undefined) return [];
  return "name" in claims ? [claims] : claims;
}

function textOf(addresses: DualStack<Address> | undefined): string {
  return addresses === undefined
    ? "none"
    : `${addresses.ipv4 ?? ""} ${addresses.ipv6 ?? ""}`;
}
