import type { Block } from "../../lib/api/mod.ts";
import { type Address, type DualStack, FAMILIES } from "../../lib/inet/mod.ts";
import type { GatewayRoute } from "../../lib/routing/mod.ts";

/** The part of a block that its routes depend on. */
export interface RoutedBlock extends Pick<Block, "name" | "node" | "prefixes"> {
  /** Addresses of its node, if it says; else those of the Node count. */
  readonly gateways?: DualStack<Address> | undefined;
}

/** A block that wants a route. */
interface Claim {
  readonly block: string;
  readonly route: GatewayRoute;
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
  readonly #blocks = new Map<string, RoutedBlock>();
  readonly #blocksOf = new Map<string, Set<string>>();
  /** By destination as text; hardly ever more than one. */
  readonly #claims = new Map<string, readonly Claim[]>();
  /** Nodes that lack an address for so many prefixes of their blocks. */
  readonly #lacking = new Map<string, number>();
  readonly #changed = new Set<string>();

  /** `nodeName` is the node that the routes are for. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /** Takes down a node's addresses, undefined when it is gone. */
  setNode(name: string, addresses: DualStack<Address> | undefined): void {
    if (textOf(this.#nodes.get(name)) === textOf(addresses)) return;
    const names = [...this.#blocksOf.get(name) ?? []];
    const blocks = names.flatMap((block) => this.#blocks.get(block) ?? []);
    for (const block of blocks) this.#withdraw(block);
    if (addresses === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, addresses);
    for (const block of blocks) this.#claim(block);
  }

  /** Takes down a block, undefined when it is gone. */
  setBlock(name: string, block: RoutedBlock | undefined): void {
    const before = this.#blocks.get(name);
    if (before !== undefined) {
      this.#withdraw(before);
      this.#blocks.delete(name);
      this.#blocksOf.get(before.node)?.delete(name);
    }
    if (block === undefined) return;
    this.#blocks.set(name, block);
    const others = this.#blocksOf.get(block.node);
    if (others === undefined) this.#blocksOf.set(block.node, new Set([name]));
    else others.add(name);
    this.#claim(block);
  }

  /** Destinations whose route may be another one since the last call, as text. */
  takeChanged(): string[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  /** The routes that blocks want to a destination, given as text: the first one counts. */
  claimsOn(destination: string): GatewayRoute[] {
    return (this.#claims.get(destination) ?? []).map(({ route }) => route);
  }

  /** All of them, for all destinations. */
  routes(): GatewayRoute[] {
    const routes: GatewayRoute[] = [];
    for (const claims of this.#claims.values()) {
      for (const { route } of claims) routes.push(route);
    }
    return routes;
  }

  /** Nodes that hold a block of a family of which they have no address, sorted. */
  get withoutAddress(): readonly string[] {
    return [...this.#lacking.keys()].sort();
  }

  #claim(block: RoutedBlock): void {
    this.#forEach(block, ({ route, key }) => {
      const claims = [
        ...this.#claims.get(key) ?? [],
        { block: block.name, route },
      ];
      this.#claims.set(key, claims.sort(byName));
    }, 1);
  }

  #withdraw(block: RoutedBlock): void {
    this.#forEach(block, ({ key }) => {
      const claims = (this.#claims.get(key) ?? [])
        .filter((claim) => claim.block !== block.name);
      if (claims.length > 0) this.#claims.set(key, claims);
      else this.#claims.delete(key);
    }, -1);
  }

  /** Calls back with each route of the block; counts those that lack a gateway up or down. */
  #forEach(
    { node, prefixes, gateways = this.#nodes.get(node) }: RoutedBlock,
    act: (
      found: { readonly route: GatewayRoute; readonly key: string },
    ) => void,
    step: 1 | -1,
  ): void {
    if (node === this.#nodeName || gateways === undefined) return;
    for (const family of FAMILIES) {
      const destination = prefixes[family];
      const gateway = gateways[family];
      if (destination === undefined) continue;
      if (gateway === undefined) {
        this.#lack(node, step);
        continue;
      }
      const key = destination.toString();
      this.#changed.add(key);
      act({ route: { destination, gateway }, key });
    }
  }

  #lack(node: string, step: 1 | -1): void {
    const count = (this.#lacking.get(node) ?? 0) + step;
    if (count > 0) this.#lacking.set(node, count);
    else this.#lacking.delete(node);
  }
}

function byName(a: Claim, b: Claim): number {
  return a.block < b.block ? -1 : Number(a.block > b.block);
}

function textOf(addresses: DualStack<Address> | undefined): string {
  return addresses === undefined
    ? "none"
    : `${addresses.ipv4 ?? ""} ${addresses.ipv6 ?? ""}`;
}
