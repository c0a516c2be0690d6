import { TextLineStream } from "../lines.ts";
import { VmError } from "./errors.ts";

interface Message {
  readonly return?: unknown;
  readonly error?: { readonly class: string; readonly desc: string };
  readonly event?: string;
  readonly data?: { readonly status?: string };
}

/** QEMU's machine protocol: one JSON object a line, and events between the answers. */
export class Monitor {
  readonly #conn: Deno.Conn;
  readonly #lines: ReadableStreamDefaultReader<string>;
  #greeted = false;

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
    this.#lines = conn.readable.pipeThrough(new TextLineStream()).getReader();
  }

  /** Executes a command. @throws {VmError} when QEMU refuses it. */
  async execute(
    name: string,
    args: Record<string, unknown> = {},
  ): Promise<unknown> {
    if (!this.#greeted) {
      this.#greeted = true;
      await this.#send("qmp_capabilities", {});
    }
    return await this.#send(name, args);
  }

  /** Waits until a migration, which is how QEMU calls both saving and resuming, is complete. */
  async migrated(): Promise<void> {
    while (true) {
      const { event, data } = await this.#next();
      if (event !== "MIGRATION") continue;
      if (data?.status === "completed") return;
      if (data?.status === "failed") {
        throw new VmError("Cannot save or resume the snapshot: QEMU failed");
      }
    }
  }

  async #send(name: string, args: Record<string, unknown>): Promise<unknown> {
    const text = JSON.stringify({ execute: name, arguments: args });
    await this.#conn.write(new TextEncoder().encode(`${text}\n`));
    while (true) {
      const message = await this.#next();
      if (message.error !== undefined) {
        throw new VmError(
          `Cannot execute "${name}" in QEMU: ${message.error.desc}`,
        );
      }
      if (message.return !== undefined) return message.return;
    }
  }

  async #next(): Promise<Message> {
    const { value } = await this.#lines.read();
    if (value === undefined) throw new VmError("Cannot go on: QEMU has ended");
    return JSON.parse(value) as Message;
  }

  /** Ends the connection. */
  close(): void {
    this.#lines.cancel().catch(() => {});
  }
}
