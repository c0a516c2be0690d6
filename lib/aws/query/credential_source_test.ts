import assert from "node:assert/strict";
import { FakeClock } from "../../async/testing.ts";
import { CredentialSource } from "./credential_source.ts";
import { Credentials } from "../base/sign.ts";

const HOUR_MS = 3_600_000;

interface Bed {
  readonly clock: FakeClock;
  readonly source: CredentialSource;
  readonly issued: () => number;
  /** What issuing fails with, if it does. */
  failure: Error | undefined;
}

function bed(lifetimeMs: number | undefined): Bed {
  let issued = 0;
  const clock = new FakeClock();
  const on: Bed = {
    clock,
    issued: () => issued,
    failure: undefined,
    source: new CredentialSource(async ({ signal }) => {
      issued++;
      signal.throwIfAborted();
      if (on.failure !== undefined) throw on.failure;
      const [accessKeyId, secretAccessKey] = [`id${issued}`, "secret"];
      const credentials = new Credentials({ accessKeyId, secretAccessKey });
      return { credentials, lifetimeMs };
    }, { clock, random: () => 0.5 }),
  };
  return on;
}

const idOf = async (on: Bed) => (await on.source.current()).accessKeyId;

Deno.test("current() issues keys once for all who want them", async () => {
  const on = bed(HOUR_MS);
  const all = await Promise.all([1, 2, 3].map(() => idOf(on)));
  assert.deepEqual(all, ["id1", "id1", "id1"]);
  assert.equal(on.issued(), 1);
});

Deno.test("current() renews keys four minutes before they end", async () => {
  const on = bed(HOUR_MS);
  await idOf(on);
  await on.clock.advance(HOUR_MS - 240_001);
  assert.equal(await idOf(on), "id1");
  await on.clock.advance(1);
  assert.equal(await idOf(on), "id2");
});

Deno.test("current() renews keys of a short life in its half", async () => {
  const on = bed(60_000);
  await idOf(on);
  await on.clock.advance(29_999);
  assert.equal(await idOf(on), "id1");
  await on.clock.advance(1);
  assert.equal(await idOf(on), "id2");
});

Deno.test("current() keeps keys that do not end", async () => {
  const on = bed(undefined);
  await idOf(on);
  await on.clock.advance(1_000 * HOUR_MS);
  assert.equal(await idOf(on), "id1");
});

Deno.test("current() gives old keys while they are good and new ones cannot be had, and asks every 30 s", async () => {
  const on = bed(HOUR_MS);
  await idOf(on);
  on.failure = new Error("no answer");
  await on.clock.advance(HOUR_MS - 240_000);
  assert.equal(await idOf(on), "id1");
  assert.equal(await idOf(on), "id1");
  assert.equal(on.issued(), 2);
  await on.clock.advance(30_000);
  assert.equal(await idOf(on), "id1");
  assert.equal(on.issued(), 3);
  await on.clock.advance(210_000);
  await assert.rejects(idOf(on), /no answer/);
  on.failure = undefined;
  assert.equal(await idOf(on), "id5");
});

Deno.test("expire() makes the next call get other keys, unless these cannot be renewed", async () => {
  const on = bed(HOUR_MS);
  assert.equal(on.source.expire(await on.source.current()), true);
  assert.equal(await idOf(on), "id2");
  const fixed = bed(undefined);
  assert.equal(fixed.source.expire(await fixed.source.current()), false);
  assert.equal(await idOf(fixed), "id1");
});

Deno.test("expire() keeps keys that were renewed since", async () => {
  const on = bed(HOUR_MS);
  const first = await on.source.current();
  on.source.expire(first);
  assert.equal(await idOf(on), "id2");
  assert.equal(on.source.expire(first), true);
  assert.equal(await idOf(on), "id2");
});

Deno.test("current() ends when its signal aborts, and others get the keys", async () => {
  const { promise: held, resolve } = Promise.withResolvers<void>();
  const keys = { accessKeyId: "id", secretAccessKey: "secret" };
  const source = new CredentialSource(async () => {
    await held;
    return { credentials: new Credentials(keys), lifetimeMs: HOUR_MS };
  });
  const abort = new AbortController();
  const given = source.current({ signal: abort.signal });
  const other = source.current();
  abort.abort(new Error("enough"));
  await assert.rejects(given, /enough/);
  resolve();
  assert.equal((await other).accessKeyId, "id");
});

Deno.test("current() does not wait for ever", async () => {
  const clock = new FakeClock();
  const source = new CredentialSource(
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
    { clock },
  );
  const rejected = assert.rejects(source.current(), /within 30000 ms/);
  await clock.advance(30_000);
  await rejected;
});
