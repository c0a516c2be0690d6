import type { Block } from "../../../lib/api/mod.ts";
import { listCoildPods, restartCoild, yetToRestart } from "./coild_pods.ts";
import { count, EXIT } from "../../../lib/flags/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import { Progress } from "../../../lib/eviction/mod.ts";
import {
  type MigrationRecord,
  readRecord,
  timestamp,
  updateRecord,
} from "../cluster/record.ts";
import { releaseBlocks } from "./release_blocks.ts";
import { patientSurvey, type ReplaceContext, withAdvice } from "./context.ts";
import { reservedBlocks, type Survey } from "../cluster/survey.ts";

/** Removes the blocks that no longer have pods and restarts coild; prints what is left. Returns the exit code. */
export async function finish(context: ReplaceContext): Promise<number> {
  const { terminal } = context;
  const now = await patientSurvey(context);
  if (now.toReplace.length > 0) {
    terminal.err(
      `${
        count(now.toReplace.length, "pod")
      } of v1 left, of other nodes or namespaces: nothing is released before they are replaced.\n`,
    );
    return EXIT.problems;
  }
  const unproven = await release(context, now);
  await restart(context);
  if (now.kept.length > 0) terminal.err(keptText(now));
  if (unproven.length > 0) terminal.err(unprovenText(unproven));
  if (now.kept.length + unproven.length > 0) return EXIT.problems;
  await note(context, { finishedAt: timestamp() });
  terminal.err(
    "Done: no pod has an address of v1, and no block is reserved.\n",
  );
  return EXIT.ok;
}

/**
 * Removes the reserved blocks without pods, and notes which pods of coild saw them. Returns those that are left though
 * no pod has an address of theirs: of a node without a coild that is ready its pods are unknown, as when
 * its pods were deleted by force.
 */
async function release(
  context: ReplaceContext,
  now: Survey,
): Promise<readonly Block[]> {
  const { client, terminal, patience } = context;
  const unused = reservedBlocks(now).filter(({ name }) => !now.inUse.has(name));
  const ready = new Set(
    (await patience.ask(() => listCoildPods(client, context)))
      .filter(({ isReady }) => isReady).map(({ node }) => node),
  );
  const free = unused.filter(({ node }) => ready.has(node));
  const unproven = unused.filter(({ node }) => !ready.has(node));
  const record = await patience.ask(() => readRecord(client, context));
  const isInterrupted = record.removingBlocksAt !== undefined &&
    record.blocksRemovedAt === undefined;
  if (free.length === 0 && !isInterrupted) return unproven;
  await note(context, {
    removingBlocksAt: timestamp(),
    blocksRemovedAt: null,
    // Of the round before, when a manifest was applied once more.
    finishedAt: null,
  });
  const progress = new Progress(terminal, { total: free.length, done: 0 });
  await releaseBlocks(free, { ...context, progress });
  // Where blocks are left, coild is restarted after them.
  const later = new Set(unproven.map(({ node }) => node));
  const pods = (await patience.ask(() => listCoildPods(client, context)))
    .filter(({ node }) => !later.has(node));
  await note(context, {
    blocksRemovedAt: timestamp(),
    coildToRestart: pods.map(({ uid }) => uid).join(" "),
  });
  return unproven;
}

async function restart(context: ReplaceContext): Promise<void> {
  const { client, terminal, patience } = context;
  const record = await patience.ask(() => readRecord(client, context));
  if (record.blocksRemovedAt === undefined) return;
  const pods = await patience.ask(() => listCoildPods(client, context));
  if (pods.length === 0) {
    terminal.err(
      "No pods of coild were found: restart coild on each node yourself.\n",
    );
    return;
  }
  const old = yetToRestart(pods, record);
  const progress = new Progress(terminal, {
    total: pods.length,
    done: pods.length - old.length,
  });
  await withAdvice(
    context,
    () => restartCoild(old, { ...context, progress }),
  );
  await note(context, { coildToRestart: null });
}

async function note(
  context: ReplaceContext,
  changes: { readonly [K in keyof MigrationRecord]: string | null },
): Promise<void> {
  const { client, patience } = context;
  await patience.ask(() => updateRecord(client, changes, context));
}

function unprovenText(blocks: readonly Block[]): string {
  const nodes = [...new Set(blocks.map(({ node }) => node))].sort();
  return `Kept ${
    count(blocks.length, "reserved block")
  } without pods, because coild is not ready on ${
    nodes.join(", ")
  }: its pods are unknown.
Run the same command again when it is ready. When a node is gone for good, delete its Node: the controller then removes its blocks.
`;
}

function keptText({ kept, inUse }: Survey): string {
  const lines = kept.map(({ pod, why }) =>
    `  ${nameText(pod)} on node ${pod.node}: ${why}\n`
  );
  return `Kept, with ${
    count(inUse.size, "reserved block")
  }, because no controller would recreate them:
${
    lines.join("")
  }Replace them yourself, or let --force delete those without a controller; then run the same command again.
`;
}
