import type { EtcdClient } from "../../../lib/etcd/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import { parseV1State, type V1State } from "./state.ts";

/** Reads and parses v1's state, all of one moment. @throws {CommandError} when there is none below the prefix. */
export async function readV1State(
  etcd: EtcdClient,
  { prefix, signal }: { readonly prefix: string; readonly signal: AbortSignal },
): Promise<V1State> {
  const { entries } = await etcd.readPrefix(prefix, { signal });
  const state = parseV1State(entries, { prefix });
  if (state.pools.length > 0) return state;
  const what = entries.length === 0
    ? `etcd has no keys that begin with "${prefix}"`
    : `none of the ${entries.length} keys that begin with "${prefix}" is that of a pool`;
  const roots = await etcd.roots({ signal });
  const there = roots.length === 0
    ? "It has no keys: is it the right etcd?"
    : `Its keys begin with ${
      roots.map((root) => JSON.stringify(root)).join(", ")
    }: see --etcd-prefix, which usually ends with a slash.`;
  throw new CommandError(
    `Cannot find Coil v1's pools: ${what}\n${there}`,
  );
}
