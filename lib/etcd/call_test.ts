import assert from "node:assert/strict";
import { GrpcError, StatusCode } from "../grpc/mod.ts";
import { callEtcd, type CallOptions, RemoteUnreachableError } from "./call.ts";
import { KV } from "./gen/etcd/rpc_pb.ts";

const RANGE = KV.method.range;

/** Calls a server that does with a connection what `serve` does. */
async function callServedBy(
  serve: (connection: Deno.Conn) => Promise<void>,
  options: Partial<CallOptions> = {},
): Promise<unknown> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served = listener.accept().then(async (connection) => {
    using _ = connection;
    await serve(connection);
  });
  const { port } = listener.addr;
  const outcome = await callEtcd(RANGE, {}, {
    endpoint: { hostname: "127.0.0.1", port },
    ...options,
  }).catch((error: unknown) => error);
  await served;
  return outcome;
}

function unusedPort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function readToEnd(connection: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(4096);
  try {
    while (await connection.read(buffer) !== null);
  } catch (error) {
    if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
  }
}

Deno.test("callEtcd() says that nobody listens", async () => {
  const port = unusedPort();
  await assert.rejects(
    callEtcd(RANGE, {}, {
      endpoint: { hostname: "127.0.0.1", port },
    }),
    (error) => {
      assert.ok(error instanceof RemoteUnreachableError);
      assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port}: `));
      return true;
    },
  );
});

Deno.test("callEtcd() says that the server closes without an answer", async () => {
  const error = await callServedBy(async (connection) => {
    await connection.read(new Uint8Array(4096));
  });
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.UNAVAILABLE);
});

Deno.test("callEtcd() does not wait longer than it may", async () => {
  const error = await callServedBy(readToEnd, { timeoutMs: 50 });
  assert.ok(error instanceof GrpcError);
  assert.equal(error.code, StatusCode.DEADLINE_EXCEEDED);
});

Deno.test("callEtcd() does not wait longer for a TLS handshake, either", async () => {
  const answered = Promise.withResolvers<void>();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served = listener.accept().then(async (connection) => {
    using _ = connection;
    await answered.promise;
  });
  const { port } = listener.addr;
  await assert.rejects(
    callEtcd(RANGE, {}, {
      endpoint: { hostname: "127.0.0.1", port, tls: {} },
      timeoutMs: 50,
    }),
    (error) =>
      error instanceof GrpcError &&
      error.code === StatusCode.DEADLINE_EXCEEDED,
  );
  answered.resolve();
  await served;
});

Deno.test("callEtcd() ends with the signal's reason", async () => {
  const stop = new AbortController();
  const reason = new Error("enough");
  const error = await callServedBy(async (connection) => {
    stop.abort(reason);
    await readToEnd(connection);
  }, { signal: stop.signal });
  assert.equal(error, reason);
});
