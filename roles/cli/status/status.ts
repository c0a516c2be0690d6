import { jittered, sleep } from "../../../lib/async/mod.ts";
import {
  type Call,
  type Command,
  connect,
  defineCommand,
  type Terminal,
} from "../../../lib/command/mod.ts";
import { defineFlags, EXIT } from "../../../lib/flags/mod.ts";
import {
  type KubeClient,
  KubeUnreachableError,
} from "../../../lib/kube/mod.ts";
import { Looker } from "../base/looker.ts";
import {
  exitCodeOf,
  formatReportAs,
  PROBLEM_EXIT_CODES,
  PROBLEM_FLAGS,
} from "../base/problem.ts";
import { problemsOf } from "./problems.ts";
import { formatReport, reportOf, type StatusReport } from "./report.ts";
import { readSnapshot } from "./snapshot.ts";

/** How long to wait before looking again. */
const LOOK_AGAIN_MS = 2_000;

const FLAGS = defineFlags({
  "wait": {
    type: "duration",
    default: 0,
    help: "Wait until there are no problems, for this long at most",
  },
  ...PROBLEM_FLAGS,
});

/** `coil status`: whether Coil works, and its problems. */
export const STATUS: Command = defineCommand({
  path: "status",
  about: "Show whether Coil works, and the next step for each problem",
  flags: FLAGS,
  details:
    `Shows Coil's components, their versions and leaders, and each problem with the command
that shows more. Reads only the API server.

${PROBLEM_EXIT_CODES}`,
  run: status,
});

async function status(
  { values, terminal }: Call<typeof FLAGS>,
): Promise<number> {
  using client = await connect(values);
  const report = await settled({
    client,
    terminal,
    pageSize: values["page-size"],
    waitMs: values.wait,
  });
  const text = formatReportAs(
    values.output,
    report,
    () => formatReport(report, terminal.now()),
  );
  terminal.out(text);
  return exitCodeOf(report);
}

interface Look {
  readonly client: Pick<KubeClient, "list" | "listItems">;
  readonly terminal: Terminal;
  readonly pageSize: number;
  readonly waitMs: number;
}

/** Looks until there are no problems or the time is over. An API server that does not answer may be part of what is waited for. */
async function settled(look: Look): Promise<StatusReport> {
  const { terminal, waitMs } = look;
  const endsAt = terminal.now().getTime() + waitMs;
  let said = "";
  for (;;) {
    const isLast = terminal.now().getTime() >= endsAt;
    const report = await once(look, { isLast });
    if (report !== undefined && (isLast || exitCodeOf(report) === EXIT.ok)) {
      return report;
    }
    const why = waitingFor(report);
    if (why !== said) terminal.err(`Waiting: ${why}\n`);
    said = why;
    const restMs = endsAt - terminal.now().getTime();
    await sleep(Math.max(0, Math.min(jittered(LOOK_AGAIN_MS), restMs)));
  }
}

async function once(
  { client, terminal, pageSize }: Look,
  { isLast }: { readonly isLast: boolean },
): Promise<StatusReport | undefined> {
  try {
    const snapshot = await readSnapshot(new Looker(client, pageSize));
    return reportOf(snapshot, problemsOf(snapshot, terminal.now()));
  } catch (error) {
    if (isLast || !(error instanceof KubeUnreachableError)) throw error;
    return undefined;
  }
}

function waitingFor(report: StatusReport | undefined): string {
  if (report === undefined) return "the API server does not answer";
  const [first] = report.problems;
  if (first === undefined) return "not all could be looked at";
  const more = report.problems.length - 1;
  const others = more === 0 ? "" : ` (and ${more} more)`;
  return `${first.object}: ${first.message}${others}`;
}
