import type { Address } from "../../inet/mod.ts";
import type { AddressEntry, Link } from "../../netlink/mod.ts";
import { chooseHostAddresses } from "../plan/host_addresses.ts";
import type { Routes } from "./ports.ts";

/** What a host's addresses are chosen from. */
export interface HostLinks {
  readonly addresses: readonly AddressEntry[];
  /** At least those with an address that others can reach. */
  readonly links: readonly Link[];
}

/**
 * The host's addresses that pods reach it by, as {@linkcode chooseHostAddresses}
 * orders them: `before` first, then the sources of what the host sends to
 * `towards`.
 */
export async function findHostAddresses(
  host: Routes,
  { addresses, links }: HostLinks,
  { before = [], towards = [] }: {
    readonly before?: readonly Address[];
    readonly towards?: readonly Address[];
  } = {},
): Promise<Address[]> {
  const routes = await host.lookUpRoutes(towards);
  const sources = routes.flatMap((route) => route?.source ?? []);
  return chooseHostAddresses({
    sources: [...before, ...sources],
    addresses,
    names: new Map(links.map(({ index, name }) => [index, name])),
  });
}
