import type { NodeFinding } from "../../../lib/ipam/audit/mod.ts";
import { keyText } from "../../../lib/cni/mod.ts";
import type {
  NodeAddresses,
  ReleaseRequest,
  ReleaseResult,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { type Mended, type Repair, unrepaired } from "./repair.ts";

export interface NodeRepairOptions {
  /** The last look, in which all of it was found. */
  readonly answer: NodeAddresses;
  readonly dryRun: boolean;
  /** Asks coild, which looks again and decides. */
  readonly release: (
    request: ReleaseRequest,
  ) => Promise<readonly ReleaseResult[]>;
}

/** Has coild free the addresses whose interface is gone. Everything else on a node remains a problem. */
export async function repairNode(
  findings: readonly NodeFinding[],
  { answer, dryRun, release }: NodeRepairOptions,
): Promise<Mended<NodeFinding>> {
  const entries = new Map(
    answer.table.map((entry) => [keyText(entry), entry]),
  );
  const leaked = new Map(findings.flatMap((finding) => {
    const entry = entries.get(finding.holder);
    return finding.code === "address-without-interface" && entry !== undefined
      ? [[finding, entry] as const]
      : [];
  }));
  const results = leaked.size === 0 ? [] : await release({
    entries: [...leaked.values()].map((entry) => {
      const { containerId, ifname, generation } = entry;
      return { containerId, ifname, generation };
    }),
    dryRun,
  });
  const byKey = new Map(results.map((result) => [keyText(result), result]));
  const repairs: Repair[] = [];
  const problems: NodeFinding[] = [];
  for (const finding of findings) {
    const result = leaked.has(finding) ? byKey.get(finding.holder) : undefined;
    if (result?.outcome === "freed") repairs.push(repairOf(finding, result));
    else if (result?.outcome !== "gone") {
      problems.push(unrepaired(finding, result?.why));
    }
  }
  return { repairs, problems };
}

function repairOf(
  { object, code, holder }: NodeFinding,
  { addresses }: ReleaseResult,
): Repair {
  const message = `freed ${
    addresses.join(" and ")
  } of container ${holder}: no interface, network namespace or pod of the node has them`;
  return { object, code, message };
}
