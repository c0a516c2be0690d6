import { onAbort, startTimer } from "../../lib/async/mod.ts";
import type { RunDeno } from "./deno_tests.ts";
import { say } from "./output.ts";

/**
 * How deno is started. Of two programs that want the same processor the nice one gets a quarter: sched(7). With less
 * it would miss deadlines on a machine that is busy with something else.
 */
export const DENO: readonly string[] = [Deno.execPath()];
export const NICE_DENO: readonly string[] = [
  ...["nice", "--adjustment=5"],
  ...DENO,
];

/** A test process that has not ended by then is killed: one that spins runs no signal listener. */
const GRACE_MS = 60_000;

const running = new Set<Deno.ChildProcess>();
let interrupted = false;

/**
 * Runs deno on this machine, with both outputs going through the function, in the colours that the terminal would get.
 * `cleanUp` follows a run that was ended.
 */
export function onMachine(
  deno: readonly string[],
  { cleanUp, graceMs = GRACE_MS }: {
    readonly cleanUp: () => Promise<void>;
    readonly graceMs?: number;
  },
): RunDeno {
  return async (args, { output, env, signal }) => {
    const child = spawn([...deno, ...args], env);
    using _listening = onAbort(signal, () => void end(child, graceMs));
    const done = ended(child);
    await Promise.all([child.stdout, child.stderr].map(async (stream) => {
      const shown = new WritableStream<Uint8Array>({ write: output });
      // A daemon that a killed test left may hold the pipe open.
      await stream.pipeTo(shown, { signal }).catch((error) => {
        if (!signal.aborted) throw error;
      });
    }));
    const success = await done;
    if (signal.aborted) await cleanUp();
    return success;
  };
}

function spawn(
  [command = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Deno.ChildProcess {
  const isColoured = Deno.stdout.isTerminal() && !Deno.env.has("NO_COLOR");
  return new Deno.Command(command, {
    args,
    env: { ...env, ...(isColoured ? { FORCE_COLOR: "1" } : {}) },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function ended(child: Deno.ChildProcess): Promise<boolean> {
  running.add(child);
  const { success } = await child.status;
  running.delete(child);
  await unlessInterrupted();
  return success;
}

/** While labs are removed nothing else goes on. */
export async function unlessInterrupted(): Promise<void> {
  if (interrupted) await Promise.withResolvers<never>().promise;
}

/** Ends all tests, and lets nothing follow them. Returns false when that has begun before. */
export async function interrupt(): Promise<boolean> {
  if (interrupted) return false;
  interrupted = true;
  say("interrupted: cleaning up");
  await Promise.all([...running].map((child) => end(child)));
  return true;
}

async function end(
  child: Deno.ChildProcess,
  graceMs: number = GRACE_MS,
): Promise<void> {
  kill(child, "SIGTERM");
  using _timer = startTimer(graceMs, () => kill(child, "SIGKILL"));
  await child.status;
}

function kill(child: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    child.kill(signal);
  } catch (error) {
    // It has ended; from a terminal it has the signal already.
    if (!(error instanceof TypeError)) throw error;
  }
}
