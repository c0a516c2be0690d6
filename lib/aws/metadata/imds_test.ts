import assert from "node:assert/strict";
import { sleep } from "../../async/mod.ts";
import { FakeClock } from "../../async/testing.ts";
import { AwsNoAnswerError } from "../base/errors.ts";
import { ImdsClient, ImdsError } from "./imds.ts";
import { LoopbackServer, type SeenRequest } from "../testing.ts";

const HOUR_MS = 3_600_000;

interface Bed extends AsyncDisposable {
  readonly server: LoopbackServer;
  readonly client: ImdsClient;
  readonly clock: FakeClock;
  /** The token that is good now; it changes with each that is issued. */
  good: string;
}

/** A service of version 2 with these keys below `/latest/`. */
function bed(
  keys: Readonly<Record<string, string | number>>,
  { clock = new FakeClock(), timeoutMs = 5_000 } = {},
): Bed {
  let issued = 0;
  const server = new LoopbackServer(({ method, path, headers }) => {
    if (method === "PUT") {
      const ttl = headers.get("x-aws-ec2-metadata-token-ttl-seconds");
      assert.deepEqual([path, ttl], ["/latest/api/token", "21600"]);
      return new Response(on.good = `token-${++issued}`);
    }
    if (headers.get("x-aws-ec2-metadata-token") !== on.good) {
      return new Response("<html>", { status: 401 });
    }
    const value = keys[path.replace("/latest/", "")] ?? 404;
    return typeof value === "number"
      ? new Response("<html>", { status: value })
      : new Response(value);
  });
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  const on: Bed = {
    server,
    clock,
    client: new ImdsClient({ env, clock, timeoutMs }),
    good: "",
    async [Symbol.asyncDispose]() {
      on.client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
  return on;
}

const methods = (seen: readonly SeenRequest[]) =>
  seen.map(({ method }) => method);

Deno.test("get() reads keys with one token, asked for once", async () => {
  await using on = bed({ "meta-data/mac": "02:00", "meta-data/ami-id": "a" });
  const values = await Promise.all(
    ["meta-data/mac", "meta-data/ami-id", "meta-data/mac"]
      .map((path) => on.client.get(path)),
  );
  assert.deepEqual(values, ["02:00", "a", "02:00"]);
  assert.deepEqual(methods(on.server.seen), ["PUT", "GET", "GET", "GET"]);
});

Deno.test("get() gets another token before six hours are over", async () => {
  await using on = bed({ "meta-data/mac": "02:00" });
  await on.client.get("meta-data/mac");
  await on.clock.advance(6 * HOUR_MS - 60_000);
  await on.client.get("meta-data/mac");
  assert.deepEqual(methods(on.server.seen), ["PUT", "GET", "GET"]);
  await on.clock.advance(1);
  await on.client.get("meta-data/mac");
  assert.deepEqual(methods(on.server.seen).slice(3), ["PUT", "GET"]);
});

Deno.test("get() renews a token that is refused once, for all who were refused", async () => {
  await using on = bed({ "meta-data/mac": "02:00" });
  await on.client.get("meta-data/mac");
  on.good = "another";
  const all = await Promise.all(
    [1, 2, 3].map(() => on.client.get("meta-data/mac")),
  );
  assert.deepEqual(all, ["02:00", "02:00", "02:00"]);
  assert.equal(methods(on.server.seen).filter((m) => m === "PUT").length, 2);
});

Deno.test("get() keeps a token that was renewed while it was refused the one before", async () => {
  const { promise: held, resolve } = Promise.withResolvers<void>();
  let issued = 0;
  await using server = new LoopbackServer(async ({ method, path, headers }) => {
    if (method === "PUT") return new Response(`token-${++issued}`);
    const isOld = headers.get("x-aws-ec2-metadata-token") === "token-1";
    if (isOld && path.endsWith("slow")) await held;
    return new Response("value", { status: isOld ? 401 : 200 });
  });
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  using client = new ImdsClient({ env });
  const slow = client.get("meta-data/slow");
  assert.equal(await client.get("meta-data/mac"), "value");
  resolve();
  assert.equal(await slow, "value");
  assert.equal(issued, 2);
});

Deno.test("get() does not renew a token a second time", async () => {
  await using on = bed({ "meta-data/mac": 401 });
  await assert.rejects(on.client.get("meta-data/mac"), (error) => {
    assert.ok(error instanceof ImdsError);
    assert.equal(
      error.message,
      'Cannot read "meta-data/mac" from the instance metadata service: HTTP status 401',
    );
    return true;
  });
  assert.deepEqual(methods(on.server.seen), ["PUT", "GET", "PUT", "GET"]);
});

Deno.test("a key that is not there is an error of get(), undefined of tryGet(), no line of list()", async () => {
  await using on = bed({ "meta-data/a": "x/\ny/\n", "meta-data/empty": "" });
  await assert.rejects(
    on.client.get("meta-data/none"),
    (error) => error instanceof ImdsError && error.status === 404,
  );
  assert.equal(await on.client.tryGet("meta-data/none"), undefined);
  assert.equal(await on.client.tryGet("meta-data/empty"), "");
  assert.deepEqual(await on.client.list("meta-data/none"), []);
  assert.deepEqual(await on.client.list("meta-data/empty"), []);
  assert.deepEqual(await on.client.list("meta-data/a"), ["x/", "y/"]);
});

Deno.test("tryGet() does not take other failures for a key that is not there", async () => {
  await using on = bed({ "meta-data/mac": 403 });
  await assert.rejects(
    on.client.tryGet("meta-data/mac"),
    (error) => error instanceof ImdsError && error.status === 403,
  );
});

/** Turns the clock whenever the client waits for another attempt. */
async function turned<T>(clock: FakeClock, made: Promise<T>): Promise<T> {
  let isDone = false;
  const done = made.finally(() => isDone = true);
  done.catch(() => {});
  while (!isDone) {
    await clock.advance(1_000);
    await sleep(5);
  }
  return await done;
}

Deno.test("get() asks again, twice at most, when the service fails", async () => {
  for (const status of [500, 503, 429]) {
    await using on = bed({ "meta-data/mac": status });
    await assert.rejects(
      turned(on.clock, on.client.get("meta-data/mac")),
      (error) => error instanceof ImdsError && error.status === status,
    );
    assert.deepEqual(methods(on.server.seen), ["PUT", "GET", "GET", "GET"]);
  }
});

Deno.test("get() says that metadata is turned off", async () => {
  await using server = new LoopbackServer(() =>
    new Response("", { status: 403 })
  );
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  using client = new ImdsClient({ env });
  await assert.rejects(
    client.get("meta-data/mac"),
    /HTTP status 403; enable it for the instance \(aws ec2 modify/,
  );
});

Deno.test("get() says what a token that does not come may mean", async () => {
  await using server = new LoopbackServer(() => new Promise(() => {}));
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  const clock = new FakeClock();
  using client = new ImdsClient({ env, clock, timeoutMs: 50 });
  await assert.rejects(turned(clock, client.get("meta-data/mac")), (error) => {
    assert.ok(error instanceof AwsNoAnswerError);
    assert.match(error.message, /no answer within 50 ms; .* hop limit of 2/);
    return true;
  });
  assert.deepEqual(methods(server.seen), ["PUT", "PUT", "PUT"]);
});

Deno.test("get() asks the service itself, also when the environment names a proxy", async () => {
  await using server = new LoopbackServer(() => new Response("value"));
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  const before = Deno.env.get("HTTP_PROXY");
  Deno.env.set("HTTP_PROXY", "http://127.0.0.1:1");
  using client = new ImdsClient({ env });
  if (before === undefined) Deno.env.delete("HTTP_PROXY");
  else Deno.env.set("HTTP_PROXY", before);
  assert.equal(await client.get("meta-data/mac"), "value");
});

Deno.test("get() ends when its signal aborts, while the token goes on for others", async () => {
  const { promise: held, resolve } = Promise.withResolvers<void>();
  await using server = new LoopbackServer(async ({ method }) => {
    if (method === "PUT") await held;
    return new Response("value");
  });
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  using client = new ImdsClient({ env });
  const abort = new AbortController();
  const { signal } = abort;
  const given = client.get("meta-data/mac", { signal });
  const other = client.get("meta-data/mac");
  abort.abort(new Error("enough"));
  await assert.rejects(given, /enough/);
  resolve();
  assert.equal(await other, "value");
  assert.deepEqual(methods(server.seen), ["PUT", "GET"]);
});

Deno.test("a token that no header can have is not in the error", async () => {
  await using server = new LoopbackServer(() => new Response("hid\nden"));
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url]]);
  using client = new ImdsClient({ env });
  await assert.rejects(client.get("meta-data/mac"), (error) => {
    assert.match(`${Deno.inspect(error)}`, /Cannot use the token of/);
    assert.doesNotMatch(Deno.inspect(error), /hid.?den/s);
    return true;
  });
});
