import { count } from "../../../lib/flags/mod.ts";
import type { MigrationStatus, Phase } from "./migration_status.ts";
import { isDumpUnfinished } from "../cluster/record.ts";

type Facts = Omit<MigrationStatus, "phase" | "next">;

/** Derives the phase from what there is, and what comes next. */
export function phaseOf(
  facts: Facts,
): { readonly phase: Phase; readonly next: string } {
  const { record, pods, coild } = facts;
  const left = pods.toReplace + Object.keys(pods.kept).length;
  if (facts.v1AtWork) {
    return record.dumpedAt === undefined
      ? { phase: "not begun", next: "coil migrate dump" }
      : { phase: "v1 at work", next: "coil migrate dump again" };
  }
  if (isDumpUnfinished(record)) {
    return { phase: "dump unfinished", next: "coil migrate dump again" };
  }
  const mayBeMissing = record.removingBlocksAt !== undefined;
  const expected = Number(record.blocks ?? 0);
  if (record.dumpedAt !== undefined && !mayBeMissing) {
    if (!facts.crds || (facts.pools === 0 && facts.reservedBlocks === 0)) {
      return { phase: "dumped", next: "apply the CRDs, then the manifest" };
    }
    if (facts.pools === 0 || facts.reservedBlocks < expected) {
      return {
        phase: "manifest applied in part",
        next: "apply the whole manifest",
      };
    }
  }
  if (left > 0 || facts.reservedBlocks > 0) {
    if (coild.ready === 0) {
      return { phase: "waiting for v2", next: "install Coil v2" };
    }
    const phase = left > 0 ? "replacing pods" : "releasing blocks";
    return { phase, next: "coil migrate replace" };
  }
  if (record.finishedAt !== undefined) {
    return { phase: "done", next: "nothing; v1's etcd keys can be deleted" };
  }
  if (mayBeMissing) {
    return { phase: "restarting coild", next: "coil migrate replace" };
  }
  return { phase: "nothing to migrate", next: "nothing" };
}

/** The status for people. */
export function statusText(status: MigrationStatus): string {
  const { record, pods, coild } = status;
  const rows: (readonly [string, string])[] = [
    ["Phase", status.phase],
    ["Coil v1", v1Text(status)],
    ["Manifest", dumpText(status)],
    ["Coil v2", v2Text(status)],
    [
      "Reserved",
      `${
        count(status.reservedBlocks, "block")
      }, ${status.reservedInUse} with pods`,
    ],
    ["Pods of v1", podsText(status)],
    [
      "Coild",
      `${coild.ready} of ${count(coild.pods, "pod")} ready${
        coild.old > 0 ? `, ${coild.old} to be restarted` : ""
      }`,
    ],
    ...(record.finishedAt === undefined
      ? []
      : [["Finished", record.finishedAt] as const]),
    ["Next", status.next],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, text]) => `${name.padEnd(width)}   ${text}\n`);
  const more = [
    ...Object.entries(pods.byNode).map(([node, n]) =>
      `  node ${node}: ${count(n, "pod")} to replace\n`
    ),
    ...Object.entries(pods.kept).map(([pod, why]) =>
      `  ${pod}: kept: ${why}\n`
    ),
    ...(status.manifest?.missing ?? []).slice(0, 10).map((key) =>
      `  not in the cluster: ${key}\n`
    ),
    ...status.problems.map((problem) => `  problem: ${problem}\n`),
  ];
  return [...lines, ...more].join("");
}

function v1Text({ v1Objects, record }: MigrationStatus): string {
  if (v1Objects.length > 0) return `there: ${v1Objects.join(", ")}`;
  return record.v1RemovedAt === undefined
    ? "not there"
    : `removed ${record.v1RemovedAt}`;
}

function dumpText({ record }: MigrationStatus): string {
  if (record.dumpedAt === undefined) return "not written";
  return `written ${record.dumpedAt}: ${
    count(Number(record.pools ?? 0), "pool")
  }, ${count(Number(record.blocks ?? 0), "reserved block")}`;
}

function v2Text({ crds, pools }: MigrationStatus): string {
  return crds
    ? `resources installed, ${count(pools, "pool")}`
    : "resources not installed";
}

function podsText({ record, pods }: MigrationStatus): string {
  const kept = Object.keys(pods.kept).length;
  const of = record.podsAtStart === undefined
    ? ""
    : ` of ${record.podsAtStart}`;
  return `${pods.toReplace}${of} to replace${kept > 0 ? `, ${kept} kept` : ""}`;
}
