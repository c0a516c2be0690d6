/**
 * `coil migrate`: from Coil v1 to v2.
 *
 * @module
 */
import {
  type Command,
  type CommandContext,
  commandList,
  defineCommand,
  Interruption,
  processTerminal,
  runCommand,
  type Terminal,
} from "../../lib/command/mod.ts";
import { type ClusterValues, EXIT, UsageError } from "../../lib/flags/mod.ts";
import type { KubeClient } from "../../lib/kube/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { connectNow, etcdClient } from "./command/connect.ts";
import { dump } from "./dump/dump.ts";
import { explain } from "./command/errors.ts";
import { DUMP_FLAGS, REPLACE_FLAGS, STATUS_FLAGS } from "./command/flags.ts";
import { replace } from "./replace/replace.ts";
import { status } from "./status/status.ts";

export type { MigrationStatus } from "./status/migration_status.ts";

const COMMANDS: readonly Command[] = [
  defineCommand({
    path: "dump",
    about: "Write v1's state to a manifest, then remove v1's workloads",
    flags: DUMP_FLAGS,
    details:
      "Reads Coil v1's state from its etcd, writes a manifest for Coil v2, and then removes v1's workloads from the cluster. Pods keep their network. If interrupted, run it again.",
    run: async (call) => {
      const etcd = await etcdClient(call.values);
      return await withCluster(call, (work) => dump({ ...work, etcd }));
    },
  }),
  defineCommand({
    path: "replace",
    about: "Replace v1's pods one by one, then release the reserved blocks",
    flags: REPLACE_FLAGS,
    details:
      "Evicts pods with addresses of Coil v1 one by one, and waits for each replacement; then removes the reserved blocks and restarts coild. Stops at the first pod that does not come back. If interrupted, run it again.",
    run: (call) => withCluster(call, replace),
  }),
  defineCommand({
    path: "status",
    about: "Show the progress of a migration and the next step",
    flags: STATUS_FLAGS,
    details: "Shows the progress of a migration from Coil v1. Changes nothing.",
    run: (call) => withCluster(call, status),
  }),
];

interface Work<V> {
  readonly values: V;
  readonly terminal: Terminal;
  readonly client: KubeClient;
  readonly signal: AbortSignal;
}

async function withCluster<V extends ClusterValues>(
  { values, terminal, signal = new AbortController().signal }:
    & Pick<Work<V>, "values" | "terminal">
    & Pick<CommandContext, "signal">,
  work: (work: Work<V>) => Promise<number>,
): Promise<number> {
  using client = await connectNow(values, { signal });
  return await work({ values, terminal, client, signal });
}

/** Runs one command and ends the process. */
export async function main(
  args: readonly string[],
  { program }: { readonly program: string },
): Promise<void> {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(name, () => {
      // The second time, at once.
      if (stop.signal.aborted) Deno.exit(EXIT.failed);
      stop.abort(
        new Interruption(
          "Interrupted. Finished steps are kept: run the same command again.",
        ),
      );
    });
  }
  // When the reader is gone, the work goes on: it matters more than the output.
  const terminal = processTerminal(() => {});
  const name = program === "migrate" ? "coil migrate" : program;
  const { signal } = stop;
  Deno.exit(await run(args, { program: name, terminal, signal }));
}

/** Runs one command and returns its exit code. */
export async function run(
  args: readonly string[],
  context: Omit<CommandContext, "args">,
): Promise<number> {
  const { program, terminal } = context;
  const [first = "--help"] = args;
  if (["--help", "-h", "help"].includes(first)) {
    terminal.out(usage(program));
    return EXIT.ok;
  }
  if (first === "--version") {
    terminal.out(`${program} version ${VERSION}\n`);
    return EXIT.ok;
  }
  return await runCommand(args, context, {
    find: ([word, ...rest]) => {
      const command = COMMANDS.find(({ path }) => path === word);
      if (command !== undefined) return { command, rest };
      const paths = COMMANDS.map(({ path }) => path).join(", ");
      throw new UsageError(`unknown command "${word}": not ${paths}`);
    },
    helpOf: () => "--help",
    explain,
  });
}

function usage(program: string): string {
  return `Moves a cluster from Coil v1 to v2.

${commandList(program, COMMANDS)}

"${program} COMMAND --help" shows the help of a command. The whole procedure is
in docs/migrate.md.

Exit codes: 0 success, 1 failure, 2 usage error, 3 done as far as possible; what is
left needs a decision.
`;
}
