/** Traffic under which something is removed, and how long it did not get through. */

const INTERVAL_S = 0.02;

/** A ping that runs, from a pod to an address. */
export interface Probe {
  /** Waits for one more answer and ends it. Returns the longest time without one. */
  stop(): Promise<number>;
}

/** Asks every 20 ms until stopped. Resolves after the first answer. */
export async function probe(
  from: { readonly netns: string },
  to: string,
): Promise<Probe> {
  const child = new Deno.Command("nsenter", {
    args: [
      ...[`--net=/run/netns/${from.netns}`, "ping", "-D", "-n"],
      ...["-i", String(INTERVAL_S), "-w", "3600", to],
    ],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const answers: number[] = [];
  let sinceMs = 0;
  let next = Promise.withResolvers<void>();
  const reading = (async () => {
    const lines = child.stdout.pipeThrough(new TextDecoderStream());
    let rest = "";
    for await (const text of lines) {
      const whole = `${rest}${text}`.split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole) {
        const text = /^\[(\d+\.\d+)\].* time=/.exec(line)?.[1];
        if (text === undefined) continue;
        const atMs = Number(text) * 1_000;
        answers.push(atMs);
        if (atMs > sinceMs) next.resolve();
      }
    }
    next.reject(new Error(`Cannot probe "${to}": no answer`));
  })();
  reading.catch(() => {});
  await next.promise;
  return {
    async stop() {
      sinceMs = Date.now();
      next = Promise.withResolvers();
      await Promise.race([next.promise, reading]);
      child.kill("SIGINT");
      await child.status;
      await reading;
      const gaps = answers.map((at, i) => at - (answers[i - 1] ?? at));
      return Math.max(...gaps);
    },
  };
}
