import type { Flag, FlagSpec } from "./spec.ts";
import { visibleFlags } from "./usage.ts";

/** The shells that completion scripts are made for. */
export type Shell = "bash" | "zsh" | "fish";

/** One command with its flags, for completion. */
export interface CompletionCommand {
  /** The words after the program's name, e.g. "ipam show"; "" for the program itself. */
  readonly path: string;
  /** What it does, in a few words. */
  readonly help: string;
  /** The flags it takes. */
  readonly flags: FlagSpec;
  /** Arguments that make the program list what its own argument may be, first in each line. */
  readonly argumentListedBy?: string | undefined;
}

/** Returns a completion script for the program. Its commands and flags are data; only for a flag with `listedBy` is the program run. */
export function completion(
  shell: Shell,
  program: string,
  commands: readonly CompletionCommand[],
): string {
  switch (shell) {
    case "bash":
      return bash(program, commands);
    case "zsh":
      return `#compdef ${program}\nautoload -U +X bashcompinit && bashcompinit\n${
        bash(program, commands)
      }`;
    case "fish":
      return fish(program, commands);
  }
}

/** Possible next words of a command line. */
export interface Candidates {
  readonly words: readonly string[];
  /** Arguments that make the program list further words, first in each line. */
  readonly listedBy?: string | undefined;
}

/** Finds what may take the place of the last word of a command line, as the scripts of {@linkcode completion} do. */
export function candidates(
  words: readonly string[],
  commands: readonly CompletionCommand[],
): Candidates {
  const before = words.slice(0, -1);
  const known = new Map(commands.map((command) => [command.path, command]));
  let path = "";
  for (const word of before) {
    const longer = path === "" ? word : `${path} ${word}`;
    if (known.has(longer)) path = longer;
  }
  const flags = flagsAt(path, commands);
  const [, name = ""] = /^--([^=]+)$/.exec(before.at(-1) ?? "") ?? [];
  const flag = Object.hasOwn(flags, name) ? flags[name] : undefined;
  const all = flag === undefined || flag.type === "bool"
    ? {
      words: [...nextWords(path, commands), ...flagWords(flags)],
      listedBy: known.get(path)?.argumentListedBy,
    }
    : valuesOf(flag);
  const start = words.at(-1) ?? "";
  return {
    ...all,
    words: all.words.filter((word) => word.startsWith(start)),
  };
}

/** What the value of a flag may be. */
function valuesOf(flag: Flag): Candidates {
  if (flag.type === "enum") return { words: flag.values };
  const listedBy = flag.type === "string" ? flag.listedBy : undefined;
  return { words: [], listedBy };
}

function bash(program: string, commands: readonly CompletionCommand[]): string {
  const name = program.replace(/[^A-Za-z0-9_]/g, "_");
  const all = commands.map((command) => ({
    ...command,
    flags: flagsAt(command.path, commands),
  }));
  const cases = all.map(({ path, flags, argumentListedBy }) => {
    const words = [...nextWords(path, commands), ...flagWords(flags)];
    if (argumentListedBy !== undefined) {
      words.unshift(listOf(argumentListedBy, program));
    }
    return `    "${path}") words="${words.join(" ")}" ;;`;
  });
  const values = all.flatMap(({ path, flags }) =>
    visibleFlags(flags).flatMap(([flagName, flag]) => {
      const list = wordsOf(flag, program);
      return list === undefined
        ? []
        : [`    "${path} --${flagName}") words="${list}" ;;`];
    })
  );
  const paths = commands.map(({ path }) => `"${path}"`).join("|");
  // No mapfile: zsh runs this too, and has none. No word has blanks or globs.
  return `_${name}() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" path="" words="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${path:+$path }$word" in
      ${paths}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  case "$path $prev" in
${values.join("\n")}
    *) ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _${name} ${program}
`;
}

function fish(program: string, commands: readonly CompletionCommand[]): string {
  const lines = [`complete -c ${program} -f`];
  for (const { path, help, flags, argumentListedBy } of commands) {
    const words = path === "" ? [] : path.split(" ");
    const last = words.at(-1);
    const before = words.slice(0, -1);
    const seen = (all: readonly string[]) =>
      all.length === 0
        ? "__fish_use_subcommand"
        : all.map((w) => `__fish_seen_subcommand_from ${w}`).join("; and ");
    if (last !== undefined) {
      lines.push(
        `complete -c ${program} -n '${seen(before)}' -a ${last} -d ${
          quote(help)
        }`,
      );
    }
    if (argumentListedBy !== undefined) {
      const list = fishWords(listOf(argumentListedBy, program));
      lines.push(`complete -c ${program} -n '${seen(words)}' -a '${list}'`);
    }
    for (const [name, flag] of visibleFlags(flags)) {
      lines.push(
        `complete -c ${program} -n '${seen(words)}' -l ${name}${
          fishValue(flag, program)
        } -d ${quote(flag.help)}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

function fishValue(flag: Flag, program: string): string {
  if (flag.type === "bool") return "";
  const list = wordsOf(flag, program);
  return list === undefined ? " -x" : ` -x -a '${fishWords(list)}'`;
}

/** Commands in parentheses, without the dollar of other shells. */
function fishWords(words: string): string {
  return words.replace(/^\$/, "");
}

/** The values of a flag, or the shell's expression for them. */
function wordsOf(flag: Flag, program: string): string | undefined {
  const { words, listedBy } = valuesOf(flag);
  if (listedBy !== undefined) return listOf(listedBy, program);
  return words.length > 0 ? words.join(" ") : undefined;
}

/** A cluster that does not answer is not waited for. */
function listOf(args: string, program: string): string {
  return `$(timeout 5 ${program} ${args} 2>/dev/null | cut -d " " -f 1)`;
}

/** The flags of a command, and of that whose argument its last word is. */
function flagsAt(
  path: string,
  commands: readonly CompletionCommand[],
): FlagSpec {
  const above = commands.filter((command) =>
    path === command.path || path.startsWith(`${command.path} `)
  );
  return Object.assign({}, ...above.map(({ flags }) => flags));
}

function flagWords(flags: FlagSpec): string[] {
  return [...visibleFlags(flags).map(([name]) => `--${name}`), "--help"];
}

function nextWords(
  path: string,
  commands: readonly CompletionCommand[],
): string[] {
  const prefix = path === "" ? "" : `${path} `;
  const next = commands
    .filter((command) => command.path !== "" && command.path.startsWith(prefix))
    .map((command) => command.path.slice(prefix.length).split(" ")[0] ?? "");
  return [...new Set(next)].filter((word) => word !== "");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "\\'")}'`;
}
