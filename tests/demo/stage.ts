// What the demo's audience sees: chapters, steps with their time, commands
// with their output. Colours and rewriting of lines only on a terminal.

const encoder = new TextEncoder();
const isTerminal = Deno.stdout.isTerminal() && !Deno.env.has("NO_COLOR");

const paint = (code: string) => (text: string) =>
  isTerminal ? `\x1b[${code}m${text}\x1b[0m` : text;
export const bold: (text: string) => string = paint("1");
export const dim: (text: string) => string = paint("2");
export const green: (text: string) => string = paint("32");
export const red: (text: string) => string = paint("31");
export const cyan: (text: string) => string = paint("36");

let onLeave: () => void = () => {};

/** Calls back, once, when nobody reads what is written any more, as after `| head`. */
export function whenAudienceLeaves(callback: () => void): void {
  onLeave = callback;
}

function write(text: string): void {
  const bytes = encoder.encode(text);
  try {
    for (let at = 0; at < bytes.length;) {
      at += Deno.stdout.writeSync(bytes.subarray(at));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
    const callback = onLeave;
    onLeave = () => {};
    callback();
  }
}

export function line(text: string = ""): void {
  write(`${text}\n`);
}

let chapters = 0;

/** Starts a chapter of the story; the text says why it matters. */
export function chapter(title: string, text?: string): void {
  line();
  line(bold(cyan(`${++chapters}. ${title}`)));
  if (text !== undefined) line(dim(`   ${text}`));
}

/** Shows a command as typed, and what it printed. */
export function shown(command: string, output: string): void {
  line(`   ${dim("$")} ${bold(command)}`);
  for (const row of output.trimEnd().split("\n")) line(`   ${row}`);
}

/** Runs one step; its lines of progress stand in for it while it runs. */
export async function step<T>(
  text: string,
  run: (progress: (text: string) => void) => Promise<T>,
): Promise<T> {
  const started = performance.now();
  const seconds = () =>
    `${((performance.now() - started) / 1000).toFixed(1)} s`;
  const draw = (mark: string, suffix: string) =>
    write(`${isTerminal ? "\r\x1b[K" : ""}   ${mark} ${text} ${dim(suffix)}`);
  let detail = "";
  const timer = isTerminal
    ? setInterval(() => draw(cyan("…"), `${seconds()} ${detail}`), 200)
    : undefined;
  const progress = (news: string) => {
    detail = news.slice(0, 80);
    if (!isTerminal) line(`     ${news}`);
  };
  try {
    const result = await run(progress);
    draw(green("✓"), `(${seconds()})\n`);
    return result;
  } catch (error) {
    draw(red("✗"), `(${seconds()})\n`);
    throw error;
  } finally {
    clearInterval(timer);
  }
}

/** Prints rows under a header, columns aligned. */
export function table(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  const widths = header.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => (row[i] ?? "").length))
  );
  const format = (row: readonly string[]) =>
    `   ${widths.map((w, i) => (row[i] ?? "").padEnd(w)).join("  ")}`.trimEnd();
  line(dim(format(header)));
  for (const row of rows) line(format(row));
}
