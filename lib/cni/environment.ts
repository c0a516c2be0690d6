import { CniError, ErrorCode } from "./errors.ts";

/** The parameters of one call of a plugin: the `CNI_*` variables. */
export interface CniEnv {
  /** What to do. */
  readonly command: Command;
  /** Empty for GC and STATUS, as are `netns` and `ifname`. */
  readonly containerId: string;
  /** Path of the container's network namespace; may be empty for DEL. */
  readonly netns: string;
  /** Name of the interface inside the container. */
  readonly ifname: string;
  /** `CNI_PATH`, as it came. */
  readonly path: string;
  /** `CNI_ARGS`, as it came. */
  readonly args: string;
  /** Whether the container may share the plugin's own network namespace. */
  readonly netnsOverride: boolean;
}

/** The commands of CNI 1.1.0. */
export type Command = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION";

/**
 * Variables that a command cannot do without. As the reference implementation
 * (`pkg/skel`), which is stricter than the specification about `CNI_PATH`.
 */
const REQUIRED: Readonly<Record<Command, readonly string[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  GC: ["CNI_PATH"],
  STATUS: ["CNI_PATH"],
  VERSION: [],
};

function isCommand(text: string): text is Command {
  return Object.hasOwn(REQUIRED, text);
}

/**
 * Reads and checks the `CNI_*` variables.
 *
 * @throws {CniError} with code 4 when a variable is missing or malformed
 */
export function parseEnv(get: (name: string) => string | undefined): CniEnv {
  const read = (name: string) => get(name) ?? "";
  const command = read("CNI_COMMAND");
  if (!isCommand(command)) {
    throw invalid(
      command === ""
        ? "required env variables [CNI_COMMAND] missing"
        : `unknown CNI_COMMAND: ${command}`,
    );
  }
  const required = REQUIRED[command];
  const missing = required.filter((name) => read(name) === "");
  if (missing.length > 0) {
    throw invalid(`required env variables [${missing.join(",")}] missing`);
  }
  const override = read("CNI_NETNS_OVERRIDE");
  const env = {
    command,
    containerId: read("CNI_CONTAINERID"),
    netns: read("CNI_NETNS"),
    ifname: read("CNI_IFNAME"),
    path: read("CNI_PATH"),
    args: read("CNI_ARGS"),
    netnsOverride: override === "1" || override.toUpperCase() === "TRUE",
  };
  if (required.includes("CNI_CONTAINERID")) checkContainerId(env.containerId);
  if (required.includes("CNI_IFNAME")) checkIfname(env.ifname);
  if (command === "ADD") refusePattern(env.ifname);
  return env;
}

/**
 * The kernel would take "eth%d" for a pattern and make "eth0", say. For ADD
 * alone: a DEL must still pass after it was refused.
 *
 * @throws {CniError} with code 4
 */
export function refusePattern(ifname: string): void {
  if (!ifname.includes("%")) return;
  throw invalid("interface name is a pattern", ifname);
}

function invalid(message: string, details = ""): CniError {
  return new CniError(message, {
    code: ErrorCode.INVALID_ENVIRONMENT_VARIABLES,
    details,
  });
}

/** CNI specification, section 2, "Parameters": how names may look. */
export function isValidName(text: string): boolean {
  return /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text);
}

/**
 * CNI specification, section 2, "Parameters".
 *
 * @throws {CniError} with code 4
 */
export function checkContainerId(id: string): void {
  if (!isValidName(id)) throw invalid("invalid characters in containerID", id);
}

/**
 * The kernel's own rules: `dev_valid_name()` in net/core/dev.c.
 *
 * @throws {CniError} with code 4
 */
export function checkIfname(name: string): void {
  if (new TextEncoder().encode(name).length > 15) {
    throw invalid(
      "interface name is too long",
      "interface name should be less than 16 characters",
    );
  }
  if (name === "." || name === "..") {
    throw invalid("interface name is . or ..");
  }
  if (/[/:\s\0]/.test(name)) {
    throw invalid(
      "interface name contains / or : or whitespace characters",
    );
  }
}

/**
 * Parses `CNI_ARGS`, `;`-separated `KEY=VALUE` pairs, and returns those whose
 * key is in `known`. Others are an error unless `IgnoreUnknown` is `1` or
 * `true`. CNI CONVENTIONS.md, "CNI_ARGS".
 *
 * @throws {CniError} with code 4
 */
export function parseArgs(
  text: string,
  known: readonly string[],
): Record<string, string> {
  const values: Record<string, string> = {};
  const unknown: string[] = [];
  let ignoreUnknown = false;
  for (const pair of text.split(";")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    if (at < 1) throw invalid(`ARGS: invalid pair "${pair}"`);
    const [key, value] = [pair.slice(0, at), pair.slice(at + 1)];
    if (key === "IgnoreUnknown") ignoreUnknown = parseBool(pair, value);
    else if (known.includes(key)) values[key] = value;
    else unknown.push(pair);
  }
  if (unknown.length > 0 && !ignoreUnknown) {
    const list = unknown.map((pair) => `"${pair}"`).join(" ");
    throw invalid(`ARGS: unknown args [${list}]`);
  }
  return values;
}

function parseBool(pair: string, value: string): boolean {
  switch (value.toLowerCase()) {
    case "1":
    case "true":
      return true;
    case "0":
    case "false":
      return false;
    default:
      throw invalid(`ARGS: error parsing value of pair "${pair}"`);
  }
}
