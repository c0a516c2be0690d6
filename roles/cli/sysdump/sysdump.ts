import { abortable } from "../../../lib/async/mod.ts";
import {
  type Call,
  type Command,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import { defineFlags, EXIT, type FlagValues } from "../../../lib/flags/mod.ts";
import {
  type KubeClient,
  NAMESPACES,
  NODES,
  PODS,
  SERVICES,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { CONNECTION_FLAGS } from "../base/connection.ts";
import { kubectlExec } from "../base/kubectl.ts";
import { Looker } from "../base/looker.ts";
import { formatProblems } from "../base/problem.ts";
import { checkObjects } from "../check/check.ts";
import { problemsOf } from "../status/problems.ts";
import { formatReport, reportOf } from "../status/report.ts";
import { readSnapshot } from "../status/snapshot.ts";
import { Archive } from "../archive/archive.ts";
import { Collection } from "../archive/collection.ts";
import { catchInterruption } from "../base/interruption.ts";
import { readLocal } from "./local.ts";
import { OBJECTS, objectsText } from "./objects.ts";
import { collectPods, nodesWithoutCoild } from "./pods.ts";
import { Redactor } from "../archive/redact.ts";
import { formatMissing } from "../archive/summary.ts";

const FLAGS = defineFlags({
  "output": {
    type: "string",
    short: "o",
    help: "File to write; default: coil-sysdump-TIME.tar.gz in this directory",
  },
  "redact": {
    type: "bool",
    help: "Replace names of objects and addresses, consistently in all files",
  },
  "timeout": {
    type: "duration",
    default: 300_000,
    help: "Write an incomplete archive after this time",
  },
  "log-lines": {
    type: "int",
    default: 10_000,
    min: 1,
    help:
      "Newest lines of each container's log, and of the log before its last restart",
  },
  "max-bytes": {
    type: "int",
    default: 1 << 30,
    min: 1,
    help:
      "Maximum size of all files before compression; SUMMARY.txt names files that are left out",
  },
  "local": {
    type: "bool",
    help:
      "Print diagnostics of this pod and its node as JSON; the command runs this in each pod",
  },
  "component": {
    type: "string",
    default: "coild",
    help: "With --local: the pod's label app.kubernetes.io/component",
    hidden: true,
  },
  "metrics-port": {
    type: "int",
    default: 0,
    min: 0,
    max: 65_535,
    help: "With --local: port of the daemon's metrics",
    hidden: true,
  },
  "socket": {
    type: "string",
    help: "With --local: socket of the coild to ask",
    hidden: true,
  },
  ...CONNECTION_FLAGS,
});

type Values = FlagValues<typeof FLAGS>;

/** `coil sysdump`: what a bug report needs, in one file. */
export const SYSDUMP: Command = defineCommand({
  path: "sysdump",
  about:
    "Write objects, Events, logs, metrics and the state of nodes to a file",
  flags: FLAGS,
  details:
    `Writes an archive for a bug report: Coil's objects, Events, pods, logs and metrics,
nodes, the findings of "coil status" and "coil ipam check", and each node's addresses,
links, rules and routes, read by kubectl exec in Coil's pods. The archive never has
Secrets, tokens or environments. Its SUMMARY.txt names what is missing, and why.

Exit codes: 0 complete archive, 1 no archive, 2 usage error, 3 incomplete archive.`,
  run: sysdump,
});

async function sysdump(
  { values, terminal, signal }: Call<typeof FLAGS>,
): Promise<number> {
  if (values.local) {
    const report = await readLocal({
      component: values.component,
      metricsPort: values["metrics-port"],
      socket: values.socket,
    });
    terminal.out(`${JSON.stringify(report)}\n`);
    return EXIT.ok;
  }
  using interruption = catchInterruption(
    "Interrupted: no archive was written",
    signal,
  );
  return await writeArchive(values, terminal, interruption.signal);
}

async function writeArchive(
  values: Values,
  terminal: Terminal,
  interrupted: AbortSignal,
): Promise<number> {
  const now = terminal.now();
  const stamp = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const file = values.output || `coil-sysdump-${stamp}.tar.gz`;
  using client = await connect(values);
  // Without an answer there is nothing to write an archive of.
  const version = await client.raw("/version", { signal: interrupted });
  const maxBytes = values["max-bytes"];
  await using archive = await Archive.create(file, { now, maxBytes });
  const limit = AbortSignal.timeout(values.timeout);
  const signal = AbortSignal.any([interrupted, limit]);
  const redactor = values.redact ? new Redactor() : undefined;
  const startedAt = now;
  const collection = new Collection({ archive, redactor, signal, startedAt });
  const dump = { values, terminal, client, collection, signal };
  if (redactor !== undefined) await learnNames(redactor, dump);
  await collection.add("version.json", version);
  const pods = await collectObjects(dump);
  await collectReports(dump);
  let left = pods.length;
  await collectPods(pods, collection, {
    client,
    exec: kubectlExec(values),
    logLines: values["log-lines"],
    signal,
    onDone: () => {
      left--;
      if (left % 10 === 0) terminal.err(`Pods left to ask: ${left}\n`);
    },
  });
  interrupted.throwIfAborted();
  await collection.finish(terminal.now());
  terminal.err(formatMissing(collection.missing));
  terminal.out(`${file}\n`);
  return collection.missing.length === 0 ? EXIT.ok : EXIT.problems;
}

interface Dump {
  readonly values: Values;
  readonly terminal: Terminal;
  readonly client: KubeClient;
  readonly collection: Collection;
  readonly signal: AbortSignal;
}

/** Logs, messages and chains of kube-proxy have names of any object. */
async function learnNames(redactor: Redactor, dump: Dump): Promise<void> {
  const { client, values, signal, terminal, collection } = dump;
  terminal.err("Reading the names of namespaces, nodes, pods and Services\n");
  for (const type of [NAMESPACES, NODES, PODS, SERVICES]) {
    const what = `names of ${type.plural}`;
    await collection.attempt(what, async () => {
      const looker = new Looker(client, values["page-size"]);
      const names = await looker.list<{ metadata?: { name?: string } }, string>(
        type,
        ({ metadata }) => metadata?.name ?? "",
        { signal, metadataOnly: true },
      );
      for (const name of names ?? []) redactor.learn(name);
      if (names === undefined) {
        collection.miss(
          what,
          "forbidden: those that no object here has are not replaced",
        );
      }
    });
  }
}

/** Reads the objects and returns Coil's pods. */
async function collectObjects(dump: Dump): Promise<readonly V1Pod[]> {
  const { client, values, signal, terminal, collection } = dump;
  terminal.err("Reading objects\n");
  let [nodes, pods]: [V1Node[], V1Pod[]] = [[], []];
  const ownPods = new Set<string>();
  for (const { plural, read } of OBJECTS) {
    const looker = new Looker(client, values["page-size"]);
    const objects = await collection.attempt(
      plural,
      () => read(looker, { signal, ownPods }),
    );
    for (const { why } of looker.unseen) {
      if (why === "not served") collection.notServed(plural);
      else collection.miss(plural, why);
    }
    if (objects === undefined) continue;
    if (plural === NODES.plural) nodes = objects as V1Node[];
    if (plural === PODS.plural) {
      pods = objects as V1Pod[];
      for (const { metadata } of pods) ownPods.add(metadata?.uid ?? "");
    }
    await collection.add(`objects/${plural}.json`, objectsText(objects));
  }
  for (const node of nodesWithoutCoild(nodes, pods)) {
    collection.miss(`Node ${node}`, "no coild runs there");
  }
  return pods;
}

/** What other commands say. */
async function collectReports(
  { client, values, signal, terminal, collection }: Dump,
): Promise<void> {
  const pageSize = values["page-size"];
  terminal.err('Running "coil status" and "coil ipam check"\n');
  const reports: Record<string, () => Promise<string>> = {
    "status.txt": async () => {
      const snapshot = await readSnapshot(new Looker(client, pageSize));
      const now = terminal.now();
      return formatReport(reportOf(snapshot, problemsOf(snapshot, now)), now);
    },
    "ipam_check.txt": async () => {
      const options = { pageSize, terminal };
      const { problems, unseen } = await checkObjects(client, options);
      return formatProblems(problems, unseen);
    },
  };
  for (const [name, read] of Object.entries(reports)) {
    const text = await collection.attempt(
      name,
      () => abortable(read(), signal),
    );
    if (text !== undefined) await collection.add(name, text);
  }
}
