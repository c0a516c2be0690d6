import type { Log } from "./build.ts";
import { TextLineStream } from "./lines.ts";

const INTERVAL_MS = 10_000;
const TAIL_LINES = 15;

/** Reads what a build prints, tells now and then how far it is, and returns its last words. */
export async function followBuild(
  output: ReadableStream<Uint8Array<ArrayBuffer>>,
  { onLine, describe, log }: {
    readonly onLine: (line: string) => void;
    readonly describe: () => string;
    readonly log: Log;
  },
): Promise<string> {
  const tail: string[] = [];
  const timer = setInterval(() => log(describe()), INTERVAL_MS);
  try {
    for await (const line of output.pipeThrough(new TextLineStream())) {
      onLine(line);
      tail.push(line);
      if (tail.length > TAIL_LINES) tail.shift();
    }
    return tail.join("\n");
  } finally {
    clearInterval(timer);
  }
}
