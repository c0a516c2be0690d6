/**
 * `coil migrate`: from Coil v1 to v2.
 *
 * @module
 */
import {
  EXIT,
  type FlagSpec,
  type FlagValues,
  readCommandLine,
  UsageError,
} from "../../lib/flags/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { connect, etcdClient } from "./command/connect.ts";
import { dump } from "./dump/dump.ts";
import { explain } from "./command/errors.ts";
import { DUMP_FLAGS, REPLACE_FLAGS, STATUS_FLAGS } from "./command/flags.ts";
import { replace } from "./replace/replace.ts";
import { status } from "./status/status.ts";
import { processTerminal, type Terminal } from "./command/terminal.ts";

export type { MigrationStatus } from "./status/migration_status.ts";

interface Call {
  readonly program: string;
  readonly args: readonly string[];
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

interface Command {
  readonly about: string;
  readonly run: (call: Call) => Promise<number>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  dump: {
    about: "Write v1's state to a manifest, then remove v1's workloads",
    run: (call) =>
      withFlags(DUMP_FLAGS, call, {
        about:
          "Reads Coil v1's state from its etcd, writes a manifest for Coil v2, and then removes v1's workloads from the cluster. Pods keep their network. If interrupted, run it again.",
        run: async (values) => {
          const etcd = await etcdClient(values);
          using client = await connect(values, call);
          return await dump({ ...call, values, client, etcd });
        },
      }),
  },
  replace: {
    about: "Replace v1's pods one by one, then release the reserved blocks",
    run: (call) =>
      withFlags(REPLACE_FLAGS, call, {
        about:
          "Evicts pods with addresses of Coil v1 one by one, and waits for each replacement; then removes the reserved blocks and restarts coild. Stops at the first pod that does not come back. If interrupted, run it again.",
        run: async (values) => {
          using client = await connect(values, call);
          return await replace({ ...call, values, client });
        },
      }),
  },
  status: {
    about: "Show the progress of a migration and the next step",
    run: (call) =>
      withFlags(STATUS_FLAGS, call, {
        about:
          "Shows the progress of a migration from Coil v1. Changes nothing.",
        run: async (values) => {
          using client = await connect(values, call);
          return await status({ ...call, values, client });
        },
      }),
  },
};

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
      stop.abort(new Interruption());
    });
  }
  const terminal = processTerminal();
  const name = program === "migrate" ? "coil migrate" : program;
  const { signal } = stop;
  Deno.exit(await run(args, { program: name, terminal, signal }));
}

/** Runs one command and returns its exit code. */
export async function run(
  args: readonly string[],
  options: Omit<Call, "args">,
): Promise<number> {
  const { program, terminal } = options;
  const [word = "--help", ...rest] = args;
  try {
    const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
    if (command !== undefined) {
      return await command.run({
        ...options,
        args: rest,
        program: `${program} ${word}`,
      });
    }
    if (["--help", "-h", "help"].includes(word)) {
      terminal.out(usage(program));
      return EXIT.ok;
    }
    if (word === "--version") {
      terminal.out(`${program} version ${VERSION}\n`);
      return EXIT.ok;
    }
    throw new UsageError(
      `unknown command "${word}": not ${Object.keys(COMMANDS).join(", ")}`,
    );
  } catch (error) {
    if (error instanceof UsageError) {
      terminal.err(`Error: ${error.message}\nSee "${program} --help".\n`);
      return EXIT.usage;
    }
    if (error instanceof Interruption) {
      terminal.err(`\n${error.message}\n`);
      return EXIT.failed;
    }
    const text = explain(error);
    if (text === undefined) throw error;
    terminal.err(`Error: ${text}\n`);
    return EXIT.failed;
  }
}

/** The user pressed Ctrl-C. */
class Interruption extends Error {
  override readonly name = "Interruption";
  constructor() {
    super("Interrupted. Finished steps are kept: run the same command again.");
  }
}

async function withFlags<S extends FlagSpec>(
  flags: S,
  { program, args, terminal }: Call,
  { about, run }: {
    readonly about: string;
    readonly run: (values: FlagValues<S>) => Promise<number>;
  },
): Promise<number> {
  const info = { program, version: VERSION, about };
  const line = readCommandLine(flags, args, info);
  if (line.kind === "run") return await run(line.values);
  terminal.out(line.text);
  return EXIT.ok;
}

function usage(program: string): string {
  const lines = Object.entries(COMMANDS).map(([word, { about }]) =>
    `  ${program} ${word.padEnd(7)}   ${about}`
  );
  return `Moves a cluster from Coil v1 to v2.

${lines.join("\n")}

"${program} COMMAND --help" shows the help of a command. The whole procedure is
in docs/migrate.md.

Exit codes: 0 success, 1 failure, 2 usage error, 3 done as far as possible; what is
left needs a decision.
`;
}
