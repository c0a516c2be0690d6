/**
 * What the tests against a real kernel share: throw-away network namespaces,
 * `ip` as the oracle, and one rule for machines where none of that is allowed.
 *
 * @module
 */
import { openLibc } from "../../lib/linux/mod.ts";

/** The environment variable that turns a skipped privileged test into a failure. */
const STRICT_VARIABLE = "COIL_TEST_STRICT";

/** A network namespace of one test, gone when disposed. */
export interface TempNetns extends AsyncDisposable {
  /** As `ip netns` shows it. */
  readonly name: string;
  /** The file that names it, as a container runtime would hand it over. */
  readonly path: string;
  /** Runs `ip ARGS` inside and returns what it prints. */
  ip(...args: string[]): Promise<string>;
  /** Runs `ip -d -j ARGS` inside and returns the parsed answer; `[]` when `ip` prints nothing. */
  ipJson(...args: string[]): Promise<Record<string, unknown>[]>;
  /** Runs a program inside and returns its standard output. Throws with both outputs when it fails. */
  exec(program: string, ...args: string[]): Promise<string>;
  /** As `exec`, but returns the exit code with both outputs instead of throwing. */
  tryExec(program: string, ...args: string[]): Promise<Output>;
}

/** What a program left behind. */
export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Makes a fresh network namespace with its loopback up. */
export async function tempNetns(prefix: string = "t"): Promise<TempNetns> {
  const name = `ct-${prefix}-${crypto.randomUUID().slice(0, 8)}`;
  await run("ip", ["netns", "add", name]);
  const path = `/run/netns/${name}`;
  const enter = (program: string, args: string[]): [string, string[]] => [
    "nsenter",
    [`--net=${path}`, program, ...args],
  ];
  const exec = (program: string, ...args: string[]): Promise<string> =>
    run(...enter(program, args));
  // Without nsenter: that is a process start less, which a virtual machine notices.
  const ip = (...args: string[]) => run("ip", ["-n", name, ...args]);
  try {
    await ip("link", "set", "lo", "up");
  } catch (error) {
    await run("ip", ["netns", "delete", name]);
    throw error;
  }
  return {
    name,
    path,
    exec,
    tryExec: (program, ...args) => tryRun(...enter(program, args)),
    ip,
    ipJson: async (...args) => parseRows(await ip("-d", "-j", ...args)),
    async [Symbol.asyncDispose](): Promise<void> {
      await tryRun("ip", ["netns", "delete", name]);
    },
  };
}

/** Has the kernel keep datagrams' flows for an hour: a slow machine takes longer than the usual 30 s. */
export async function keepFlows({ exec }: TempNetns): Promise<void> {
  const settings = ["udp", "icmp", "icmpv6"]
    .map((name) => `net.netfilter.nf_conntrack_${name}_timeout=3600`);
  await exec("sysctl", "-qw", ...settings);
}

/** A random interface name that fits in IFNAMSIZ. */
export function randomName(prefix: string = "ct"): string {
  return `${prefix}${crypto.randomUUID().slice(0, 8)}`;
}

/**
 * Registers a test that needs root, `ip` and `nsenter`. Without them it is
 * skipped with the reason printed, or fails when COIL_TEST_STRICT is 1.
 */
export function netnsTest(name: string, fn: () => Promise<void>): void {
  const missing = missingPrivilege();
  // It stays, so no test may be the first that needs it.
  if (missing === undefined) openLibc();
  if (missing === undefined || Deno.env.get(STRICT_VARIABLE) === "1") {
    Deno.test({
      name,
      // Netfilter sockets are closed on other threads, which takes the kernel its time; nothing waits for that.
      sanitizeOps: false,
      fn: async () => {
        if (missing !== undefined) {
          throw new Error(`Cannot run "${name}": ${missing}`);
        }
        await fn();
      },
    });
    return;
  }
  // deno-lint-ignore no-console -- the reason has to be seen
  console.warn(`skipped: ${name}: ${missing}`);
  Deno.test.ignore(name, fn);
}

let checked: { readonly missing: string | undefined } | undefined;

/** Why privileged tests cannot run here, or undefined when they can. */
export function missingPrivilege(): string | undefined {
  checked ??= { missing: findMissingPrivilege() };
  return checked.missing;
}

function findMissingPrivilege(): string | undefined {
  if (Deno.build.os !== "linux") return "this is not Linux";
  if (Deno.uid() !== 0) return "not root (try unshare -rmn)";
  for (const program of ["ip", "nsenter"]) {
    try {
      new Deno.Command(program, {
        args: ["-V"],
        stdout: "null",
        stderr: "null",
      }).outputSync();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) {
        return `the program "${program}" is not installed`;
      }
      throw error;
    }
  }
  const probe = `ct-probe-${crypto.randomUUID().slice(0, 8)}`;
  const added = new Deno.Command("ip", { args: ["netns", "add", probe] })
    .outputSync();
  new Deno.Command("ip", { args: ["netns", "delete", probe] }).outputSync();
  if (!added.success) {
    return `ip netns add failed: ${
      new TextDecoder().decode(added.stderr).trim()
    }`;
  }
  return undefined;
}

/** Runs a program in the test's own namespaces; throws when it fails. */
export async function run(program: string, args: string[]): Promise<string> {
  const { code, stdout, stderr } = await tryRun(program, args);
  if (code !== 0) {
    throw new Error(
      `Cannot run "${program} ${
        args.join(" ")
      }": exit code ${code}: ${stderr}${stdout}`,
    );
  }
  return stdout;
}

async function tryRun(program: string, args: string[]): Promise<Output> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

/** `ip -j` prints an empty object for each address left out by a filter; those go. */
function parseRows(text: string): Record<string, unknown>[] {
  if (text.trim() === "") return [];
  const rows: unknown = JSON.parse(text);
  if (!Array.isArray(rows)) {
    throw new TypeError(`Cannot read "${text}": not an array`);
  }
  return rows.filter((row) => Object.keys(row).length > 0);
}
