/**
 * Runs a command as root in a throw-away virtual machine: a stock Debian kernel, which has the modules that a machine's
 * own kernel may lack, on the host's own root file system. Needs neither KVM nor anything installed.
 *
 * The command sees the host's files at their paths; what it writes is gone with the machine but for the shares. Its
 * network is its own; it reaches what the host reaches, by connections that QEMU makes for it.
 *
 * @module
 */
import * as path from "node:path";
import type { Log } from "../build.ts";
import { lockFile } from "../cache.ts";
import { within } from "./deadline.ts";
import { VmError, VmStartError, VmTimeoutError } from "./errors.ts";
import { vmDir } from "./files.ts";
import { buildInitramfs } from "./initramfs.ts";
import { type VmJob, writeJob } from "./job.ts";
import { Machine, SHARE_SLOTS, type VmImage } from "./machine.ts";
import { machineDir } from "./machine_dir.ts";
import { fetchPackages } from "./packages.ts";
import { ensureSnapshot, type Snapshot } from "./snapshot.ts";

export { VmError, VmTimeoutError } from "./errors.ts";
export type { VmJob } from "./job.ts";

/** What {@linkcode ensureVm} prepared. */
export interface Vm {
  readonly image: VmImage;
  readonly snapshot: Snapshot;
}

/** How {@linkcode runInVm} reports. */
export interface RunInVmOptions {
  readonly log?: Log;
  /** Gets the command's output; this process' own stdout and stderr without them. */
  readonly stdout?: (bytes: Uint8Array) => void;
  readonly stderr?: (bytes: Uint8Array) => void;
}

/** Resuming takes half a second, the mounts another; a busy machine is much slower. */
const START_MS = 120_000;

/**
 * Fetches kernel and QEMU, some 120 MB, and boots once, when that has not been done yet.
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
  // QEMU separates its options by commas, and both go through a shell.
  if (!/^\/[^,'"\s]+$/.test(vmDir())) {
    throw new VmError(
      `Cannot keep virtual machines in "${vmDir()}": set COIL_CACHE to a path without commas, quotes and blanks`,
    );
  }
  await Deno.mkdir(vmDir(), { recursive: true });
  using _lock = await lockFile(path.join(vmDir(), "lock"), {
    onWait: () => log("waiting for another run that prepares the machine"),
  });
  const packages = await fetchPackages(log);
  const image = { packages, initramfs: await buildInitramfs(packages) };
  return { image, snapshot: await ensureSnapshot(image, log) };
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
  checkJob(job);
  const deadline = performance.now() + job.timeoutMs;
  const task = { vm, job, deadline, options };
  try {
    return await attempt(task);
  } catch (error) {
    if (!(error instanceof VmStartError)) throw error;
    options.log?.(`${error.message}\ntrying again`);
    return await attempt(task);
  }
}

function checkJob(job: VmJob): void {
  const shares = job.shares ?? [];
  if (shares.length > SHARE_SLOTS) {
    throw new RangeError(
      `Cannot share ${shares.length} directories: at most ${SHARE_SLOTS}`,
    );
  }
  const bad = shares.find((share) => !/^\/[^,'"]+$/.test(share));
  if (bad === undefined) return;
  throw new TypeError(
    `Cannot share "${bad}": it has to be an absolute path without commas and quotes`,
  );
}

interface Task {
  readonly vm: Vm;
  readonly job: VmJob;
  /** By performance.now(). */
  readonly deadline: number;
  readonly options: RunInVmOptions;
}

async function attempt(task: Task): Promise<number> {
  const { vm: { image, snapshot }, job, options } = task;
  await using work = await machineDir();
  await writeJob(path.join(work.path, "job"), {
    job,
    packages: image.packages,
  });
  await using machine = await Machine.start({
    image,
    dir: work.path,
    memory: { file: snapshot.memory, shared: false },
    shares: job.shares ?? [],
    incoming: true,
  });
  const outputs = Promise.all([
    pass(machine.stdout, options.stdout ?? toStdout),
    pass(machine.stderr, options.stderr ?? toStderr),
  ]);
  // They are waited for below, unless something else fails first.
  outputs.catch(() => {});
  const { monitor } = machine;
  await monitor.execute("migrate-set-capabilities", {
    capabilities: [{ capability: "x-ignore-shared", state: true }],
  });
  await monitor.execute("migrate-incoming", {
    uri: `exec:cat '${snapshot.state}'`,
  });
  await machine.say("GO");
  const status = await follow(machine, task);
  await machine.end();
  await outputs; // they end with the machine, having passed on everything
  await reportComplaints(machine, options);
  return status;
}

/** Follows the guest's words up to the command's exit status. */
async function follow(machine: Machine, task: Task): Promise<number> {
  const { job, deadline } = task;
  const startDeadline = performance.now() + START_MS;
  let started = false;
  while (true) {
    const until = started ? deadline : Math.min(startDeadline, deadline);
    const word = await within(
      until - performance.now(),
      machine.nextWord().then((text) => text ?? "GONE"),
    );
    if (word === "STARTED") started = true;
    else if (word?.startsWith("EXIT ")) return Number(word.slice(5));
    else if (word === undefined && performance.now() >= deadline) {
      throw new VmTimeoutError(job.timeoutMs);
    } else if (word !== "READY") {
      throw await failure(machine, { word, started });
    }
  }
}

async function failure(
  machine: Machine,
  seen: { readonly word: string | undefined; readonly started: boolean },
): Promise<Error> {
  const { word = `nothing within ${START_MS / 1000} s`, started } = seen;
  const qemu = await machine.end();
  const what = started
    ? "Cannot finish the command: the virtual machine stopped"
    : `Cannot start the command in the virtual machine: it said ${word}`;
  const text = [what, qemu, await machine.lastWords(80)].filter((s) => s !== "")
    .join("\n");
  return started || word.startsWith("FAIL ")
    ? new VmError(text)
    : new VmStartError(text);
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
  try {
    for await (const bytes of from) to(bytes);
  } catch (error) {
    // The end of a machine that is killed.
    if (error instanceof Deno.errors.ConnectionReset) return;
    if (error instanceof Deno.errors.BadResource) return;
    throw error;
  }
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
