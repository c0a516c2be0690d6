/**
 * The commands of `coil` for administrators.
 *
 * @module
 */
import { abortable, withTimeout } from "../../lib/async/mod.ts";
import {
  type Command,
  type CommandContext,
  commandList,
  defineCommand,
  type FoundCommand,
  oneOf,
  processTerminal,
  runCommand,
  type Terminal,
} from "../../lib/command/mod.ts";
import {
  candidates,
  completion,
  type CompletionCommand,
  EXIT,
  printAll,
  UsageError,
} from "../../lib/flags/mod.ts";
import { explain } from "./base/errors.ts";
import { CONNECTIVITY_TEST } from "./connectivity/connectivity.ts";
import { IPAM_DRAIN } from "./drain/drain.ts";
import { EGRESS_SHOW } from "./egress/show.ts";
import { EXPLAIN } from "./explain/explain.ts";
import { IPAM_CHECK } from "./check/check.ts";
import { IPAM_SHOW } from "./ipam/show.ts";
import { IPAM_MAP } from "./map/map.ts";
import { STATUS } from "./status/status.ts";
import { SYSDUMP } from "./sysdump/sysdump.ts";
import { UI } from "./ui/ui.ts";
import { VERSION_COMMAND } from "./version.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

const COMPLETION: Command = defineCommand({
  path: "completion",
  about: "Print a completion script for bash, zsh or fish",
  details: (program) =>
    `Prints a completion script, for example for
  source <(${program} completion bash)`,
  positionals: SHELLS.join("|"),
  flags: {},
  run: async ({ program, terminal, positionals: [word = ""] }) => {
    const shell = oneOf(word, SHELLS);
    if (program.includes(" ")) {
      throw new UsageError(
        'kubectl asks a program for completions of its plugins: make "kubectl_complete-coil" a link to this file, beside "kubectl-coil"',
      );
    }
    terminal.out(completion(shell, program, completions()));
  },
});

const HELP: Command = {
  path: "help",
  about: "Show this text, or the help of a command",
  flags: {},
  run: async (context) => {
    const { terminal, program, args } = context;
    const words = args.filter((arg) => arg !== "--help" && arg !== "-h");
    if (words.length === 0 || isGroup(words)) {
      terminal.out(usage(program));
      return;
    }
    const { command } = findCommand(words);
    await command.run({ ...context, args: ["--help"] });
  },
};

/** The commands, as help lists them. */
export const COMMANDS: readonly Command[] = [
  STATUS,
  EXPLAIN,
  IPAM_SHOW,
  IPAM_MAP,
  IPAM_CHECK,
  IPAM_DRAIN,
  EGRESS_SHOW,
  CONNECTIVITY_TEST,
  UI,
  SYSDUMP,
  COMPLETION,
  VERSION_COMMAND,
  HELP,
];

/** Runs one command and ends the process. */
export async function main(
  args: readonly string[],
  { program }: { readonly program: string },
): Promise<void> {
  // When the reader is gone, as after "| head", there is nothing left to do.
  const terminal = processTerminal(() => Deno.exit(EXIT.ok));
  Deno.exit(await run(args, { program, terminal }));
}

/** How long completion waits for the cluster. */
const LIST_MS = 5_000;

/** ShellCompDirectiveNoFileComp of cobra's completions.go: no names of files. */
const NO_FILES = ":4";

/** Prints what may take the place of the last word, as kubectl asks for, and ends the process. */
export async function complete(args: readonly string[]): Promise<void> {
  const words = await withTimeout(
    LIST_MS,
    (signal) => abortable(candidateWords(args), signal),
  ).catch(() => []);
  printAll(Deno.stdout, `${[...words, NO_FILES].join("\n")}\n`);
  Deno.exit(EXIT.ok);
}

async function candidateWords(args: readonly string[]): Promise<string[]> {
  const { words, listedBy } = candidates(args, completions());
  if (listedBy === undefined) return [...words];
  let text = "";
  const terminal: Terminal = {
    out: (more) => void (text += more),
    err: () => {},
    now: () => new Date(),
  };
  await run(listedBy.split(" "), { program: "coil", terminal });
  const listed = text.split("\n").map((line) => line.split(" ")[0] ?? "")
    .filter((word) => word !== "" && word.startsWith(args.at(-1) ?? ""));
  return [...listed, ...words];
}

/** Runs one command and returns the exit code. */
export async function run(
  args: readonly string[],
  context: Omit<CommandContext, "args">,
): Promise<number> {
  return await runCommand(args, context, {
    find: findCommand,
    helpOf: (command = HELP) =>
      command === HELP ? "help" : `${command.path} --help`,
    explain,
  });
}

/** @throws {UsageError} when there is no such command. */
function findCommand(args: readonly string[]): FoundCommand {
  const [first = "help"] = args;
  if (first === "--help" || first === "-h") return { command: HELP, rest: [] };
  if (first === "--version" || first === "-v") {
    return { command: VERSION_COMMAND, rest: [] };
  }
  for (const command of COMMANDS) {
    const words = command.path.split(" ");
    if (
      words.every((word, i) => word === (args[i] ?? (i === 0 ? first : "")))
    ) {
      return { command, rest: args.slice(words.length) };
    }
  }
  const group = COMMANDS.filter(({ path }) => path.startsWith(`${first} `));
  if (group.length > 0) {
    if (args.slice(1).some((arg) => ["--help", "-h", "help"].includes(arg))) {
      return { command: HELP, rest: [] };
    }
    const words = group.map(({ path }) => path.slice(first.length + 1));
    const second = args[1];
    throw new UsageError(
      second === undefined || second.startsWith("-")
        ? `"${first}" needs one of: ${words.join(", ")}`
        : `unknown command "${first} ${second}": not ${words.join(", ")}`,
    );
  }
  throw new UsageError(`unknown command "${first}"`);
}

/** Whether the words are the start of a command of two. */
function isGroup(words: readonly string[]): boolean {
  const start = `${words.join(" ")} `;
  return COMMANDS.some(({ path }) => path.startsWith(start));
}

/** The words before a command with two are commands to the shell too. */
function completions(): CompletionCommand[] {
  return [
    { path: "", help: "", flags: {} },
    { path: "ipam", help: "Addresses", flags: {} },
    { path: "egress", help: "Egress gateways", flags: {} },
    { path: "connectivity", help: "Tests of the network", flags: {} },
    { path: "migrate", help: "From Coil v1 to v2", flags: {} },
    ...COMMANDS.map((command) => ({ ...command, help: command.about })),
    ...SUBCOMMAND_WORDS.map(([path, help]) => ({ path, help, flags: {} })),
  ];
}

/** Arguments from a fixed set, which complete as if they were commands. */
const SUBCOMMAND_WORDS: readonly (readonly [string, string])[] = [
  ["ipam show pools", "Pools and their free addresses"],
  ["ipam show blocks", "Blocks and their nodes"],
  ["ipam show addresses", "Addresses and their pods"],
  ["egress show clients", "Pods that use Egresses"],
  ["egress show gateways", "Gateway pods"],
  ["egress show sources", "Addresses that clients' packets leave from"],
  ["migrate dump", "Write a manifest of v1's state, then remove v1"],
  ["migrate replace", "Replace v1's pods one by one"],
  ["migrate status", "Show the progress of a migration"],
  ["completion bash", "For bash"],
  ["completion zsh", "For zsh"],
  ["completion fish", "For fish"],
];

function usage(program: string): string {
  return `usage: ${program} COMMAND

${commandList(program, COMMANDS)}

"${program} COMMAND --help" shows the help of a command.

Exit codes: 0 success, 1 failure, 2 usage error, 3 success, but problems found.

"${program} migrate" migrates a cluster from Coil v1 to v2; it has its own help.
${program.includes(" ") ? "" : PLUGIN_AND_DAEMONS}`;
}

const PLUGIN_AND_DAEMONS = `
Without a command, and with CNI_COMMAND in its environment, coil is the
CNI plugin. Daemons and the installer run under their own names: coild,
coil-controller, coil-egress, coil-router, coil-installer. "coil coild --help" is
the same as "coild --help", "coil installer --help" as "coil-installer --help".
`;
