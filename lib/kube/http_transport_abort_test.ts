import assert from "node:assert/strict";
import { HttpTransport } from "./http_transport.ts";
import type { ConnectionSource } from "./transport.ts";

function sourceOf(port: number): ConnectionSource {
  const server = `http://127.0.0.1:${port}`;
  return {
    server,
    current: () => Promise.resolve({ server, tls: {}, headers: {} }),
    refresh: () => Promise.resolve(),
  };
}

/** Serves answers that begin and never end. */
function endlessServer(): {
  port: number;
  [Symbol.asyncDispose](): Promise<void>;
} {
  const stop = new AbortController();
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", signal: stop.signal, onListen() {} },
    () =>
      new Response(
        new ReadableStream<Uint8Array>({
          start: (body) => body.enqueue(new TextEncoder().encode("begun")),
        }),
      ),
  );
  return {
    port: server.addr.port,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await server.finished.catch(() => {});
    },
  };
}

/** Long enough for the runtime to forget what it does not hold. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

Deno.test("stream() ends on its signal, long after the answer has begun", async () => {
  await using server = endlessServer();
  const transport = new HttpTransport(sourceOf(server.port));
  const abort = new AbortController();
  const { chunks } = await transport.stream(
    { method: "GET", path: "/", headers: {}, signal: abort.signal },
    { idleTimeoutMs: 60_000 },
  );
  const iterator = chunks[Symbol.asyncIterator]();
  assert.equal((await iterator.next()).done, false);
  await pause();
  const reason = new DOMException("enough", "AbortError");
  const ended = assert.rejects(iterator.next(), (error) => error === reason);
  abort.abort(reason);
  await ended;
  transport.close();
});

Deno.test("request() ends on its signal when the body does not end", async () => {
  await using server = endlessServer();
  const transport = new HttpTransport(sourceOf(server.port));
  const abort = new AbortController();
  const reason = new DOMException("enough", "AbortError");
  const ended = assert.rejects(
    transport.request(
      { method: "GET", path: "/", headers: {}, signal: abort.signal },
      { timeoutMs: 60_000 },
    ),
    (error) => error === reason,
  );
  await pause();
  abort.abort(reason);
  await ended;
  transport.close();
});
