import type { Address } from "../../inet/mod.ts";
import { linkGet, routeLookUp } from "../../netlink/mod.ts";
import { chooseHostAddresses } from "../plan/host_addresses.ts";
import type { Routes } from "./ports.ts";

/**
 * The host's addresses that pods reach it by, as {@linkcode chooseHostAddresses}
 * orders them: `before` first, then the sources of what the host sends to
 * `towards`.
 */
export async function findHostAddresses(
  host: Routes,
  { before = [], towards = [] }: {
    readonly before?: readonly Address[];
    readonly towards?: readonly Address[];
  },
): Promise<Address[]> {
  const addresses = await host.listAddresses();
  const names = new Map<number, string>();
  const indexes = new Set(
    addresses.filter(({ scope }) => scope === "global")
      .map(({ index }) => index),
  );
  await host.tryExecute(
    [...indexes].map((index) =>
      linkGet({ index }, ({ name }) => names.set(index, name))
    ),
  );
  const sources: Address[] = [];
  await host.tryExecute(
    towards.map((address) =>
      routeLookUp(address, ({ source }) => {
        if (source !== undefined) sources.push(source);
      })
    ),
  );
  return chooseHostAddresses({
    sources: [...before, ...sources],
    addresses,
    names,
  });
}
