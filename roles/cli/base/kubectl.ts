import { CommandError } from "../../../lib/command/mod.ts";
import { type ClusterValues, EXIT } from "../../../lib/flags/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";

/** A container of a pod of Coil's. */
export interface CoilContainer {
  readonly namespace: string;
  readonly name: string;
  readonly container: string;
}

/** The first container of a pod: the daemon's. */
export function containerOf({ metadata, spec }: V1Pod): CoilContainer {
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    container: spec?.containers[0]?.name ?? "",
  };
}

/** Result of a command in a pod. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command in a pod is run. */
export interface ExecOptions {
  readonly signal?: AbortSignal;
  /** What it reads from stdin; nothing if absent. */
  readonly stdin?: string;
  /** How long it may take, its start on a busy node included; half a minute by default. */
  readonly timeoutMs?: number;
}

/** Runs `coil ARGS` in a pod. */
export type Exec = (
  pod: CoilContainer,
  args: readonly string[],
  options?: ExecOptions,
) => Promise<Ran>;

/** More than any node has to say. */
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** How long one command may take, its second look included. */
const EXEC_MS = 30_000;

/** Runs commands in pods by kubectl, which has every way to log in that its user has. */
export function kubectlExec(
  { kubeconfig, context }: ClusterValues,
  program: string = "kubectl",
): Exec {
  const connection = [
    ...kubeconfig === "" ? [] : [`--kubeconfig=${kubeconfig}`],
    ...context === "" ? [] : [`--context=${context}`],
  ];
  return async (
    { namespace, name, container },
    args,
    { signal, stdin, timeoutMs = EXEC_MS } = {},
  ) => {
    const limit = AbortSignal.timeout(timeoutMs);
    const child = spawn(program, {
      args: [
        ...connection,
        ...["-n", namespace, "exec", name, "-c", container],
        ...(stdin === undefined ? [] : ["-i"]),
        ...["--", "coil"],
        ...args,
      ],
      stdin: stdin === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "piped",
      signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
    });
    const [stdout, stderr, { code }] = await Promise.all([
      boundedText(child.stdout),
      boundedText(child.stderr),
      child.status,
      ...(stdin === undefined ? [] : [writeText(child.stdin, stdin)]),
    ]);
    if (limit.aborted) {
      throw new Error(`no answer within ${timeoutMs / 1_000} s`);
    }
    return { code, stdout, stderr };
  };
}

/**
 * Looks whether kubectl can be started, for commands that make something before they need it.
 *
 * @throws {CommandError} when it cannot, or does not end within 30 s
 */
export async function expectKubectl(
  interrupted: AbortSignal,
  program = "kubectl",
): Promise<void> {
  const limit = AbortSignal.timeout(EXEC_MS);
  const signal = AbortSignal.any([interrupted, limit]);
  const none = { stdin: "null", stdout: "null", stderr: "null" } as const;
  await spawn(program, { args: ["version", "--client"], ...none, signal })
    .status;
  interrupted.throwIfAborted();
  if (!limit.aborted) return;
  throw new CommandError(
    `${program} version --client does not end within ${EXEC_MS / 1_000} s`,
  );
}

function spawn(
  program: string,
  options: Deno.CommandOptions,
): Deno.ChildProcess {
  try {
    return new Deno.Command(program, options).spawn();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new CommandError(`${program} is not on PATH`, { cause });
    }
    if (!(cause instanceof Deno.errors.PermissionDenied)) throw cause;
    throw new CommandError(`Cannot start ${program}: ${cause.message}`, {
      cause,
    });
  }
}

/** A program that has ended reads no more of it: its exit code says why. */
async function writeText(
  stream: WritableStream<Uint8Array<ArrayBuffer>>,
  text: string,
): Promise<void> {
  await new Blob([text]).stream().pipeTo(stream).catch(() => {});
}

/** A program that goes on after that ends as its output has no reader. */
async function boundedText(
  stream: ReadableStream<Uint8Array>,
): Promise<string> {
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > MAX_OUTPUT_BYTES) throw new Error("its answer is too long");
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** Of the line that says why a command failed. */
const MAX_REASON_CHARS = 500;

/** Why a command failed: the last line of what it says; of a command line that an older coil does not take the first. */
export function failureOf({ code, stderr }: Ran): string {
  const lines = stderr.trim().split("\n");
  const line = lines.at(code === EXIT.usage ? 0 : -1) || `exit code ${code}`;
  return line.slice(0, MAX_REASON_CHARS);
}
