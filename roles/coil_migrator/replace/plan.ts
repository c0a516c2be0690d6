import type { KubeClient } from "../../../lib/kube/mod.ts";
import { DUMPED_ANNOTATION, nameText } from "../../../lib/names/mod.ts";
import { listCoildPods } from "./coild_pods.ts";
import { count } from "../../../lib/flags/mod.ts";
import { CommandError, type Terminal } from "../../../lib/command/mod.ts";
import type { LivePod } from "../../../lib/eviction/mod.ts";
import { isDumpUnfinished, type MigrationRecord } from "../cluster/record.ts";
import { doubledBlocks } from "../cluster/doubled_blocks.ts";
import { misplacedBlocks } from "../cluster/misplaced_blocks.ts";
import { reservedBlocks, type Survey } from "../cluster/survey.ts";
import { findV1Workloads, isAtWork, workloadText } from "../v1/workloads.ts";

/**
 * Looks for what would make replacing dangerous or pointless.
 *
 * @throws {CommandError} when there is something
 */
export async function checkReadiness(
  context: {
    readonly client: KubeClient;
    readonly terminal: Terminal;
    readonly signal: AbortSignal;
  },
  { record, survey }: {
    readonly record: MigrationRecord;
    readonly survey: Survey;
  },
): Promise<void> {
  const { client, terminal } = context;
  const atWork = (await findV1Workloads(client, context)).filter((workload) =>
    isAtWork([workload])
  );
  if (atWork.length > 0) {
    throw refusal(
      `Coil v1 is still running: ${atWork.map(workloadText).join(", ")}`,
      'It is removed by "coil migrate dump".',
    );
  }
  if (isDumpUnfinished(record)) {
    throw refusal(
      "the dump was not finished: the manifest may lack blocks that Coil v1 allocated last",
      'Run "coil migrate dump" once more, and apply the manifest again. When v2 is at work already, see docs/migrate.md.',
    );
  }
  checkBlocks(record, survey);
  const nodes = new Set(survey.toReplace.map(({ node }) => node));
  if (nodes.size === 0) return;
  const served = new Set(
    (await listCoildPods(client, context)).filter(({ isReady }) => isReady)
      .map(({ node }) => node),
  );
  if (served.size === 0) {
    throw refusal(
      "no pod of coild is ready",
      "Without it pods get no addresses. Install Coil v2 first; see docs/migrate.md.",
    );
  }
  const without = [...nodes].filter((node) => !served.has(node));
  if (without.length === 0) return;
  terminal.err(
    `warning: coild is not ready on ${
      without.join(", ")
    }: pods that are made there will have to wait\n`,
  );
}

/** The blocks must be those of the manifest: whose block is missing has addresses that v2 gives out a second time. */
function checkBlocks(record: MigrationRecord, survey: Survey): void {
  const [unreadable] = survey.unreadable;
  if (unreadable !== undefined) {
    throw refusal(
      `a Coil object is invalid:  ${unreadable}`,
      "Apply the manifest of coil migrate dump again, as it was written.",
    );
  }
  const [misplaced] = misplacedBlocks(survey);
  if (misplaced !== undefined) {
    throw refusal(
      misplaced,
      "Was the manifest edited? Delete this AddressBlock and apply the manifest again, as it was written.",
    );
  }
  const [edited] = survey.edited;
  if (edited !== undefined) {
    throw refusal(
      edited,
      `Apply the manifest again, as it was written, with --force-conflicts; "coil migrate status --manifest FILE" compares each object. If the block is right as it is: kubectl annotate addressblock NAME ${DUMPED_ANNOTATION}-`,
    );
  }
  // Later, a reserved block of free addresses is one of a manifest that was applied once more.
  if (record.removingBlocksAt !== undefined) return;
  const [doubled] = doubledBlocks(survey.blocks);
  if (doubled !== undefined) {
    throw refusal(
      doubled,
      "The manifest was applied after v2 had started to assign addresses, so pods of v1 and v2 may have the same. Delete this block of v2 with --wait=false, then the pods with its addresses (coil ipam show addresses): the block is deleted with the last of them.",
    );
  }
  const found = reservedBlocks(survey).length;
  const expected = Number(record.blocks ?? 0);
  if (found >= expected) return;
  throw refusal(
    `the manifest has ${expected} reserved blocks, the cluster only ${found}`,
    "Apply the whole manifest before anything else: v2 can assign addresses of the missing blocks to new pods.",
  );
}

/** What is going to happen. */
export function planText(
  survey: Survey,
  { todo, kept }: {
    readonly todo: readonly LivePod[];
    readonly kept: Survey["kept"];
  },
): string {
  const nodes = new Map<string, number>();
  for (const { node } of todo) nodes.set(node, (nodes.get(node) ?? 0) + 1);
  const forGood = todo.filter(({ controller }) => controller === undefined);
  const reserved = reservedBlocks(survey).length;
  const lines = [
    `${count(todo.length, "pod")} of v1 to replace, on ${
      count(nodes.size, "node")
    }; ${count(reserved, "reserved block")}`,
    ...[...nodes].map(([node, n]) => `  node ${node}: ${count(n, "pod")}`),
    ...forGood.map((pod) =>
      `  ${nameText(pod)} on node ${pod.node}: no controller, deleted for good`
    ),
    ...kept.map(({ pod, why }) =>
      `  ${nameText(pod)} on node ${pod.node}: kept: ${why}`
    ),
    "When no pod has an address of v1 left, the reserved blocks are removed and coild is restarted.",
  ];
  return `${lines.join("\n")}\n`;
}

function refusal(why: string, advice: string): CommandError {
  return new CommandError(`Cannot replace pods: ${why}\n${advice}`);
}
