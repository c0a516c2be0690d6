import assert from "node:assert/strict";
import { GrpcError, StatusCode } from "./mod.ts";
import { callUnary, ConnectError } from "./testing.ts";

const METHOD = "/a.B/C";

/** A directory for sockets that goes with the test. */
async function directory(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir();
  return {
    path,
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

function call(
  socketPath: string,
  options: { timeoutMs?: number; signal?: AbortSignal; size?: number } = {},
): Promise<unknown> {
  const { size = 1, ...rest } = options;
  const message = new Uint8Array(size);
  return callUnary({ socketPath, method: METHOD, message, ...rest });
}

/** Serves one connection as `serve` says, and makes the call; `ended` resolves after it. */
async function callServedBy(
  serve: (connection: Deno.UnixConn, ended: Promise<void>) => Promise<void>,
  options?: Parameters<typeof call>[1],
): Promise<unknown> {
  await using home = await directory();
  const path = `${home.path}/s`;
  using listener = Deno.listen({ transport: "unix", path });
  const ended = Promise.withResolvers<void>();
  const served = listener.accept().then(async (connection) => {
    using _ = connection;
    await serve(connection, ended.promise);
  });
  const outcome = await call(path, options).catch((error: unknown) => error);
  ended.resolve();
  // On a busy machine the call may have ended before it connected.
  (await Deno.connect({ transport: "unix", path })).close();
  await served;
  return outcome;
}

Deno.test("callUnary() says which socket is absent", async () => {
  await using home = await directory();
  const path = `${home.path}/absent`;
  await assert.rejects(call(path), (error) => {
    assert.ok(error instanceof ConnectError);
    assert.ok(error.message.includes(path), error.message);
    assert.ok(error.cause instanceof Deno.errors.NotFound);
    return true;
  });
});

/** A program that another test starts at this moment has the listener too, until it is another program. */
async function untilRefused(path: string): Promise<void> {
  const end = performance.now() + 10_000;
  while (performance.now() < end) {
    try {
      (await Deno.connect({ transport: "unix", path })).close();
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return;
      throw error;
    }
  }
}

Deno.test("callUnary() says that nobody listens", async () => {
  await using home = await directory();
  const path = `${home.path}/left`;
  // Closing removes the socket, but not under another name.
  const listener = Deno.listen({ transport: "unix", path: `${home.path}/s` });
  await Deno.rename(`${home.path}/s`, path);
  listener.close();
  await untilRefused(path);
  await assert.rejects(call(path), (error) => {
    assert.ok(error instanceof ConnectError);
    assert.ok(error.cause instanceof Deno.errors.ConnectionRefused);
    return true;
  });
});

Deno.test("callUnary() gives up after its timeout", async () => {
  const done = Promise.withResolvers<void>();
  const outcome = callServedBy(() => done.promise, { timeoutMs: 50 });
  setTimeout(() => done.resolve(), 200);
  const error = await outcome;
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.DEADLINE_EXCEEDED);
  assert.equal(error.message, "No answer within 50 ms");
});

Deno.test("callUnary() gives up while the peer does not read", async () => {
  const error = await callServedBy((_, ended) => ended, {
    timeoutMs: 50,
    size: 10_000_000,
  });
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.DEADLINE_EXCEEDED);
});

Deno.test("callUnary() stops when its signal says so", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  setTimeout(() => abort.abort(reason), 30);
  const outcome = await callServedBy((_, ended) => ended, {
    signal: abort.signal,
  });
  assert.equal(outcome, reason);
  await assert.rejects(
    call("/nowhere", { signal: abort.signal }),
    (error) => error === reason,
  );
});

Deno.test("callUnary() notices a peer that closes", async () => {
  const error = await callServedBy(async (connection) => {
    await connection.read(new Uint8Array(10));
  });
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.UNAVAILABLE);
});

Deno.test("callUnary() notices a peer that speaks something else", async () => {
  const error = await callServedBy(async (connection) => {
    await connection.write(new TextEncoder().encode("220 smtp ready\r\n"));
  });
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.INTERNAL);
});
