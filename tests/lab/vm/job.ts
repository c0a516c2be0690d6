import * as path from "node:path";
import type { VmPackages } from "./packages.ts";

/** What a virtual machine is to do. */
export interface VmJob {
  /** Program and arguments; the program is the host's, at the host's path. */
  readonly command: readonly string[];
  /** The host's working directory by default. */
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Directories of the host that it may write to, at the paths that they have on the host; all else is thrown away. */
  readonly shares?: readonly string[];
  readonly timeoutMs: number;
  /** Sends its stderr where its stdout goes, in order. */
  readonly merged?: boolean;
}

/** Of the host's environment, this is the command's as well. */
const INHERITED = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "NO_COLOR"];

/** Writes what the guest reads when it is told to go. */
export async function writeJob(
  dir: string,
  what: { readonly job: VmJob; readonly packages: VmPackages },
): Promise<void> {
  const { job, packages } = what;
  const shares = job.shares ?? [];
  const params = {
    // Rounded up by the time that passes until it is read.
    EPOCH: Math.ceil(Date.now() / 1000),
    SHARES: shares.length,
    ...Object.fromEntries(shares.map((share, i) => [`SHARE${i}`, share])),
    MERGED: job.merged === true ? 1 : 0,
    MODULES: `${packages.modules}/lib/modules/${packages.kernelVersion}`,
    MODPROBE: packages.modprobe,
  };
  const lines = Object.entries(params).map(([k, v]) => `${k}=${quote(`${v}`)}`);
  await write(dir, "params", lines);
  const seed = crypto.getRandomValues(new Uint8Array(512));
  await Deno.writeFile(path.join(dir, "seed"), seed);
  await write(dir, "job.sh", script(job));
}

async function write(
  dir: string,
  name: string,
  lines: readonly string[],
): Promise<void> {
  await Deno.writeTextFile(path.join(dir, name), `${lines.join("\n")}\n`);
}

function script(job: VmJob): string[] {
  const env: Record<string, string> = { USER: "root", COIL_VM: "1" };
  for (const name of INHERITED) {
    const value = Deno.env.get(name);
    if (value !== undefined) env[name] = value;
  }
  Object.assign(env, job.env);
  return [
    ...Object.entries(env).map(([k, v]) => `export ${k}=${quote(v)}`),
    `cd ${quote(job.cwd ?? Deno.cwd())} || exit 125`,
    `exec ${job.command.map(quote).join(" ")}`,
  ];
}

/** A word for a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
