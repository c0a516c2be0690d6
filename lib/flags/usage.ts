import { formatDuration } from "./duration.ts";
import { defaultOf, type Flag, type FlagSpec } from "./spec.ts";

/** Returns the usage text: what the program is, and its visible flags with their defaults. */
export function usage(
  spec: FlagSpec,
  info: {
    readonly program: string;
    readonly about: string;
    readonly positionals?: string;
  },
): string {
  const rows = visibleFlags(spec).map(([name, flag]) =>
    [formOf(name, flag), describe(flag)] as const
  );
  rows.push(["-h, --help", "Show this help"]);
  rows.push(["    --version", "Show the version"]);
  const width = Math.max(...rows.map(([form]) => form.length));
  const lines = rows.map(([form, help]) => `  ${form.padEnd(width)}   ${help}`);
  const tail = info.positionals === undefined ? "" : ` ${info.positionals}`;
  return [
    info.about,
    "",
    "Usage:",
    `  ${info.program} [flags]${tail}`,
    "",
    "Flags:",
    ...lines,
    "",
  ].join("\n");
}

/** Returns the flags that people are shown, in the order of their declaration. */
export function visibleFlags(spec: FlagSpec): [string, Flag][] {
  return Object.entries(spec).filter(([, flag]) => !flag.hidden);
}

function formOf(name: string, flag: Flag): string {
  const short = flag.short === undefined ? "    " : `-${flag.short}, `;
  const value = flag.type === "bool" ? "" : ` ${flag.type}`;
  return `${short}--${name}${value}`;
}

/** What the flag is for. */
export function helpOf(flag: Flag): string {
  const help = flag.type === "enum"
    ? `${flag.help}: ${flag.values.join(", ")}`
    : flag.help;
  return flag.deprecated === undefined
    ? help
    : `${help} (ignored: ${flag.deprecated})`;
}

function describe(flag: Flag): string {
  const value = defaultText(flag);
  return value === "" || value === "false"
    ? helpOf(flag)
    : `${helpOf(flag)} (default ${value})`;
}

/** The value of a flag that is not given. */
export function defaultText(flag: Flag): string {
  switch (flag.type) {
    case "duration":
      return formatDuration(flag.default);
    case "stringList":
      return flag.default.join(",");
    default:
      return String(defaultOf(flag));
  }
}
