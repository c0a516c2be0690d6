import {
  type Call,
  type Command,
  type CommandContext,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import {
  type Books,
  type Finding,
  findingsOf,
  lastingFindings,
  lookTwice,
  MIN_AGE_MS,
  type NodeFinding,
  nodeFindings,
} from "../../../lib/ipam/audit/mod.ts";
import type { NodeAddresses } from "../../../lib/cnirpc/inspection/mod.ts";
import {
  defineFlags,
  EXIT,
  type FlagValues,
  formatDuration,
  UsageError,
} from "../../../lib/flags/mod.ts";
import { EventRecorder, type KubeClient } from "../../../lib/kube/mod.ts";
import { kubectlExec } from "../base/kubectl.ts";
import { Looker, type Unseen } from "../base/looker.ts";
import {
  exitCodeOf,
  formatProblems,
  formatReportAs,
  PROBLEM_EXIT_CODES,
  PROBLEM_FLAGS,
} from "../base/problem.ts";
import { askHere, releaseHere, SOCKET_HELP } from "./here.ts";
import { askNodes } from "./nodes.ts";
import { readBooks } from "./read_books.ts";
import { formatRepairs, type Mended, type Repair } from "./repair.ts";
import { repairCluster } from "./repair_cluster.ts";
import { repairNode } from "./repair_node.ts";

const FLAGS = defineFlags({
  "nodes": {
    type: "bool",
    help:
      "Also check the nodes: run this command with --local in each coild pod, by kubectl exec",
  },
  "local": {
    type: "bool",
    help:
      "Check only this node: compare its kernel, coild's records and the node's pods",
  },
  "socket": {
    type: "string",
    help: SOCKET_HELP,
  },
  "min-age": {
    type: "duration",
    default: MIN_AGE_MS,
    help:
      "Ignore younger addresses of nodes, whose pods' status may not be written yet; with --repair, keep younger requests",
  },
  "repair": {
    type: "bool",
    help:
      "Free leaked addresses (with --nodes or --local), blocks of deleted nodes and old requests, where that is proved safe",
  },
  "dry-run": {
    type: "bool",
    help: "With --repair: only print what would be done",
  },
  ...PROBLEM_FLAGS,
});

/** `coil ipam check`: whether pods, blocks, pools and nodes fit each other. */
export const IPAM_CHECK: Command = defineCommand({
  path: "ipam check",
  about:
    "Find duplicate and leaked addresses, and blocks, requests and annotations that refer to nothing",
  flags: FLAGS,
  details:
    `Compares pods, blocks, pools, requests, nodes, and the pools and Egresses that
annotations name. Takes no lock. If anything differs, everything is read again after some
seconds: a difference that only one reading shows is a change under way, not a problem.
Reads only the API server; with --nodes also the nodes. A node that does not answer is
UNKNOWN.

Changes nothing without --repair. --repair frees only what kernel, container runtime and
API server show to be unused. It reads them again right before, and records an Event for
each repair. For everything else it prints what you can do.

${PROBLEM_EXIT_CODES}`,
  run: check,
});

type Values = FlagValues<typeof FLAGS>;

async function check(
  { values, ...context }: Call<typeof FLAGS>,
): Promise<number> {
  if (values.local && values.nodes) {
    throw new UsageError("--local is for one node, --nodes for all");
  }
  if (values["dry-run"] && !values.repair) {
    throw new UsageError("--dry-run needs --repair");
  }
  const report = values.local
    ? await mendHere(values)
    : await checkCluster(values, context);
  const { repairs = [], problems, unseen } = report;
  context.terminal.out(formatReportAs(
    values.output,
    report,
    () => formatRepairs(repairs) + formatProblems(problems, unseen),
  ));
  if (!values["dry-run"]) return exitCodeOf(report);
  context.terminal.err("Dry run: nothing was changed\n");
  return repairs.length > 0 ? EXIT.problems : exitCodeOf(report);
}

export interface CheckReport<F = Finding | NodeFinding> {
  /** With --repair only. */
  readonly repairs?: readonly Repair[];
  readonly problems: readonly F[];
  readonly unseen: readonly Unseen[];
}

/** What of this node does not fit, and what its coild answered. @throws {CommandError} when it does not answer */
export function checkHere(
  { socket, minAgeMs }: { readonly socket: string; readonly minAgeMs: number },
): Promise<CheckReport<NodeFinding> & { readonly answer: NodeAddresses }> {
  return lastingReport(async () => {
    const answer = await askHere(socket);
    return {
      answer,
      problems: nodeFindings(answer, { minAgeSeconds: minAgeMs / 1_000 }),
      unseen: answer.pods !== undefined ? [] : [{
        what: `pods of Node ${answer.node}`,
        why: "unknown" as const,
        detail: "the API server has not listed them to coild yet",
      }],
    };
  });
}

async function mendHere(values: Values): Promise<CheckReport> {
  const { socket, repair, "dry-run": dryRun, "min-age": minAgeMs } = values;
  const { answer, ...report } = await checkHere({ socket, minAgeMs });
  if (!repair) return report;
  const mended = await repairNode(report.problems, {
    answer,
    dryRun,
    release: async (request) => (await releaseHere(socket, request)).results,
  });
  return { ...mended, unseen: report.unseen };
}

async function checkCluster(
  values: Values,
  { terminal }: CommandContext,
): Promise<CheckReport> {
  using client = await connect(values);
  const pageSize = values["page-size"];
  const { repair, "dry-run": dryRun } = values;
  const asked = values.nodes
    ? await askNodes(new Looker(client, pageSize), {
      exec: kubectlExec(values),
      parse: parseReport,
      args: [
        ...["ipam", "check", "--local", "--output=json"],
        ...values.socket === "" ? [] : [`--socket=${values.socket}`],
        ...repair ? ["--repair"] : [],
        ...dryRun ? ["--dry-run"] : [],
        `--min-age=${formatDuration(values["min-age"])}`,
      ],
    })
    : { answers: new Map<string, Mended<NodeFinding>>(), unseen: [] };
  const ofNodes = [...asked.answers.values()];
  const nodeProblems = ofNodes.flatMap(({ problems }) => problems);
  const { books, ...report } = await checkObjects(client, {
    pageSize,
    terminal,
  });
  const unseen = [...report.unseen, ...asked.unseen];
  if (!repair) {
    return { problems: [...report.problems, ...nodeProblems], unseen };
  }
  const mended = await mendCluster(client, values, {
    findings: report.problems,
    books,
    terminal,
  });
  return {
    repairs: [
      ...mended.repairs,
      ...ofNodes.flatMap(({ repairs }) => repairs),
    ],
    problems: [...mended.problems, ...nodeProblems],
    unseen,
  };
}

/** Reads a report of `coil ipam check --local`. @throws {SyntaxError} when it is not one */
export function parseReport(text: string): Mended<NodeFinding> {
  const report: unknown = JSON.parse(text);
  const { problems, repairs = [], unseen } = (report ?? {}) as Partial<
    CheckReport<NodeFinding>
  >;
  if (![problems, repairs, unseen].every(Array.isArray)) {
    throw new SyntaxError("its answer is not a report");
  }
  return { repairs, problems: problems ?? [] };
}

/** What of the cluster's objects does not fit, and the objects. */
export function checkObjects(
  client: Pick<KubeClient, "list" | "listItems">,
  { pageSize, terminal }: {
    readonly pageSize: number;
    readonly terminal: Pick<Terminal, "now">;
  },
): Promise<CheckReport<Finding> & { readonly books: Books }> {
  return lastingReport(async () => {
    const now = terminal.now();
    const looker = new Looker(client, pageSize);
    const books = await readBooks(looker);
    return { books, problems: findingsOf(books, now), unseen: looker.unseen };
  });
}

/** Repairs, and writes the Events. */
async function mendCluster(
  client: KubeClient,
  values: Values,
  { findings, books, terminal }: {
    readonly findings: readonly Finding[];
    readonly books: Books;
    readonly terminal: Terminal;
  },
): Promise<Mended> {
  const recorder = new EventRecorder(client, { component: "coil" });
  const mended = await repairCluster(findings, {
    client,
    looker: new Looker(client, values["page-size"]),
    books,
    recorder,
    dryRun: values["dry-run"],
    minAgeMs: values["min-age"],
    now: terminal.now(),
  });
  // Not at the same time: an Event under way at the end would be written twice.
  await recorder.run(AbortSignal.abort());
  const lost = recorder.dropped + recorder.pending;
  if (lost > 0) terminal.err(`Events not written: ${lost}\n`);
  return mended;
}

/** The report of a look, with the problems that a second look has too. */
function lastingReport<
  R extends CheckReport<Finding> | CheckReport<NodeFinding>,
>(
  look: () => Promise<R>,
): Promise<R> {
  return lookTwice(look, {
    hasProblems: ({ problems }) => problems.length > 0,
    lasting: (first, second) => ({
      ...second,
      problems: lastingFindings<Finding | NodeFinding>(
        first.problems,
        second.problems,
      ),
    }),
  });
}
