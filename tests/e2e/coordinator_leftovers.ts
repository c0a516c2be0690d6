// What the coordinator has made on a node for its pods.
import assert from "node:assert/strict";
import {
  COORDINATOR_ALIAS_PREFIX,
  COORDINATOR_HOST_TABLE,
  COORDINATOR_HUSK_ALIAS_PREFIX,
} from "../../lib/names/mod.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { eventually } from "../lab/mod.ts";

/** Of pods' addresses: routes by the host's table, permanent neighbours, and links of pairs. */
export interface Joined {
  readonly routes: readonly string[];
  readonly neighbours: readonly string[];
  readonly links: readonly string[];
}

/** Reads it from the node's kernel. */
export async function joinedOn(node: ClusterNode): Promise<Joined> {
  const rows = async (...args: string[]) => {
    // An empty table is none to `ip`.
    const text = await node.run("ip", ["-j", ...args]).catch(() => "");
    return JSON.parse(text === "" ? "[]" : text) as Record<string, string>[];
  };
  const routes: string[] = [];
  const neighbours: string[] = [];
  for (const family of ["-4", "-6"]) {
    const table = `${COORDINATOR_HOST_TABLE}`;
    routes.push(
      ...(await rows(family, "route", "show", "table", table))
        .map(({ dst = "" }) => dst),
    );
    neighbours.push(
      ...(await rows(family, "neighbour", "show", "nud", "permanent"))
        .map(({ dst = "" }) => dst),
    );
  }
  const links = (await rows("link", "show")).flatMap(({ ifname, ifalias }) =>
    [COORDINATOR_ALIAS_PREFIX, COORDINATOR_HUSK_ALIAS_PREFIX]
        .some((prefix) => ifalias?.startsWith(prefix))
      ? [`${ifname} ${ifalias}`]
      : []
  );
  return { routes: routes.sort(), neighbours: neighbours.sort(), links };
}

/** Waits until it is for just these addresses, of pods with so many pairs. */
export async function assertJoined(
  node: ClusterNode,
  wanted: { readonly addresses: readonly string[]; readonly pairs: number },
): Promise<void> {
  let last: Joined | undefined;
  const addresses = [...wanted.addresses].sort();
  const expected = { addresses, known: addresses, pairs: wanted.pairs };
  await eventually("the node to have what its pods need", async () => {
    last = await joinedOn(node);
    return last.links.length === wanted.pairs &&
      `${last.routes}` === `${addresses}` &&
      `${last.neighbours}` === `${addresses}`;
  }).catch(() => {});
  assert.deepEqual(
    {
      addresses: last?.routes,
      known: last?.neighbours,
      pairs: last?.links.length,
    },
    expected,
  );
}
