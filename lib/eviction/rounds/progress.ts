/** Where progress is shown. */
export interface ProgressTerminal {
  /** Takes messages beside the output. */
  err(text: string): void;
  /** Whether `err` is a terminal, where a user sees what is written as it comes; false if not said. */
  readonly isInteractive?: boolean | undefined;
}

const BAR_WIDTH = 24;
/** Clears the bar's line. */
export const CLEAR_LINE = "\r\x1b[K";

/** Shows how many of a number of things are done: a bar at a terminal, else a line for each thing. */
export class Progress {
  readonly #terminal: ProgressTerminal;
  readonly #total: number;
  #done: number;
  #isDrawn = false;

  constructor(
    terminal: ProgressTerminal,
    options: { readonly total: number; readonly done: number },
  ) {
    this.#terminal = terminal;
    this.#total = options.total;
    this.#done = options.done;
  }

  /** Shows what is being done; not for logs. */
  show(text: string): void {
    if (!this.#terminal.isInteractive) return;
    this.#terminal.err(
      `${CLEAR_LINE}${progressBar(this.#done, this.#total)} ${text}`,
    );
    this.#isDrawn = true;
  }

  /** Counts one more. */
  done(text: string): void {
    this.#done++;
    this.say(`[${this.#done}/${this.#total}] ${text}`);
  }

  /** Writes a line that stays. */
  say(text: string): void {
    this.#terminal.err(`${this.#isDrawn ? CLEAR_LINE : ""}${text}\n`);
    this.#isDrawn = false;
  }

  /** Takes the bar away. */
  end(): void {
    if (this.#isDrawn) this.#terminal.err(CLEAR_LINE);
    this.#isDrawn = false;
  }
}

/** `[######      ] 6/12` */
export function progressBar(done: number, total: number): string {
  const part = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.floor(part * BAR_WIDTH);
  return `[${"#".repeat(filled)}${
    " ".repeat(BAR_WIDTH - filled)
  }] ${done}/${total}`;
}
