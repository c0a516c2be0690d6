// The executable under test, called as a container runtime and a person would.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { parseResult } from "../../lib/cni/mod.ts";
import type { CniRequest } from "../../lib/plugin/mod.ts";
import {
  type CallContext,
  CniCalls,
  type CniMethods,
} from "../../roles/coild/service/cni_calls.ts";
import type { MethodName } from "../../roles/coild/service/method_names.ts";
import { openDoors } from "../../roles/coild/server/doors.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import { isThere } from "../lab/packages.ts";

export const ROLES = [
  "coil",
  "coild",
  "coil-controller",
  "coil-ipam-controller",
  "coil-egress-controller",
  "coil-router",
  "coil-egress",
  "coil-installer",
  "coil-migrator",
  "coordinator",
] as const;
export type RoleName = typeof ROLES[number];

/** A directory with a symbolic link of every role's name, built once. */
let links: Promise<string> | undefined;

async function linkRoles(): Promise<string> {
  const executable = await buildExecutable();
  const directory = `${executable}.roles`;
  await Deno.mkdir(directory, { recursive: true });
  for (const role of ROLES) {
    try {
      await Deno.symlink("../coil", `${directory}/${role}`);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
  return directory;
}

/** Path of the executable under a role's name. */
export async function pathOf(role: RoleName): Promise<string> {
  return `${await (links ??= linkRoles())}/${role}`;
}

export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Input {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
}

/** Runs the executable to its end. */
export async function run(role: RoleName, input: Input = {}): Promise<Output> {
  return await runFile(await pathOf(role), input);
}

/** Runs a program to its end. */
export async function runFile(path: string, input: Input): Promise<Output> {
  const child = new Deno.Command(path, {
    args: [...input.args ?? []],
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...input.env },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  try {
    await writer.write(new TextEncoder().encode(input.stdin ?? ""));
    await writer.close();
  } catch (error) {
    // Who does not need its input may end without reading it.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
  const { code, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

export const CNI_ENV: Readonly<Record<string, string>> = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid0",
  CNI_NETNS: "/run/netns/b0",
  CNI_IFNAME: "eth0",
  CNI_ARGS:
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=cid0;K8S_POD_UID=uid",
  CNI_PATH: "/opt/cni/bin",
};

/**
 * Calls the plugin; overrides of the environment, keys of the configuration.
 * Both ways in which a node may have it, which must not differ: the whole program
 * itself, and the front, which asks the coild that the configuration names.
 */
export async function callPlugin(
  env: Readonly<Record<string, string>>,
  conf: Readonly<Record<string, unknown>> | string,
): Promise<Output> {
  const stdin = typeof conf === "string" ? conf : JSON.stringify({
    cniVersion: "1.1.0",
    name: "k8s-pod-network",
    type: "coil",
    ...conf,
  });
  const input = { env: { ...CNI_ENV, ...env }, stdin };
  const output = await run("coil", input);
  const socket = String(
    (typeof conf === "string" ? undefined : conf["socket"]) ?? "/nowhere",
  );
  // Where coild answers no executable may be started.
  const executable = isAnswered(socket, input)
    ? "/bin/false"
    : await pathOf("coil");
  const byFront = await runFront({ executable, socket }, input);
  assert.deepEqual(byFront, output);
  return output;
}

/** What the front does not take to coild: VERSION, and what its buffer cannot hold. */
function isAnswered(socket: string, { env, stdin }: Input): boolean {
  const isTaken = env?.["CNI_COMMAND"] !== "VERSION" &&
    (stdin ?? "").length < 200_000;
  return isTaken && isThere(`${socket}.cni`);
}

/** Runs the front for the coild at the socket, with this executable behind it. */
export async function runFront(
  places: { readonly executable: string; readonly socket: string },
  input: Input,
): Promise<Output> {
  const directory = await Deno.makeTempDir();
  try {
    return await runFile(await placePlugin(directory, places), input);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Answers of a coild that is not one: what ADD gives, or what all throw. */
export type Answer = (
  request: CniRequest,
  context: CallContext & { readonly method: MethodName },
) => Promise<unknown>;

/** A server in coild's place. */
export class CannedCoild implements AsyncDisposable {
  readonly socket: string;
  readonly #directory: string;
  readonly #abort = new AbortController();
  #finished: Promise<unknown> = Promise.resolve();

  private constructor(directory: string) {
    this.#directory = directory;
    this.socket = `${directory}/coild.sock`;
  }

  static async start(answer: Answer): Promise<CannedCoild> {
    const coild = new CannedCoild(await Deno.makeTempDir());
    const { signal } = coild.#abort;
    const { finished } = await openDoors({
      calls: new CniCalls({ methods: methodsOf(answer) }),
      socketPath: coild.socket,
      signal,
    });
    coild.#finished = finished;
    return coild;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.#finished;
    await Deno.remove(this.#directory, { recursive: true });
  }
}

function methodsOf(answer: Answer): CniMethods {
  const silent = (method: MethodName) =>
  async (
    request: CniRequest,
    context: CallContext,
  ) => {
    await answer(request, { ...context, method });
  };
  return {
    add: async (request, context) =>
      parseResult(await answer(request, { ...context, method: "Add" })),
    del: silent("Del"),
    check: silent("Check"),
    gc: silent("Gc"),
    status: silent("Status"),
  };
}
