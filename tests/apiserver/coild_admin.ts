/** Asks of coild what an administrator's programs ask, as often as it answers: four times a second, eight times at once. */
import { Backoff, retry } from "../../lib/async/mod.ts";
import {
  askAddresses,
  CoildSilentError,
  type NodeAddresses,
} from "../../lib/cnirpc/inspection/mod.ts";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { eventually } from "../lab/mod.ts";

/** What a client sees when coild has answered as many requests as it does at the moment. */
const TOO_MANY = /too many ask|reset|Broken pipe/;

/** Between two looks: more requests than coild answers keep it from ever answering another. */
const LOOK_MS = 300;

/** How long coild may take to list addresses. */
const ANSWER_MS = 30_000;

/** Asks coild again when that was too soon. */
export async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  return await retry(ask, {
    signal: AbortSignal.timeout(30_000),
    backoff: new Backoff({ initialMs: 250, maxMs: 1_000 }),
    shouldRetry: (error) =>
      error instanceof CoildSilentError && TOO_MANY.test(error.message),
  });
}

/** Runs a command of `coil` that asks coild, again when that was too soon. */
export async function coilPatiently(args: readonly string[]): Promise<Output> {
  return await eventually(`an answer to coil ${args.join(" ")}`, async () => {
    const output = await coil(args);
    return !TOO_MANY.test(output.err) && output;
  }, { intervalMs: 1_000 });
}

/** What the coild of a socket says of its node's addresses. */
export async function addressesAt(socketPath: string): Promise<NodeAddresses> {
  return await patiently(() =>
    askAddresses(socketPath, { signal: AbortSignal.timeout(ANSWER_MS) })
  );
}

/** Waits until what that coild says is as wanted. */
export async function untilSaid(
  what: string,
  socketPath: string,
  isSo: (answer: NodeAddresses) => boolean,
): Promise<void> {
  await eventually(
    what,
    async () => isSo(await addressesAt(socketPath)),
    { intervalMs: LOOK_MS },
  );
}
