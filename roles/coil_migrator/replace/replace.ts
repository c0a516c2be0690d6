import { EXIT } from "../../../lib/flags/mod.ts";
import { CommandError, confirm } from "../../../lib/command/mod.ts";
import {
  type LivePod,
  Progress,
  replaceAllPods,
} from "../../../lib/eviction/mod.ts";
import {
  type MigrationRecord,
  readRecord,
  updateRecord,
} from "../cluster/record.ts";
import {
  patientSurvey,
  type ReplaceContext,
  replaceContext,
  type ReplaceOptions,
  withAdvice,
} from "./context.ts";
import { finish } from "./finish.ts";
import { checkReadiness, planText } from "./plan.ts";
import { readSurvey, reservedBlocks, type Survey } from "../cluster/survey.ts";

/** Replaces v1's pods, releases what was reserved for them, restarts coild. Run again, it goes on. */
export async function replace(options: ReplaceOptions): Promise<number> {
  const { client, values, terminal } = options;
  const record = await readRecord(client, options);
  const survey = await readSurvey(client, options);
  await checkReadiness(options, { record, survey });
  if (isFinished(record, survey)) {
    terminal.err("Nothing to do: no pod and no block of v1 is left.\n");
    return EXIT.ok;
  }
  const kept = survey.kept.filter((entry) => !isForced(entry, options));
  const todo = chosen(survey, options);
  terminal.err(planText(survey, { todo, kept }));
  if (values["dry-run"]) {
    terminal.err("Nothing was changed: --dry-run.\n");
    return EXIT.ok;
  }
  if (!values.yes && !await confirm(options, "Go on?")) {
    terminal.err("Aborted.\n");
    return EXIT.ok;
  }
  const context = replaceContext(options);
  await replaceAll(context, { todo, record, all: survey.toReplace.length });
  return await finish(context);
}

async function replaceAll(
  context: ReplaceContext,
  { todo, record, all }: {
    readonly todo: readonly LivePod[];
    readonly record: MigrationRecord;
    /** How many there are, of all nodes and namespaces. */
    readonly all: number;
  },
): Promise<void> {
  const { client, patience, values } = context;
  if (record.podsAtStart === undefined) {
    const changes = { podsAtStart: String(all) };
    await patience.ask(() => updateRecord(client, changes, context));
  }
  const isPart = values.node.length + values.namespace.length > 0;
  const before = isPart ? 0 : Number(record.podsAtStart ?? 0);
  const total = Math.max(before, todo.length);
  const progress = new Progress(context.terminal, {
    total,
    done: total - todo.length,
  });
  await withAdvice(context, () =>
    replaceAllPods(todo, {
      ...context,
      progress,
      intervalMs: values.interval,
      limits: {
        parallel: values.parallel,
        perNode: values["max-per-node"],
        perNamespace: values["max-per-namespace"],
      },
      look: async () => chosen(await patientSurvey(context), context),
      comesBack,
    }));
}

/** The pods that are to be replaced now: of the nodes and namespaces that were named, if any were. */
function chosen(
  survey: Survey,
  options: Pick<ReplaceOptions, "values">,
): LivePod[] {
  const { node, namespace } = options.values;
  const forced = survey.kept.filter((entry) => isForced(entry, options));
  return [...survey.toReplace, ...forced.map(({ pod }) => pod)].filter((pod) =>
    (node.length === 0 || node.includes(pod.node)) &&
    (namespace.length === 0 || namespace.includes(pod.namespace))
  );
}

function isForced(
  { why }: Survey["kept"][number],
  { values }: Pick<ReplaceOptions, "values">,
): boolean {
  return values.force && why === "no controller";
}

function isFinished(record: MigrationRecord, survey: Survey): boolean {
  const isEmpty = reservedBlocks(survey).length === 0 &&
    survey.toReplace.length === 0 && survey.kept.length === 0;
  // Blocks were removed, and coild may not be restarted yet.
  const isBetween = record.removingBlocksAt !== undefined &&
    record.finishedAt === undefined;
  return isEmpty && !isBetween;
}

function comesBack(pods: string): CommandError {
  return new CommandError(
    `Cannot go on: pods come back with addresses of v1: ${pods}
Is v1's CNI plugin still installed on these nodes? See /etc/cni/net.d and the log of coild there.`,
  );
}
