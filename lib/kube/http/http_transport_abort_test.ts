import assert from "node:assert/strict";
import { sleep } from "../../async/mod.ts";
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

/** Serves answers that begin and never end; for the path "/silent" they do not even begin. */
function endlessServer(): {
  port: number;
  [Symbol.asyncDispose](): Promise<void>;
} {
  const stop = new AbortController();
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", signal: stop.signal, onListen() {} },
    (request) =>
      new URL(request.url).pathname === "/silent"
        ? new Promise<Response>(() => {})
        : new Response(
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
const pause = () => sleep(100);

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

Deno.test("request() does not tell a token that no header can carry", async () => {
  await using server = endlessServer();
  const source = sourceOf(server.port);
  const headers = { authorization: "Bearer sec\nret" };
  const transport = new HttpTransport({
    ...source,
    current: async () => ({ ...await source.current(), headers }),
  });
  await assert.rejects(
    transport.request({ method: "GET", path: "/", headers: {} }, {
      timeoutMs: 5_000,
    }),
    (error) => {
      assert.ok(error instanceof Error);
      assert.match(error.message, /header "authorization"/);
      assert.doesNotMatch(Deno.inspect(error), /sec/);
      return true;
    },
  );
  transport.close();
});

Deno.test("stream() ends on its signal while credentials are being made", async () => {
  const transport = new HttpTransport({
    ...sourceOf(1),
    current: () => new Promise(() => {}),
  });
  const abort = new AbortController();
  const started = transport.stream(
    { method: "GET", path: "/", headers: {}, signal: abort.signal },
    { idleTimeoutMs: 60_000 },
  );
  const reason = new DOMException("enough", "AbortError");
  abort.abort(reason);
  await assert.rejects(started, (error) => error === reason);
});

Deno.test("request() that had next to no time leaves the connection to the others", async () => {
  await using server = endlessServer();
  const transport = new HttpTransport(sourceOf(server.port));
  const abort = new AbortController();
  const { chunks } = await transport.stream(
    { method: "GET", path: "/", headers: {}, signal: abort.signal },
    { idleTimeoutMs: 60_000 },
  );
  const iterator = chunks[Symbol.asyncIterator]();
  await iterator.next();
  await assert.rejects(
    transport.request({ method: "GET", path: "/silent", headers: {} }, {
      timeoutMs: 20,
    }),
  );
  const next = iterator.next();
  const first = await Promise.race([
    next.then(() => "ended", () => "ended"),
    pause().then(() => "alive"),
  ]);
  assert.equal(first, "alive");
  abort.abort();
  await assert.rejects(next);
  transport.close();
});
