// What the kernel's notifications about starting pods cost, in processor time.
import { DAEMON_V8_FLAGS } from "../../deploy/executable/modules/v8_flags.ts";
import type { LabNode } from "../lab/mod.ts";
import { processorNs } from "./process_memory.ts";

const PROGRAM = new URL("./notifications_program.ts", import.meta.url).pathname;

/** A process on a node that hears what coild hears, and works on nothing else. coild's own changes are another's to it, so it hears more. */
export class NotificationListener implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  static async start(node: LabNode): Promise<NotificationListener> {
    const child = new Deno.Command("ip", {
      args: [
        ...["netns", "exec", node.netns, Deno.execPath()],
        ...["run", "-A", DAEMON_V8_FLAGS, PROGRAM],
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    const { done } = await reader.read();
    if (done) throw new Error("Cannot listen to the node's notifications");
    reader.releaseLock();
    return new NotificationListener(child);
  }

  /** Processor time so far, in ms. */
  get usedMs(): number {
    return processorNs(this.#child.pid) / 1e6;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}
