import { onAbort, sleep, startTimer } from "../../../lib/async/mod.ts";
import { CURRENT_CNI_VERSION } from "../../../lib/cni/mod.ts";
import { isBusy } from "../base/errors.ts";
import { isRunnable } from "./runnable.ts";

/** VERSION needs no network and no daemon; a plugin that takes so long does not work. */
const TIMEOUT_MS = 30_000;

/** How long to wait for a file that a process has open for writing. */
const BUSY_MS = 5_000;
const BUSY_STEP_MS = 20;

/**
 * Asks a CNI plugin for the versions of the specification that it has (CNI
 * specification 1.1.0, section 4, "VERSION"). Undefined when the file is not
 * there, cannot be run here, or gives no answer. A damaged file is not run.
 */
export async function askVersions(
  path: string,
  signal: AbortSignal,
): Promise<readonly string[] | undefined> {
  signal.throwIfAborted();
  if (!await isRunnable(path)) return undefined;
  const child = await trySpawn(path, signal);
  if (child === undefined) return undefined;
  const { promise: givenUp, resolve: giveUp } = Promise.withResolvers<void>();
  using _late = startTimer(TIMEOUT_MS, giveUp);
  using _listening = onAbort(signal, giveUp);
  // A grandchild may keep the pipe open when the child is gone: not waited for.
  const answer = await Promise.race([readAnswer(child), givenUp]);
  if (answer === undefined) killQuietly(child);
  signal.throwIfAborted();
  return answer === undefined ? undefined : parseVersions(answer);
}

/**
 * Starts a plugin. Another program that this process starts has, until its
 * execve(2), a copy of each descriptor, also of one that a file is being
 * written through: such a file cannot be executed for a moment (ETXTBSY).
 */
async function trySpawn(
  path: string,
  signal: AbortSignal,
): Promise<Deno.ChildProcess | undefined> {
  const command = new Deno.Command(path, {
    env: { CNI_COMMAND: "VERSION" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  });
  for (let waitedMs = 0;; waitedMs += BUSY_STEP_MS) {
    try {
      return command.spawn();
    } catch (error) {
      if (error instanceof TypeError) throw error;
      // Not executable, without its loader, or removed since it was listed.
      if (!isBusy(error) || waitedMs >= BUSY_MS) return undefined;
    }
    await sleep(BUSY_STEP_MS, { signal });
  }
}

async function readAnswer(child: Deno.ChildProcess): Promise<string> {
  const request = JSON.stringify({ cniVersion: CURRENT_CNI_VERSION });
  const writer = child.stdin.getWriter();
  try {
    await writer.write(new TextEncoder().encode(request));
    await writer.close();
  } catch (error) {
    // A plugin that does not need its input may end without reading it.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
  const { stdout } = await child.output();
  return new TextDecoder().decode(stdout);
}

function parseVersions(text: string): readonly string[] | undefined {
  try {
    const { supportedVersions } = JSON.parse(text);
    const isList = Array.isArray(supportedVersions) &&
      supportedVersions.every((item) => typeof item === "string");
    return isList ? supportedVersions : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) {
      return undefined;
    }
    throw error;
  }
}

function killQuietly(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended already
  }
}
