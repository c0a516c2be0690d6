import { ADDRESS_POOLS, type Pool, tryPoolOf } from "../../../lib/api/mod.ts";
import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import {
  type LivePod,
  livePodOf,
  Patience,
  Progress,
  replaceAllPods,
  WAITING_FLAGS,
} from "../../../lib/eviction/mod.ts";
import {
  count,
  defineFlags,
  EXIT,
  type FlagValues,
  UsageError,
} from "../../../lib/flags/mod.ts";
import {
  keepFields,
  KubeApiError,
  type KubeClient,
  LIVE_PODS,
  NAMESPACES,
  PODS,
  type V1Namespace,
} from "../../../lib/kube/mod.ts";
import { CONNECTION_FLAGS, POOL_NAMES } from "../base/connection.ts";
import { listPages } from "../base/pages.ts";
import { noSuchPool } from "../ipam/cluster_reader.ts";
import {
  checkHomes,
  cordonOf,
  type DrainPlan,
  type DrainTarget,
  type DrainView,
  planDrain,
  planText,
  rangeOf,
  targetText,
  undoText,
} from "./plan.ts";

/** How often another writer may be quicker. */
const MAX_CONFLICTS = 5;
const POLL_MS = 1_000;

const FLAGS = defineFlags({
  "range": {
    type: "string",
    help:
      "Only these addresses of the pool: an address, a CIDR, or a range such as 10.2.0.10-10.2.0.20",
  },
  "evict": {
    type: "bool",
    help:
      "Replace the pods that have the addresses: evict one, wait until its replacement is ready, continue with the next",
  },
  "force": {
    type: "bool",
    help: "With --evict: also delete pods without a controller, permanently",
  },
  "dry-run": {
    type: "bool",
    help: "Only print what would be done",
  },
  "parallel": {
    type: "int",
    default: 1,
    min: 1,
    max: 1_000,
    help: "Pods replaced at a time; never two of one controller",
  },
  ...WAITING_FLAGS,
  ...CONNECTION_FLAGS,
});

type Values = FlagValues<typeof FLAGS>;

/** `coil ipam drain`: takes a pool, or a range of it, out of use. */
export const IPAM_DRAIN: Command = defineCommand({
  path: "ipam drain",
  about: "Take a pool, or a range of its addresses, out of use",
  flags: FLAGS,
  argumentListedBy: POOL_NAMES,
  details:
    `Pauses a pool, or with --range reserves some of its addresses, so that no pod gets
them any longer. Pods that have one keep it until they end; --evict replaces them one by
one, as PodDisruptionBudgets allow. Nodes return blocks without pods. Run the command
again to continue.

Exit codes: 0 no pod has such an address, 1 failure, 2 usage error, 3 pods are left.`,
  positionals: "POOL",
  run: drain,
});

interface Drain {
  readonly client: KubeClient;
  readonly values: Values;
  readonly terminal: Terminal;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  readonly name: string;
}

async function drain(
  { values, positionals: [name], ...context }: Call<typeof FLAGS>,
): Promise<number> {
  if (name === undefined) {
    throw new UsageError(
      "an argument is missing: needs the name of an AddressPool",
    );
  }
  if (values.force && !values.evict) {
    throw new UsageError("--force needs --evict");
  }
  const { terminal, signal = new AbortController().signal } = context;
  using client = await connect(values);
  const patience = new Patience({
    timeoutMs: values["api-timeout"],
    signal,
    onTrouble: (message) => terminal.err(`${message}\n`),
  });
  return await run({ client, values, terminal, patience, signal, name });
}

async function run(work: Drain): Promise<number> {
  const { values, terminal } = work;
  const { evict, "dry-run": dryRun } = values;
  const { target, plan } = await look(work);
  terminal.err(planText(target, plan, { evict, force: values.force }));
  if (evict) checkHomes(target, plan);
  if (dryRun) {
    terminal.err(
      `Dry run: nothing was changed. Without --dry-run ${
        targetText(target)
      } gives no more addresses from then on\n`,
    );
    return left(plan) > 0 ? EXIT.problems : EXIT.ok;
  }
  await cordon(work);
  terminal.err(
    `${targetText(target)} gives no more addresses. To take that back: ${
      undoText(target)
    }\n`,
  );
  if (evict) await replaceAll(work, plan);
  return report(await look(work), { terminal, evict });
}

/** How many pods have such addresses. */
function left({ toReplace, kept }: DrainPlan): number {
  return toReplace.length + kept.length;
}

async function look(
  work: Drain,
): Promise<{ readonly target: DrainTarget; readonly plan: DrainPlan }> {
  return await work.patience.ask(async () => {
    const view = await readView(work);
    const target = targetOf(work, view.pools);
    return { target, plan: planDrain(target, view) };
  });
}

async function readView({ client, values }: Drain): Promise<DrainView> {
  const pageSize = values["page-size"];
  const pools = await listPages(client, ADDRESS_POOLS, {
    pageSize,
    keep: tryPoolOf,
  });
  const namespaces = await listPages(client, NAMESPACES, {
    pageSize,
    keep: ({ metadata }): V1Namespace => ({
      metadata: keepFields(metadata, "name", "annotations"),
    }),
  });
  const pods = await listPages(client, PODS, {
    fieldSelector: LIVE_PODS,
    pageSize,
    keep: livePodOf,
  });
  return {
    pools: pools.filter((pool) => pool !== undefined),
    namespaces,
    pods: pods.filter(({ addresses }) => addresses.length > 0),
  };
}

/** @throws {CommandError} when the pool does not exist, or lacks the range */
function targetOf(
  { name, values: { range } }: Drain,
  pools: readonly Pool[],
): DrainTarget {
  const pool = pools.find((pool) => pool.name === name);
  if (pool === undefined) {
    const existing = pools.map(({ name }) => name);
    throw noSuchPool(name, { verb: "drain", existing });
  }
  return { pool, range: range === "" ? undefined : rangeOf(pool, range) };
}

/** Writes into the pool's spec that its addresses are not given. */
async function cordon(work: Drain): Promise<void> {
  const { client, patience, signal, name } = work;
  for (let attempt = 1;; attempt++) {
    const object = await patience.ask(() =>
      client.get(ADDRESS_POOLS, { name, signal })
    );
    const pool = tryPoolOf(object);
    const spec = pool === undefined
      ? undefined
      : cordonOf(targetOf(work, [pool]), object.spec);
    if (spec === undefined) return;
    const { resourceVersion } = object.metadata;
    const patch = { metadata: { resourceVersion }, spec };
    try {
      await patience.ask(() =>
        client.patch(ADDRESS_POOLS, { name, signal }, patch, { kind: "merge" })
      );
      return;
    } catch (error) {
      const isLost = error instanceof KubeApiError && error.isConflict;
      if (!isLost || attempt >= MAX_CONFLICTS) throw error;
    }
  }
}

async function replaceAll(work: Drain, first: DrainPlan): Promise<void> {
  const { values, terminal } = work;
  const { force } = values;
  const pods = chosen(first, { force });
  const progress = new Progress({
    err: (text) => terminal.err(text),
    isInteractive: terminal.isScreen ?? false,
  }, { total: pods.length, done: 0 });
  await replaceAllPods(pods, {
    ...work,
    progress,
    pollMs: POLL_MS,
    evictionTimeoutMs: values["eviction-timeout"],
    podTimeoutMs: values["pod-timeout"],
    intervalMs: 0,
    limits: {
      parallel: values.parallel,
      perNode: values.parallel,
      perNamespace: values.parallel,
    },
    look: async () => chosen((await look(work)).plan, { force }),
    comesBack,
  });
}

function chosen(
  { toReplace, kept }: DrainPlan,
  { force }: { readonly force: boolean },
): LivePod[] {
  const lonely = kept.filter(({ why }) => why === "no controller");
  return [...toReplace, ...(force ? lonely.map(({ pod }) => pod) : [])];
}

function comesBack(pods: string): CommandError {
  return new CommandError(
    `Cannot go on: pods come back with such addresses: ${pods}
Does the coild of these nodes reach the API server? See kubectl -n kube-system logs on coild there.`,
  );
}

/** Says what is left. Returns the exit code. */
function report(
  { target, plan }: {
    readonly target: DrainTarget;
    readonly plan: DrainPlan;
  },
  { terminal, evict }: {
    readonly terminal: Terminal;
    readonly evict: boolean;
  },
): number {
  const pods = left(plan);
  if (pods === 0) {
    terminal.out(`No pod has an address of ${targetText(target)}\n`);
    return EXIT.ok;
  }
  const how = evict
    ? "Those without a controller need --force, static pods a change of their file"
    : "They keep them until they end; --evict replaces them";
  terminal.out(
    `${count(pods, "pod")} left with addresses of ${
      targetText(target)
    }. ${how}\n`,
  );
  return EXIT.problems;
}
