import { jittered } from "./jittered.ts";
import { sleep, type SleepOptions } from "./sleep.ts";

/** Works about once in each `ms`, with jitter and first after that time. Only the signal or an error of the work ends it. */
export async function everyAbout(
  ms: number,
  work: () => unknown,
  options: SleepOptions,
): Promise<never> {
  for (;;) {
    await sleep(jittered(ms), options);
    await work();
  }
}
