/** The thread of the watchdog: it says what does not come back, and ends the process. */
import { watchedMemory, type WatchOrder } from "./watchdog.ts";

const scope = self as unknown as {
  onmessage: (event: MessageEvent<WatchOrder>) => void;
  postMessage(message: string): void;
};

scope.onmessage = ({ data: { buffer, limitMs } }) => {
  const memory = watchedMemory(buffer);
  let seen = 0;
  let sinceMs = performance.now();
  setInterval(() => {
    const number = Atomics.load(memory.number, 0);
    const now = performance.now();
    if (number === 0 || number !== seen) [seen, sinceMs] = [number, now];
    else if (now - sinceMs > limitMs) end(memory, now - sinceMs);
  }, Math.min(500, limitMs / 4));
  scope.postMessage("watching");
};

function end(
  { length, text }: ReturnType<typeof watchedMemory>,
  ms: number,
): void {
  const bytes = text.slice(0, Atomics.load(length, 0));
  const what = new TextDecoder().decode(bytes);
  say(`Finding: after ${ms.toFixed(0)} ms there is no end to ${what}\n`);
  // Deno.exit() would end this thread alone.
  Deno.kill(Deno.pid, "SIGKILL");
}

/** To the process' own standard error: the test runner, which takes what is written otherwise, is ended too. */
function say(text: string): void {
  const bytes = new TextEncoder().encode(text);
  try {
    using file = Deno.openSync("/proc/self/fd/2", { append: true });
    file.writeSync(bytes);
  } catch {
    Deno.stderr.writeSync(bytes);
  }
}
