import { TextLineStream } from "../lab/lines.ts";

/** What {@link Preparation}'s process writes, one in a line: how far it is with a suite, or what came of it. */
export type Told =
  | { readonly name: string; readonly line: string }
  /** Empty when there is none. */
  | { readonly name: string; readonly obstacle: string };

/** It gets the processors that nobody else wants, and so do its children: sched(7). */
const IDLE = ["chrt", "--idle", "0"];
const MAIN = new URL("./prepare_main.ts", import.meta.url).pathname;

/** One suite's part of it. */
interface Part {
  readonly name: string;
  /** What nobody has seen yet. */
  lines: string[];
  show: ((line: string) => void) | undefined;
  readonly obstacle: PromiseWithResolvers<string>;
}

/**
 * Makes what suites need, in their order, while suites before them run: in a process of its own, which leaves the
 * processors to these.
 */
export class Preparation {
  readonly #parts: ReadonlyMap<string, Part>;
  readonly #process: Deno.ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();

  private constructor(parts: readonly Part[], command: readonly string[]) {
    this.#parts = new Map(parts.map((part) => [part.name, part]));
    if (parts.length > 0) this.#process = this.#start(command);
  }

  /** Begins with suites of these names. */
  static start(
    names: readonly string[],
    // An interpreter that a test has instead.
    main: readonly string[] = [Deno.execPath(), "run", "-A", MAIN],
  ): Preparation {
    const parts = names.map((name): Part => ({
      name,
      lines: [],
      show: undefined,
      obstacle: Promise.withResolvers(),
    }));
    return new Preparation(parts, [...IDLE, ...main, ...names]);
  }

  /** Waits until the suite can run, showing how far it is, and returns why it cannot; nothing when it can. */
  async ready(name: string, show: (line: string) => void): Promise<string> {
    const part = this.#parts.get(name);
    if (part === undefined) return "";
    part.lines.forEach(show);
    part.show = show;
    return await part.obstacle.promise;
  }

  /** Ends it with all its children. */
  async end(): Promise<void> {
    if (this.#process === undefined) return;
    try {
      Deno.kill(-this.#process.pid, "SIGTERM");
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    await this.#ended;
  }

  #start([command = "", ...args]: readonly string[]): Deno.ChildProcess {
    const child = new Deno.Command(command, {
      args,
      stdin: "null",
      stdout: "piped",
      detached: true,
    }).spawn();
    this.#ended = this.#read(child).then((why) => {
      for (const { obstacle } of this.#parts.values()) obstacle.resolve(why);
    });
    return child;
  }

  /** Returns why those of which it did not tell cannot run. */
  async #read(child: Deno.ChildProcess): Promise<string> {
    for await (const line of child.stdout.pipeThrough(new TextLineStream())) {
      this.#hear(JSON.parse(line));
    }
    const { code, signal } = await child.status;
    return `what prepares it ended before, with ${signal ?? `code ${code}`}`;
  }

  #hear(told: Told): void {
    const part = this.#parts.get(told.name);
    if (part === undefined) return;
    if ("obstacle" in told) part.obstacle.resolve(told.obstacle);
    else if (part.show !== undefined) part.show(told.line);
    else part.lines.push(told.line);
  }
}
