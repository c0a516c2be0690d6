import * as path from "node:path";
import { GUEST_DIR } from "./files.ts";
import type { VmKernel } from "./kernel.ts";
import type { VmNetwork } from "../network.ts";

/** What a virtual machine is to do. */
export interface VmJob {
  /** Program and arguments; the program is the host's, at the host's path. */
  readonly command: readonly string[];
  /** The host's working directory by default. */
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Directories of the host that it may write to, at the paths that they have on the host; all else is thrown away. */
  readonly shares?: readonly string[];
  /** Its link to other machines, called `uplink`; it has none by default. */
  readonly network?: VmNetwork;
  /** More for the kernel's command line, such as `ipv6.disable=1`. */
  readonly kernelArgs?: readonly string[];
  readonly timeoutMs: number;
  /** Sends its stderr where its stdout goes, in order. */
  readonly merged?: boolean;
}

/** Of the host's environment, this is the command's as well. */
const INHERITED = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "NO_COLOR"];

/** Writes what the guest reads. */
export async function writeJob(
  dir: string,
  { job, kernel }: { readonly job: VmJob; readonly kernel: VmKernel },
): Promise<void> {
  const shares = job.shares ?? [];
  const params = {
    SHARES: shares.length,
    ...Object.fromEntries(shares.map((share, i) => [`SHARE${i}`, share])),
    MERGED: job.merged === true ? 1 : 0,
    MODULES: kernel.modules,
    MODPROBE: kernel.modprobe,
    CIDRS: (job.network?.cidrs ?? []).join(" "),
    GATEWAYS: (job.network?.gateways ?? []).join(" "),
    STAGE2: path.join(GUEST_DIR, "stage2"),
  };
  const lines = Object.entries(params).map(([k, v]) => `${k}=${quote(`${v}`)}`);
  await write(dir, "params", lines);
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
