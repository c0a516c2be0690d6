/**
 * Runs a command as root in a throw-away virtual machine: User Mode Linux, a kernel with all that a machine's own may
 * lack, which is a program and needs no KVM, on the host's own root file system. What it runs is as fast as the host
 * but for system calls.
 *
 * The command sees the host's files at their paths; what it writes is gone with the machine but for the shares. Its
 * network is its own, with a link to a bridge of the host's when it is given one.
 *
 * @module
 */
import * as path from "node:path";
import { onAbort } from "../../../lib/async/mod.ts";
import type { Log } from "../build.ts";
import { lockFile } from "../cache.ts";
import { within } from "./deadline.ts";
import { VmError, VmTimeoutError } from "./errors.ts";
import { vmDir } from "./files.ts";
import { type VmJob, writeJob } from "./job.ts";
import { ensureKernel, type VmKernel } from "./kernel.ts";
import { Machine } from "./machine.ts";
import { machineDir } from "./machine_dir.ts";

export { VmTimeoutError } from "./errors.ts";

/** What {@linkcode ensureVm} prepared. */
export interface Vm {
  readonly kernel: VmKernel;
}

/** How {@linkcode runInVm} reports. */
export interface RunInVmOptions {
  readonly log?: Log;
  /** Gets the command's output; this process' own stdout and stderr without them. */
  readonly stdout?: (bytes: Uint8Array) => void;
  readonly stderr?: (bytes: Uint8Array) => void;
  /** Ends the machine; {@linkcode runInVm} rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Fetches the kernel's source, some 160 MB, and builds it in some minutes, when that has not been done yet.
 *
 * Two processes may call it at once.
 * @throws {Error} when this is no Debian, or packages cannot be had.
 */
export async function ensureVm(options: { log?: Log } = {}): Promise<Vm> {
  const log = options.log ?? (() => {});
  if (Deno.build.arch !== "x86_64") {
    throw new VmError(
      `Cannot prepare the virtual machine on "${Deno.build.arch}": only x86_64 is supported`,
    );
  }
  checkPath(vmDir(), "keep virtual machines in");
  await Deno.mkdir(vmDir(), { recursive: true });
  using _lock = await lockFile(path.join(vmDir(), "lock"), {
    onWait: () => log("waiting for another run that prepares the machine"),
  });
  return { kernel: await ensureKernel(log) };
}

/**
 * Runs a command in a machine of its own and returns its exit status. Background processes end with it.
 *
 * @throws {VmTimeoutError} when the job's time is over.
 * @throws {VmError} when the machine fails; the message has the end of its console.
 */
export async function runInVm(
  vm: Vm,
  job: VmJob,
  options: RunInVmOptions = {},
): Promise<number> {
  for (const share of job.shares ?? []) checkPath(share, "share");
  const { signal } = options;
  signal?.throwIfAborted();
  await using work = await machineDir();
  await writeJob(work.path, { job, kernel: vm.kernel });
  const { network, kernelArgs = [] } = job;
  await using machine = new Machine({
    kernel: vm.kernel,
    dir: work.path,
    kernelArgs,
    ...(network === undefined ? {} : { network }),
  });
  using _listening = onAbort(signal, () => machine.end());
  const ended = Promise.all([
    machine.status(),
    pass(machine.stdout, options.stdout ?? toStdout),
    pass(machine.stderr, options.stderr ?? toStderr),
  ]);
  const result = await within(job.timeoutMs, ended);
  signal?.throwIfAborted();
  if (result === undefined) throw new VmTimeoutError(job.timeoutMs);
  const [status] = result;
  if (status === undefined) {
    throw new VmError(
      `Cannot finish the command: the virtual machine stopped\n${await machine
        .lastWords(80)}`,
    );
  }
  await reportComplaints(machine, options);
  return status;
}

/** The kernel's command line, and a shell, take these paths as they are. */
function checkPath(dir: string, what: string): void {
  if (/^\/[^,'"\s]+$/.test(dir)) return;
  throw new VmError(
    `Cannot ${what} "${dir}": it has to be an absolute path without commas, quotes and blanks`,
  );
}

async function reportComplaints(
  machine: Machine,
  options: RunInVmOptions,
): Promise<void> {
  const words = await machine.lastWords(60);
  if (!/BUG:|WARNING:|Oops|Call Trace/.test(words)) return;
  options.log?.(`the virtual machine's kernel complained:\n${words}`);
}

async function pass(
  from: ReadableStream<Uint8Array>,
  to: (bytes: Uint8Array) => void,
): Promise<void> {
  for await (const bytes of from) to(bytes);
}

function toStdout(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) {
    at += Deno.stdout.writeSync(bytes.subarray(at));
  }
}

function toStderr(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) {
    at += Deno.stderr.writeSync(bytes.subarray(at));
  }
}
