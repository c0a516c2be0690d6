import { EXIT } from "../../../lib/flags/mod.ts";
import { ADDRESS_BLOCKS } from "../../../lib/api/mod.ts";
import type { EtcdClient } from "../../../lib/etcd/mod.ts";
import { KubeApiError, type KubeClient } from "../../../lib/kube/mod.ts";
import { RESERVED_LABEL } from "../../../lib/names/mod.ts";
import { readClusterFacts } from "../cluster/facts.ts";
import { type Conversion, convert } from "../convert/conversion.ts";
import { dumpSummary, nextSteps } from "./report.ts";
import { explain } from "../command/errors.ts";
import type { DumpValues } from "../command/flags.ts";
import { countsOf, digestOf, formatManifest } from "./manifest.ts";
import {
  type PresentManifest,
  readManifest,
  writeManifest,
} from "./manifest_file.ts";
import { timestamp, updateRecord } from "../cluster/record.ts";
import {
  CommandError,
  confirm,
  type Terminal,
} from "../../../lib/command/mod.ts";
import { readV1State } from "../v1/reader.ts";
import {
  findV1Workloads,
  isAtWork,
  removeWorkload,
  type V1Workload,
  workloadText,
} from "../v1/workloads.ts";

/** Between the end of v1 and the second read of etcd. */
const UNFINISHED =
  "Coil v1 is removed, but the manifest may lack blocks that it allocated last: run the same command again before you apply anything.";

export interface DumpContext {
  readonly values: DumpValues;
  readonly client: KubeClient;
  readonly etcd: EtcdClient;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Takes over v1's state into a manifest, and then removes v1's workloads. Run again, it goes on. */
export async function dump(context: DumpContext): Promise<number> {
  const { values, terminal, client } = context;
  await refuseAfterV2(context);
  // Before etcd is read: what is gone by then gives out nothing after it.
  const found = values.output === "-"
    ? []
    : await findV1Workloads(client, context);
  const conversion = await readAndConvert(context, "Nothing was changed.");
  const workloads = values["skip-uninstall"] ? [] : found;
  const before = values.output === "-"
    ? undefined
    : await readManifest(values.output);
  const text = formatManifest(conversion);
  terminal.err(
    dumpSummary(conversion, { file: values.output, text, before, workloads }),
  );
  if (values["dry-run"]) {
    terminal.err("Nothing was changed: --dry-run.\n");
    return EXIT.ok;
  }
  if (values.output === "-") {
    terminal.out(text);
    return EXIT.ok;
  }
  refuseEdited(context, before);
  if (!await agreed(context, { before, text, workloads })) {
    terminal.err("Aborted.\n");
    return EXIT.ok;
  }
  await save(context, { conversion, text, before });
  await uninstall(context, { workloads, text, wasAtWork: isAtWork(found) });
  terminal.err(nextSteps(values.output));
  return EXIT.ok;
}

/** Reads and converts; an error also says what state the migration is in. */
async function readAndConvert(
  { client, etcd, values, signal }: DumpContext,
  whereWeAre: string,
): Promise<Conversion> {
  const prefix = values["etcd-prefix"];
  try {
    const state = await readV1State(etcd, { prefix, signal });
    return convert(state, await readClusterFacts(client, { signal }));
  } catch (cause) {
    const text = signal.aborted ? undefined : explain(cause);
    if (text === undefined) throw cause;
    throw new CommandError(`${text}\n${whereWeAre}`, { cause });
  }
}

/** When v2 has given out addresses, pods of v1 cannot be distinguished from v2's by what etcd has. */
async function refuseAfterV2({ client, signal }: DumpContext): Promise<void> {
  try {
    const { items } = await client.list(ADDRESS_BLOCKS, {
      labelSelector: `!${RESERVED_LABEL}`,
      limit: 1,
      signal,
    });
    const [block] = items;
    if (block === undefined) return;
    throw new CommandError(
      `Cannot dump: Coil v2 already assigns addresses, see AddressBlock "${block.metadata.name}"
The time for that is before v2's workloads start. "coil migrate status" shows how far the migration is.`,
    );
  } catch (error) {
    // Coil's resources are not installed yet, as is usual at this point.
    if (error instanceof KubeApiError && error.isNotFound) return;
    throw error;
  }
}

function refuseEdited(
  { values }: DumpContext,
  before: PresentManifest | undefined,
): void {
  if (before === undefined || values.overwrite) return;
  const { state } = before;
  const why = {
    "intact": undefined,
    "edited": "it was edited since it was written",
    "cut short": "it is not whole",
    "foreign": "it is not a manifest of coil migrate dump",
  }[state.state];
  if (why === undefined) return;
  throw new CommandError(
    `Cannot write manifest "${values.output}": ${why}
Move it away, name another file with --output, or replace it with --overwrite. Nothing was changed.`,
  );
}

/** Asks only when something would be lost. */
async function agreed(
  context: DumpContext,
  { before, text, workloads }: {
    readonly before: PresentManifest | undefined;
    readonly text: string;
    readonly workloads: readonly V1Workload[];
  },
): Promise<boolean> {
  const { values } = context;
  const replaces = before !== undefined && before.text !== text;
  if (values.yes || (workloads.length === 0 && !replaces)) return true;
  const what = [
    ...(replaces ? [`replace ${values.output}`] : []),
    ...(workloads.length > 0
      ? [`write the manifest and delete the objects above`]
      : []),
  ].join(", ");
  return await confirm(context, `Go on: ${what}?`);
}

async function save(
  { values, client, terminal, signal }: DumpContext,
  { conversion, text, before }: {
    readonly conversion: Conversion;
    readonly text: string;
    readonly before: PresentManifest | undefined;
  },
): Promise<void> {
  const { output } = values;
  if (before?.text === text) {
    terminal.err(`${output} is up to date.\n`);
  } else {
    await writeManifest(output, text);
    terminal.err(`Wrote ${output}.\n`);
  }
  const { pools, blocks } = countsOf(conversion);
  await updateRecord(client, {
    dumpedAt: timestamp(),
    manifest: digestOf(text),
    pools: String(pools),
    blocks: String(blocks),
    v1RemovedAt: null,
    podsAtStart: null,
    removingBlocksAt: null,
    blocksRemovedAt: null,
    coildToRestart: null,
    finishedAt: null,
  }, { signal });
}

/**
 * Removes v1's workloads, and then reads etcd again: until the last of them was gone, v1 may have given out more
 * blocks.
 */
async function uninstall(
  context: DumpContext,
  { workloads, text, wasAtWork }: {
    readonly workloads: readonly V1Workload[];
    readonly text: string;
    /** Whether v1 could give out blocks while etcd was read. */
    readonly wasAtWork: boolean;
  },
): Promise<void> {
  const { values, client, terminal, signal } = context;
  for (const [position, workload] of workloads.entries()) {
    const count = `[${position + 1}/${workloads.length}]`;
    terminal.err(`${count} deleting ${workloadText(workload)} …`);
    await removeWorkload(client, workload, {
      signal,
      timeoutMs: values["uninstall-timeout"],
    });
    terminal.err(" gone\n");
  }
  if (isAtWork(await findV1Workloads(client, { signal }))) return;
  if (wasAtWork) {
    const conversion = await readAndConvert(context, UNFINISHED);
    const last = formatManifest(conversion);
    if (last !== text) {
      terminal.err("v1's state has changed since.\n");
      const before = await readManifest(values.output);
      await save(context, { conversion, text: last, before });
    }
  }
  await updateRecord(client, { v1RemovedAt: timestamp() }, { signal });
}
