// coil connectivity test, as an admin runs it, and damage for it to find.
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { NAMESPACES } from "../../lib/kube/mod.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { binDir } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";

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

/** A finding of `-o json`. */
export interface Found {
  readonly cause: string;
  readonly node: string;
  readonly message: string;
  readonly next: string;
}

/** What it found, as `-o json` has it: cause and node of each. */
export function causesOf({ out }: Tested): readonly string[] {
  const { problems } = JSON.parse(out) as { problems: readonly Found[] };
  return problems.map(({ cause, node }) => `${cause} on ${node}`);
}

/** Damage to nodes, undone in the reverse order. */
export class Damage implements AsyncDisposable {
  readonly #undo = new AsyncDisposableStack();

  /** Runs a command on a node, and another one at the end. */
  async do(
    node: ClusterNode,
    command: readonly [string, ...string[]],
    undo: readonly [string, ...string[]],
  ): Promise<void> {
    const [program, ...args] = command;
    await node.run(program, args);
    const [undoing, ...undoArgs] = undo;
    this.#undo.defer(async () => void await node.run(undoing, undoArgs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#undo.disposeAsync();
  }
}
