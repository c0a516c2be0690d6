import {
  type AddressBlock,
  type AddressPool,
  type Block,
  type BlockRequest,
  tryBlockOf,
  tryPoolOf,
} from "../../api/mod.ts";
import { poolOverlaps } from "../pool/overlap_report.ts";
import {
  type NamespacedName,
  nameText,
  NODE_LABEL,
  POOL_LABEL,
} from "../../names/mod.ts";
import { requestProblem } from "./request_problem.ts";
import type { Problem } from "./problem.ts";
import {
  type AddressRow,
  blockRows,
  labelOf,
  oddAddressRows,
  type PodAddresses,
} from "./rows.ts";

/** Kind of a finding, for programs. */
export type FindingCode =
  | AddressFindingCode
  | "block-without-node"
  | "pools-overlap"
  | "request-unanswered"
  | "unknown-pool"
  | "unknown-egress";

/** Those about pods' addresses and the blocks that they should be of. */
export const ADDRESS_FINDING_CODES = [
  "duplicate-address",
  "address-outside-of-blocks",
  "address-of-another-node",
  "block-unreadable",
  "block-without-pool",
] as const;

/** One of {@linkcode ADDRESS_FINDING_CODES}. */
export type AddressFindingCode = typeof ADDRESS_FINDING_CODES[number];

/** An inconsistency between the objects. */
export interface Finding extends Problem {
  readonly code: FindingCode;
  /** The pool whose addresses it is about, where there is one. */
  readonly pool?: string;
}

/** A namespace or pod, and an object that it names. */
export interface Reference {
  readonly from: string;
  /** Where to look at it. */
  readonly next: string;
  readonly to: string;
}

/** The objects at one moment; absent is what could not be read. */
export interface Books {
  readonly pods?: readonly PodAddresses[] | undefined;
  readonly blocks?: readonly AddressBlock[] | undefined;
  readonly pools?: readonly AddressPool[] | undefined;
  readonly requests?: readonly BlockRequest[] | undefined;
  readonly nodes?: readonly string[] | undefined;
  readonly egresses?: readonly NamespacedName[] | undefined;
  /** Which namespace names which pool. */
  readonly poolNames?: readonly Reference[] | undefined;
  /** Which pod names which Egress. */
  readonly egressNames?: readonly Reference[] | undefined;
}

/** Finds the inconsistencies; none about what was not read. */
export function findingsOf(books: Books, now: Date): Finding[] {
  const { requests = [], poolNames = [], egressNames = [] } = books;
  const egresses = books.egresses?.map(nameText);
  const parsed = books.blocks?.map(tryBlockOf);
  return [
    ...ofAddresses(books, parsed),
    ...ofBlocks(books, parsed),
    ...ofOverlaps(books, parsed),
    ...requests.flatMap((request): Finding[] =>
      requestProblem(request, now).map((problem) => ({
        ...problem,
        code: "request-unanswered",
      }))
    ),
    ...dangling(poolNames, poolNamesIn(books), ["AddressPool", "unknown-pool"]),
    ...dangling(egressNames, egresses, ["Egress", "unknown-egress"]),
  ];
}

/** As {@linkcode findingsOf}, about pods' addresses and blocks alone; about blocks' nodes where those were read. */
export function addressFindings(
  books: Pick<Books, "pods" | "blocks" | "pools" | "nodes">,
): Finding[] {
  const parsed = books.blocks?.map(tryBlockOf);
  return [...ofAddresses(books, parsed), ...ofBlocks(books, parsed)];
}

/** The books' blocks as they are parsed, once for all: of those that cannot be, undefined. */
type ParsedBlocks = readonly (Block | undefined)[] | undefined;

function readable(parsed: readonly (Block | undefined)[]): Block[] {
  return parsed.filter((block) => block !== undefined);
}

function poolNamesIn({ pools }: Pick<Books, "pools">): string[] | undefined {
  return pools?.map(({ metadata }) => metadata.name ?? "");
}

function ofAddresses(
  { pods, pools }: Pick<Books, "pods" | "pools">,
  parsed: ParsedBlocks,
): Finding[] {
  if (pods === undefined || parsed === undefined) return [];
  const known = (pools ?? []).flatMap((pool) => tryPoolOf(pool) ?? []);
  const rows = oddAddressRows({ pods, blocks: readable(parsed), pools: known });
  const holders = Map.groupBy(
    rows.filter(({ state }) => state === "duplicate").flatMap((row) =>
      [row.ipv4, row.ipv6].map((ip) => ({ ip, row }))
    ),
    ({ ip }) => ip,
  );
  return rows.flatMap((row): Finding[] => {
    const { namespace, pod, node, block } = row;
    const found = {
      object: `Pod ${namespace}/${pod}`,
      next: `kubectl -n ${namespace} get pod ${pod} -o wide`,
      ...(row.pool !== undefined && { pool: row.pool }),
    };
    const own = addressesOf(row).join(" and ");
    switch (row.state) {
      case "duplicate":
        return [{
          ...found,
          code: "duplicate-address",
          message: duplicateText(
            row,
            (ip) => (holders.get(ip) ?? []).map((holder) => holder.row),
          ),
        }];
      case "no-block":
        return [{
          ...found,
          code: "address-outside-of-blocks",
          message:
            `has ${own} on Node ${node}, in no AddressBlock: another pod may get it`,
        }];
      case "other-node":
        return [{
          ...found,
          code: "address-of-another-node",
          message:
            `has ${own} on Node ${node}, but AddressBlock ${block} belongs to another node`,
        }];
      default:
        return [];
    }
  });
}

function addressesOf({ ipv4, ipv6 }: AddressRow): string[] {
  return [ipv4, ipv6].filter((ip) => ip !== undefined);
}

function duplicateText(
  row: AddressRow,
  holdersOf: (ip: string) => readonly AddressRow[],
): string {
  const shared = addressesOf(row).filter((ip) => holdersOf(ip).length > 1);
  const others = shared.flatMap(holdersOf).filter((other) => other !== row)
    .map(({ namespace, pod, node }) => `${namespace}/${pod} on Node ${node}`);
  return `has ${shared.join(" and ")} on Node ${row.node}, and so has ${
    [...new Set(others)].join(", ")
  }`;
}

function ofBlocks(
  { blocks, nodes, pools }: Pick<Books, "blocks" | "pools" | "nodes">,
  parsed: ParsedBlocks,
): Finding[] {
  const knownPools = pools && new Set(poolNamesIn({ pools }));
  const knownNodes = nodes && new Set(nodes);
  // Nearly all are not odd, and need no row.
  const odd = (blocks ?? []).filter((block, i) =>
    parsed?.[i] === undefined ||
    knownPools?.has(labelOf(block, POOL_LABEL)) === false ||
    knownNodes?.has(labelOf(block, NODE_LABEL)) === false
  );
  return blockRows(odd, []).flatMap((row): Finding[] => {
    const { name, pool, node, state } = row;
    const object = `AddressBlock ${name}`;
    const next = `kubectl get addressblock ${name} -o yaml`;
    const found: Finding[] = [];
    const add = (code: FindingCode, message: string) =>
      void found.push({ object, next, code, message, pool });
    if (state === "unreadable") {
      add("block-unreadable", "it was edited and is not a valid block");
    }
    if (knownPools?.has(pool) === false) {
      add("block-without-pool", `its AddressPool "${pool}" does not exist`);
    }
    if (knownNodes?.has(node) === false) {
      add(
        "block-without-node",
        `its Node "${node}" does not exist; coil-controller returns such blocks`,
      );
    }
    return found;
  });
}

function ofOverlaps(
  { pools }: Pick<Books, "pools">,
  parsed: ParsedBlocks,
): Finding[] {
  if (pools === undefined || parsed === undefined) return [];
  const known = pools.flatMap((pool) => tryPoolOf(pool) ?? []);
  const overlaps = poolOverlaps(known, readable(parsed));
  return [...overlaps].map(([name, { message }]) => ({
    object: `AddressPool ${name}`,
    code: "pools-overlap",
    message,
    next: `kubectl describe addresspool ${name}`,
  }));
}

function dangling(
  references: readonly Reference[],
  known: readonly string[] | undefined,
  [kind, code]: readonly [string, FindingCode],
): Finding[] {
  if (known === undefined) return [];
  const names = new Set(known);
  return references.filter(({ to }) => !names.has(to)).map((reference) => ({
    object: reference.from,
    code,
    message:
      `its annotation names ${kind} "${reference.to}", which does not exist`,
    next: reference.next,
  }));
}
