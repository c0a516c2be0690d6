// With grpc-js's server at the other end.
import assert from "node:assert/strict";
import {
  Metadata,
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
} from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { GrpcError } from "../grpc/mod.ts";
import { exchange } from "./exchange.ts";

type Call = ServerUnaryCall<Buffer, Buffer>;
type Done = sendUnaryData<Buffer>;

const PATH = "/a.B/C";

/** Makes a call that is answered by `handle`. */
async function callServedBy(
  handle: (call: Call, done: Done) => void,
  message: Uint8Array = new Uint8Array(),
): Promise<unknown> {
  const server = new Server({ "grpc.max_send_message_length": -1 });
  const pass = (bytes: Buffer) => bytes;
  server.addService({
    C: {
      path: PATH,
      requestStream: false,
      responseStream: false,
      requestSerialize: pass,
      requestDeserialize: pass,
      responseSerialize: pass,
      responseDeserialize: pass,
    },
  }, { C: handle });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(
      "127.0.0.1:0",
      ServerCredentials.createInsecure(),
      (error, port) => error === null ? resolve(port) : reject(error),
    )
  );
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const outcome = await exchange(connection, {
    authority: `http://127.0.0.1:${port}`,
    path: PATH,
    message,
    metadata: { token: "secret" },
    timeoutMs: 5_000,
  }).catch((error: unknown) => error);
  server.forceShutdown();
  return outcome;
}

Deno.test("exchange() hands over message, metadata and deadline, and gives the answer", async () => {
  const seen: unknown[] = [];
  const outcome = await callServedBy((call, done) => {
    const remainingMs = Number(call.getDeadline()) - Date.now();
    seen.push(call.metadata.get("token"), remainingMs <= 5_000);
    done(null, Buffer.from([...call.request, 4]));
  }, Uint8Array.of(1, 2, 3));
  assert.ok(outcome instanceof Uint8Array, String(outcome));
  assert.deepEqual([...outcome], [1, 2, 3, 4]);
  assert.deepEqual(seen, [["secret"], true]);
});

Deno.test("exchange() takes an answer larger than every window, and an empty one", async () => {
  for (const size of [0, 3 << 20]) {
    const outcome = await callServedBy((_call, done) =>
      done(null, Buffer.alloc(size, 7))
    );
    assert.ok(outcome instanceof Uint8Array, String(outcome));
    assert.ok(Buffer.alloc(size, 7).equals(outcome), `${outcome.length}`);
  }
});

Deno.test("exchange() gives code and message of a call that failed", async () => {
  const outcome = await callServedBy((_call, done) =>
    done({ code: 11, details: "100 % später", metadata: new Metadata() })
  );
  assert.ok(outcome instanceof GrpcError);
  assert.deepEqual([outcome.code, outcome.message], [11, "100 % später"]);
});

Deno.test("exchange() refuses an answer of more than 4 MiB", async () => {
  const outcome = await callServedBy((_call, done) =>
    done(null, Buffer.alloc(5 << 20))
  );
  assert.ok(outcome instanceof GrpcError);
  assert.equal(outcome.codeName, "ResourceExhausted");
});
