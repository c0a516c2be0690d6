// coil connectivity test, as an admin runs it, and damage for it to find.
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { NAMESPACES } from "../../lib/kube/mod.ts";
import { binDir, run } from "../lab/mod.ts";
import { type Installation, POOL } from "./installation.ts";

/** The namespace that it makes. */
const NAMESPACE = "coil-connectivity-test";

/** How it ended, and what it wrote. */
export interface Tested {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the command. */
export async function testConnectivity(
  site: Installation,
  ...args: readonly string[]
): Promise<Tested> {
  const { code, stdout, stderr } = await new Deno.Command(
    await buildExecutable(),
    {
      args: ["connectivity", "test", ...args],
      env: {
        PATH: `${binDir()}:${Deno.env.get("PATH")}`,
        KUBECONFIG: site.plane.kubeconfig,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    },
  ).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

/** Whether the command left its namespace. */
export async function isCleanedUp(site: Installation): Promise<boolean> {
  return await site.client.tryGet(NAMESPACES, { name: NAMESPACE }) ===
    undefined;
}

/** A problem, with what is likely wrong. */
export interface Found {
  readonly cause: string;
  readonly node: string;
  readonly message: string;
  readonly next: string;
}

/** What it found, as `-o json` has it. */
export function problemsOf({ out }: Tested): readonly Found[] {
  return (JSON.parse(out) as { problems: readonly Found[] }).problems;
}

/** Where commands run: a node, or the control plane. */
interface Machine {
  run(command: string, args: readonly string[]): Promise<string>;
}

/**
 * Gives the API server a way back to pods, as a network of machines has it: by
 * a node, which knows all others' blocks.
 */
export async function connectApiServer(
  { plane, nodes }: Installation,
): Promise<Changes> {
  const machine: Machine = {
    run: (command, args) =>
      run("ip", ["netns", "exec", plane.netns, command, ...args]),
  };
  const changes = new Changes();
  const via = nodes[0]?.addresses ?? [];
  const pools = [POOL.ipv4, POOL.ipv6];
  for (const [index, pool] of pools.entries()) {
    const route = [pool, "via", via[index] ?? ""];
    await changes.do(
      machine,
      ["ip", "route", "add", ...route],
      ["ip", "route", "del", ...route],
    );
  }
  return changes;
}

/** What is changed by hand, undone in the reverse order. */
export class Changes implements AsyncDisposable {
  readonly #undo = new AsyncDisposableStack();

  /** Runs a command, and another one at the end. */
  async do(
    machine: Machine,
    command: readonly [string, ...string[]],
    undo: readonly [string, ...string[]],
  ): Promise<void> {
    const [program, ...args] = command;
    await machine.run(program, args);
    const [undoing, ...undoArgs] = undo;
    this.#undo.defer(async () => void await machine.run(undoing, undoArgs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#undo.disposeAsync();
  }
}
