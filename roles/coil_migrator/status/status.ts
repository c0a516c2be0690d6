import { EXIT } from "../../../lib/flags/mod.ts";
import { ADDRESS_BLOCKS } from "../../../lib/api/mod.ts";
import { KubeApiError, type KubeClient } from "../../../lib/kube/mod.ts";
import { listCoildPods, yetToRestart } from "../replace/coild_pods.ts";
import { doubledBlocks } from "../cluster/doubled_blocks.ts";
import type { StatusValues } from "../command/flags.ts";
import { nameText } from "../../../lib/names/mod.ts";
import {
  compareManifest,
  type ManifestComparison,
} from "../dump/manifest_check.ts";
import type { MigrationStatus } from "./migration_status.ts";
import { misplacedBlocks } from "../cluster/misplaced_blocks.ts";
import { type MigrationRecord, readRecord } from "../cluster/record.ts";
import { phaseOf, statusText } from "./report.ts";
import { readSurvey, reservedBlocks, type Survey } from "../cluster/survey.ts";
import type { Terminal } from "../../../lib/command/mod.ts";
import { findV1Workloads, isAtWork, workloadText } from "../v1/workloads.ts";

export interface StatusContext {
  readonly values: StatusValues;
  readonly client: KubeClient;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Prints where a migration stands. */
export async function status(context: StatusContext): Promise<number> {
  const { values, terminal } = context;
  const found = await readStatus(context);
  terminal.out(
    values.output === "json"
      ? `${JSON.stringify(found, null, 2)}\n`
      : statusText(found),
  );
  return EXIT.ok;
}

async function readStatus(context: StatusContext): Promise<MigrationStatus> {
  const { client, values } = context;
  const record = await readRecord(client, context);
  const workloads = await findV1Workloads(client, context);
  const survey = await hasCrds(context)
    ? await readSurvey(client, context)
    : undefined;
  const manifest = values.manifest === ""
    ? undefined
    : await compareManifest(client, { ...context, file: values.manifest });
  const facts = {
    record,
    v1Objects: workloads.map(workloadText),
    v1AtWork: isAtWork(workloads),
    crds: survey !== undefined,
    ...surveyFacts(survey),
    coild: await coildFacts(context, record),
    problems: problemsOf(survey, { record, manifest }),
    ...(manifest === undefined ? {} : { manifest }),
  };
  return { ...phaseOf(facts), ...facts };
}

async function hasCrds(
  { client, signal }: StatusContext,
): Promise<boolean> {
  try {
    await client.list(ADDRESS_BLOCKS, { limit: 1, signal });
    return true;
  } catch (error) {
    if (error instanceof KubeApiError && error.isNotFound) return false;
    throw error;
  }
}

function surveyFacts(
  survey: Survey | undefined,
): Pick<
  MigrationStatus,
  "pools" | "reservedBlocks" | "reservedInUse" | "pods"
> {
  if (survey === undefined) {
    const pods = { toReplace: 0, byNode: {}, kept: {} };
    return { pools: 0, reservedBlocks: 0, reservedInUse: 0, pods };
  }
  const byNode: Record<string, number> = {};
  for (const { node } of survey.toReplace) {
    byNode[node] = (byNode[node] ?? 0) + 1;
  }
  return {
    pools: survey.pools.length,
    reservedBlocks: reservedBlocks(survey).length,
    reservedInUse: survey.inUse.size,
    pods: {
      toReplace: survey.toReplace.length,
      byNode,
      kept: Object.fromEntries(
        survey.kept.map(({ pod, why }) => [nameText(pod), why]),
      ),
    },
  };
}

async function coildFacts(
  context: StatusContext,
  record: MigrationRecord,
): Promise<MigrationStatus["coild"]> {
  const pods = await listCoildPods(context.client, context);
  const old = yetToRestart(pods, record);
  const ready = pods.filter(({ isReady }) => isReady);
  return { pods: pods.length, ready: ready.length, old: old.length };
}

function problemsOf(
  survey: Survey | undefined,
  { record, manifest }: {
    readonly record: MigrationRecord;
    readonly manifest: ManifestComparison | undefined;
  },
): string[] {
  if (survey === undefined) return [...manifest?.problems ?? []];
  const found = reservedBlocks(survey).length;
  const expected = Number(record.blocks ?? 0);
  const mayBeMissing = record.removingBlocksAt !== undefined;
  // Before the manifest is applied there are none, which is not a problem.
  const isPartial = !mayBeMissing && survey.pools.length + found > 0 &&
    found < expected;
  return [
    ...survey.unreadable,
    ...survey.edited,
    ...misplacedBlocks(survey),
    ...(mayBeMissing ? [] : doubledBlocks(survey.blocks)),
    ...(isPartial
      ? [`${found} of the ${expected} reserved blocks of the manifest exist`]
      : []),
    ...manifest?.problems ?? [],
  ];
}
