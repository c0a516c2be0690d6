import { count } from "../../../lib/flags/mod.ts";
import { POOL_LABEL } from "../../../lib/names/mod.ts";
import type { Conversion } from "../convert/conversion.ts";
import { type Finding, findingLine } from "../convert/finding.ts";
import { countsOf } from "./manifest.ts";
import type { PresentManifest } from "./manifest_file.ts";
import { type V1Workload, workloadText } from "../v1/workloads.ts";

/** More findings of one kind than this are counted instead of shown; the manifest has them all. */
const SHOWN_OF_A_KIND = 10;

/** The report before a dump continues. */
export function dumpSummary(
  conversion: Conversion,
  { file, text, before, workloads }: {
    readonly file: string;
    readonly text: string;
    readonly before: PresentManifest | undefined;
    readonly workloads: readonly V1Workload[];
  },
): string {
  const counts = countsOf(conversion);
  const lines = [
    `Coil v1: ${count(counts.pools, "pool")}, ${
      count(counts.blocks, "block")
    } on nodes, ${
      count(counts.namespaces, "namespace")
    } with a pool of its own`,
    ...poolLines(conversion),
    ...findingLines(conversion.findings),
    `Manifest: ${file === "-" ? "stdout" : file}${stateText(text, before)}`,
    ...(workloads.length === 0 ? [] : [
      "To be deleted once the manifest is written:",
      ...workloads.map((workload) => `  ${workloadText(workload)}`),
    ]),
  ];
  return `${lines.join("\n")}\n`;
}

/** What comes after a dump. */
export function nextSteps(file: string): string {
  return `Next, and before Coil v2's workloads start:
  kubectl apply -f crds/
  kubectl apply --server-side --field-manager=coil-migrator -f ${file}
Then install Coil v2, and: coil migrate replace
`;
}

function poolLines({ pools, blocks }: Conversion): string[] {
  return pools.map(({ metadata, spec }) => {
    const name = metadata.name ?? "";
    const own = blocks.filter(({ metadata: { labels } }) =>
      labels?.[POOL_LABEL] === name
    );
    const subnets = spec.subnets.map(({ ipv4 }) => ipv4).join(" ");
    return `  ${name}: ${subnets}, blocks of ${
      2 ** (spec.blockSizeBits ?? 0)
    }, ${own.length} reserved`;
  });
}

function findingLines(findings: readonly Finding[]): string[] {
  const shown = new Map<string, number>();
  const lines: string[] = [];
  for (const finding of findings) {
    const key = `${finding.severity} ${finding.kind}`;
    const number = (shown.get(key) ?? 0) + 1;
    shown.set(key, number);
    if (number <= SHOWN_OF_A_KIND) lines.push(`  ${findingLine(finding)}`);
  }
  for (const [key, number] of shown) {
    if (number <= SHOWN_OF_A_KIND) continue;
    lines.push(`  ${number - SHOWN_OF_A_KIND} more of: ${key}`);
  }
  return lines.length === 0 ? [] : ["What to know:", ...lines];
}

function stateText(
  text: string,
  before: PresentManifest | undefined,
): string {
  if (before === undefined) return "";
  if (before.text === text) return ", which is up to date";
  return before.state.state === "intact"
    ? ", which has another state of v1 now"
    : `, which is ${before.state.state} now`;
}
