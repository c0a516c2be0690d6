import { getPriority } from "node:os";
import * as path from "node:path";
import { sleep } from "./wait.ts";

const KILL_WAIT_MS = 5_000;

/** What is to be run and where. */
export interface ProcessSpec {
  /** Unique in the lab; names the pid and log files. */
  readonly id: string;
  readonly runDir: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Record<string, string>;
  readonly clearEnv?: boolean;
  /** Name of the network namespace; the caller's without it. */
  readonly netns?: string;
  /** Bind mounts that only this process sees. The targets must exist. */
  readonly mounts?: readonly { source: string; target: string }[];
  /** Gets stdout and stderr; `<runDir>/logs/<id>.log` without it. */
  readonly logFile?: string;
}

interface PidRecord {
  pid: number;
  startTime: string;
  command: string;
}

/** A process of the lab, recorded on disk so that a later run can end it. */
export class LabProcess implements AsyncDisposable {
  readonly pid: number;
  /** Path of the file with its stdout and stderr. */
  readonly logFile: string;
  /** Settles when the process has ended. */
  readonly exited: Promise<Deno.CommandStatus>;
  #ended = false;

  /** @ignore Made by {@link spawnProcess}. */
  constructor(child: Deno.ChildProcess, logFile: string, pidFile: string) {
    this.pid = child.pid;
    this.logFile = logFile;
    this.exited = child.status.then(async (status) => {
      this.#ended = true;
      await Deno.remove(pidFile).catch(() => {});
      return status;
    });
  }

  /** Whether the process still runs. */
  get isRunning(): boolean {
    return !this.#ended;
  }

  /** Sends a signal; nothing happens when the process has ended. */
  signal(signal: Deno.Signal): void {
    if (!this.#ended) sendSignal(this.pid, signal);
  }

  /** Ends the process with SIGTERM, and with SIGKILL after the grace time. */
  async stop(
    options: { graceMs?: number } = {},
  ): Promise<Deno.CommandStatus> {
    this.signal("SIGTERM");
    const timer = setTimeout(
      () => this.kill9(),
      options.graceMs ?? KILL_WAIT_MS,
    );
    try {
      return await this.exited;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the process with SIGKILL. */
  kill9(): Promise<Deno.CommandStatus> {
    this.signal("SIGKILL");
    return this.exited;
  }

  /** What the process has written so far. */
  async logs(): Promise<string> {
    return await Deno.readTextFile(this.logFile).catch(() => "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Starts a process in a network namespace, with mounts of its own when asked for. */
export async function spawnProcess(spec: ProcessSpec): Promise<LabProcess> {
  const logFile = spec.logFile ??
    path.join(spec.runDir, "logs", `${spec.id}.log`);
  const pidFile = path.join(spec.runDir, "pids", `${spec.id}.json`);
  await Deno.mkdir(path.dirname(logFile), { recursive: true });
  await Deno.mkdir(path.dirname(pidFile), { recursive: true });
  // Every step replaces itself by the next, so that the pid is the command's.
  const shell = (script: string, args: string[]) => [
    ...["sh", "-ec", script, "sh", ...args],
  ];
  const steps = shell('exec >>"$0" 2>&1 </dev/null "$@"', []);
  steps[3] = logFile;
  // Sessions share the processors as groups: without this a nice program would be nice to those of its own session alone.
  const niceness = getPriority();
  if (niceness > 0 && await hasAutogroups()) {
    const script = 'echo "$1" >/proc/self/autogroup; shift; exec "$@"';
    steps.push(...shell(script, [String(niceness)]));
  }
  if (spec.netns !== undefined) {
    steps.push("nsenter", `--net=/run/netns/${spec.netns}`);
  }
  if (spec.mounts !== undefined && spec.mounts.length > 0) {
    steps.push("unshare", "--mount", "--propagation", "slave");
    for (const { source, target } of spec.mounts) {
      const script = 'mount --bind "$1" "$2"; shift 2; exec "$@"';
      steps.push(...shell(script, [source, target]));
    }
  }
  steps.push(spec.command, ...spec.args);
  const child = new Deno.Command("setsid", {
    args: steps,
    env: spec.env ?? {},
    clearEnv: spec.clearEnv ?? false,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  writeRecord(pidFile, child.pid, path.basename(spec.command));
  return new LabProcess(child, logFile, pidFile);
}

/** Whether the kernel gives a session a nice value of its own: sched(7), "The autogroup feature". */
async function hasAutogroups(): Promise<boolean> {
  return await Deno.stat("/proc/self/autogroup").then(() => true, () => false);
}

/** Records a process that another one started, so that the end of the lab ends it too. */
export function recordProcess(
  pid: number,
  spec: { runDir: string; id: string; command: string },
): void {
  const pidFile = path.join(spec.runDir, "pids", `${spec.id}.json`);
  writeRecord(pidFile, pid, spec.command);
}

/** Process IDs of a process' children. */
export async function childrenOf(pid: number): Promise<readonly number[]> {
  const file = `/proc/${pid}/task/${pid}/children`;
  const text = await Deno.readTextFile(file).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return ""; // it has ended
    throw error;
  });
  return text.split(" ").filter((word) => word !== "").map(Number);
}

/** Sends a signal; nothing happens when the process has ended. */
export function sendSignal(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
}

/** At once: a program that is ended now must not leave a process without a record. */
function writeRecord(file: string, pid: number, command: string): void {
  const startTime = startTimeOf(pid) ?? "";
  const record: PidRecord = { pid, startTime, command };
  Deno.writeTextFileSync(file, JSON.stringify(record));
}

/** Ends with SIGKILL the processes recorded in a run directory, those only whose pid is still theirs. */
export async function killRecorded(runDir: string): Promise<void> {
  const dir = path.join(runDir, "pids");
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(dir)) names.push(entry.name);
  } catch (err) {
    if (err instanceof Deno.errors.NotFound) return;
    throw err;
  }
  const killed: PidRecord[] = [];
  for (const name of names) {
    const record = parseRecord(
      await Deno.readTextFile(path.join(dir, name)).catch(() => ""),
    );
    if (record === undefined || !isStill(record)) continue;
    try {
      Deno.kill(record.pid, "SIGKILL");
    } catch (err) {
      if (err instanceof Deno.errors.NotFound) continue; // ended since
      throw err;
    }
    killed.push(record);
  }
  const deadline = performance.now() + KILL_WAIT_MS;
  while (killed.some(isStill) && performance.now() < deadline) await sleep(20);
  await Deno.remove(dir, { recursive: true });
}

function parseRecord(text: string): PidRecord | undefined {
  try {
    return JSON.parse(text) as PidRecord;
  } catch (err) {
    if (err instanceof SyntaxError) return undefined;
    throw err;
  }
}

function isStill(record: PidRecord): boolean {
  return record.startTime !== "" &&
    startTimeOf(record.pid) === record.startTime &&
    readProc(record.pid, "cmdline")?.includes(record.command) === true;
}

/** Field 22 of /proc/PID/stat (proc_pid_stat(5)): no two processes with one pid have the same. */
function startTimeOf(pid: number): string | undefined {
  const stat = readProc(pid, "stat");
  if (stat === undefined) return undefined;
  // The second field is in parentheses and may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? undefined : fields[19];
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/${file}`);
  } catch {
    return undefined; // ENOENT or ESRCH: it has ended
  }
}
