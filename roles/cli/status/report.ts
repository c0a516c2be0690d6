import { formatAge } from "../../../lib/api/mod.ts";
import type { Problem } from "../../../lib/ipam/audit/mod.ts";
import { compareText, nameText } from "../../../lib/names/mod.ts";
import { formatProblems } from "../base/problem.ts";
import { formatTable } from "../base/table.ts";
import type { Snapshot } from "./snapshot.ts";

export interface StatusReport {
  readonly parts: readonly PartRow[];
  readonly leases: readonly LeaseRow[];
  /** How many there are; absent when they could not be read. */
  readonly pools: number | undefined;
  readonly egresses: number | undefined;
  readonly nodes: number | undefined;
  readonly problems: readonly Problem[];
  /** What could not be read, and why. */
  readonly unseen: Snapshot["unseen"];
  /** Plurals of the objects that were. */
  readonly seen: Snapshot["seen"];
}

interface PartRow {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly ready: number;
  readonly wanted: number;
  /** Number of its pods by version. */
  readonly versions: Readonly<Record<string, number>>;
}

interface LeaseRow {
  readonly namespace: string;
  readonly name: string;
  readonly holder: string;
  /** RFC 3339 time. */
  readonly renewed: string | undefined;
}

/** Puts together what is shown. */
export function reportOf(
  snapshot: Snapshot,
  problems: readonly Problem[],
): StatusReport {
  const { workloads = [], parts = [], leases = [], unseen } = snapshot;
  const { pools, egresses, nodes, seen } = snapshot;
  const rows = workloads.map(({ kind, namespace, name, ready, wanted }) => {
    const own = parts.filter((part) =>
      part.namespace === namespace && part.name.startsWith(`${name}-`)
    );
    const byVersion = Object.groupBy(own, ({ version }) => version || "-");
    const versions = Object.fromEntries(
      Object.entries(byVersion).map((
        [version, of = []],
      ) => [version, of.length]),
    );
    return { kind, namespace, name, ready, wanted, versions };
  });
  return {
    parts: rows.sort((a, b) => compareText(a.name, b.name)),
    leases: leases.map(({ seconds: _, ...lease }) => lease),
    pools: pools?.length,
    egresses: egresses?.length,
    nodes: nodes?.length,
    problems,
    unseen,
    seen,
  };
}

/** Formats it for people. */
export function formatReport(report: StatusReport, now: Date): string {
  const parts = formatTable([
    { header: "PART", value: nameText },
    { header: "READY", value: ({ ready, wanted }) => `${ready}/${wanted}` },
    { header: "VERSION", value: ({ versions }) => versionsText(versions) },
  ], report.parts);
  const leases = formatTable([
    { header: "LEASE", value: nameText },
    { header: "HOLDER", value: ({ holder }) => holder },
    {
      header: "RENEWED",
      value: ({ renewed }) =>
        renewed === undefined ? "" : `${formatAge(renewed, now)} ago`,
    },
  ], report.leases);
  return [
    report.parts.length === 0 ? "" : parts,
    report.leases.length === 0 ? "" : leases,
    counts(report),
    formatProblems(report.problems, report.unseen, report),
  ].filter((section) => section !== "").join("\n");
}

function counts({ pools, egresses, nodes }: StatusReport): string {
  const known = Object.entries({
    AddressPools: pools,
    Egresses: egresses,
    Nodes: nodes,
  }).filter(([, count]) => count !== undefined);
  return known.length === 0
    ? ""
    : `${known.map(([what, count]) => `${what}: ${count}`).join(", ")}\n`;
}

function versionsText(versions: Readonly<Record<string, number>>): string {
  const known = Object.entries(versions);
  if (known.length < 2) return known[0]?.[0] ?? "";
  return known.map(([version, count]) => `${version} (${count})`).join(", ");
}
