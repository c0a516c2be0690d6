import { type Family, valuesOf } from "../../inet/mod.ts";
import { nft, type NftField, type NftStatement } from "../../netlink/mod.ts";
import type { ServerPlan } from "./plan.ts";
import { counterName, FORWARDING } from "./table.ts";
import type { ServerFamily } from "./family.ts";
import {
  addParts,
  digitOf,
  dynamicSet,
  type TableParts,
} from "./table_parts.ts";

/** What one client may have of a gateway at a time; what is absent has no limit. */
export interface ClientLimits {
  /** Connections in the kernel's table. */
  readonly flows?: number;
  /** Those of them to one address: each takes one of the gateway's source ports. */
  readonly flowsToOneAddress?: number;
}

/** What one client may take unless configured otherwise: a quarter. */
const SHARE = 4;
/** Source ports that the kernel has for connections to one port of one address, 1024 to 65535. */
const SOURCE_PORTS = 64_512;

/**
 * The limits of one client. `wanted` is the configured one, 0 for none;
 * `conntrackMax` is what the kernel's table of connections takes, 0 for any number.
 */
export function clientLimits(
  wanted: number | undefined,
  conntrackMax: number,
): ClientLimits | undefined {
  if (wanted === 0) return undefined;
  if (wanted !== undefined) return { flows: wanted };
  const flowsToOneAddress = SOURCE_PORTS / SHARE;
  if (conntrackMax === 0) return { flowsToOneAddress };
  const flows = Math.max(1, Math.floor(conntrackMax / SHARE));
  // mutate: two limits of one size are one.
  return flows <= flowsToOneAddress ? { flows } : { flows, flowsToOneAddress };
}

/**
 * About how many connections the kernel counts at most, since it counts by walking
 * through all of them: of more connections a random part is counted, which gives
 * their number within some percent.
 */
const COUNTED = 1024;

/**
 * How long a client over a limit can open no connection. Without the pause each packet
 * of a flood would be counted, and the kernel does not forget as fast as that
 * (CONNCOUNT_GC_MAX_NODES of net/netfilter/nf_conncount.c).
 */
const PAUSE_MS = 100;
/** How long a client that was over a limit is remembered. */
const MEMORY_MS = 300_000;

/** The set of clients that were refused a connection lately. */
export function refusedSet(family: Family): string {
  return `refused${digitOf(family)}`;
}

/** The plan with limits for each client. */
export function limitClients(
  plan: ServerPlan,
  limits: ClientLimits,
): ServerPlan {
  const parts = valuesOf(plan.families)
    .map((family) => planLimits(family, limits, plan.ifname));
  return addParts(plan, FORWARDING, parts);
}

/**
 * Clients over a limit are looked up first, so that no more of their connections are
 * counted; and what is refused for its destination is not counted as one more connection.
 */
function planLimits(
  { family }: ServerFamily,
  { flows, flowsToOneAddress }: ClientLimits,
  ifname: string,
): TableParts {
  const source = nft.saddrField(family);
  const refused = dynamicSet(
    refusedSet(family),
    { family, fields: 1 },
    MEMORY_MS,
  );
  const rule = (...statements: readonly NftStatement[]) =>
    nft.rule([
      ...[nft.oifname(ifname), nft.ctUnconfirmed(), ...statements],
      nft.addToSet([source], refused.name),
      nft.counter(counterName("limited", family)),
      nft.drop(),
    ]);
  const parts = [
    limitOf({ family, name: "pairs", limit: flowsToOneAddress }, [
      source,
      nft.daddrField(family),
    ]),
    limitOf({ family, name: "flows", limit: flows }, [source]),
  ].filter((part) => part !== undefined);
  return {
    sets: [refused, ...parts.flatMap(({ sets }) => sets)],
    rules: [
      ...parts.map(({ isOver }) => rule(isOver)),
      ...parts.map(({ becomesOver }) => rule(...becomesOver)),
    ],
  };
}

/** One limit: who is over it, and who just becomes so. */
function limitOf(
  { family, name, limit }: {
    readonly family: Family;
    readonly name: string;
    readonly limit: number | undefined;
  },
  fields: readonly NftField[],
) {
  if (limit === undefined) return undefined;
  const key = { family, fields: fields.length };
  // The elements keep the limit that they were made with: another limit takes another set.
  const counting = dynamicSet(`${name}${digitOf(family)}_${limit}`, key);
  const over = dynamicSet(`over_${name}${digitOf(family)}`, key, PAUSE_MS);
  return {
    sets: [counting, over],
    isOver: nft.inSet(fields, over.name),
    becomesOver: [
      ...counted(limit, fields, counting.name),
      nft.addToSet(fields, over.name),
    ],
  };
}

/** Counts every connection, or one of `each`. */
function counted(
  limit: number,
  fields: readonly NftField[],
  set: string,
): NftStatement[] {
  const each = Math.ceil(limit / COUNTED);
  const over = nft.connectionsOver(Math.round(limit / each), fields, set);
  return each === 1 ? [over] : [nft.random(Math.floor(2 ** 32 / each)), over];
}
