import assert from "node:assert/strict";
import { sleep } from "../../async/mod.ts";
import { AwsNoAnswerError } from "./errors.ts";
import { HttpClient } from "./http.ts";
import { type Answering, LoopbackServer } from "../testing.ts";

const GET = { method: "GET", headers: {} } as const;

async function sizeOf(
  answer: Answering,
  maxBytes: number,
): Promise<number> {
  await using server = new LoopbackServer(answer);
  const endpoint = server.url;
  using http = new HttpClient({
    peer: "EC2",
    endpoint,
    timeoutMs: 60_000,
    maxBytes,
  });
  const { body } = await http.send({ ...GET, url: endpoint });
  return body.length;
}

Deno.test("send() reads as much as it may and no more, whether the length is said or not", async () => {
  const endless = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        pull: (body) => body.enqueue(new Uint8Array(1_024)),
      }),
    );
  assert.equal(await sizeOf(() => new Response("12345"), 5), 5);
  await assert.rejects(
    sizeOf(() => new Response("123456"), 5),
    (error) =>
      error instanceof AwsNoAnswerError &&
      /more than 5 bytes/.test(error.message),
  );
  await assert.rejects(sizeOf(endless, 100_000), AwsNoAnswerError);
});

Deno.test("send() reads characters that come in pieces", async () => {
  // The network cuts after an even number of bytes, thus within a character.
  const text = "a" + "😀".repeat(200_000);
  await using server = new LoopbackServer(() => new Response(text));
  const endpoint = server.url;
  using http = new HttpClient({ peer: "EC2", endpoint, timeoutMs: 60_000 });
  const { body } = await http.send({ ...GET, url: endpoint });
  assert.ok(body === text);
});

Deno.test("send() ends when its signal aborts, long after the answer has begun", async () => {
  await using server = new LoopbackServer(({ path }) =>
    path === "/silent" ? new Promise<Response>(() => {}) : new Response(
      new ReadableStream<Uint8Array>({
        start: (body) => body.enqueue(new TextEncoder().encode("begun")),
      }),
    )
  );
  const endpoint = server.url;
  using http = new HttpClient({ peer: "EC2", endpoint, timeoutMs: 60_000 });
  const abort = new AbortController();
  const reason = new Error("enough");
  const { signal } = abort;
  const sent = assert.rejects(
    http.send({ ...GET, url: endpoint }, { signal }),
    (error) => error === reason,
  );
  // Another that is given up, and long enough for the runtime to forget what it does not hold.
  const soon = { signal: AbortSignal.timeout(20) };
  await assert.rejects(http.send({ ...GET, url: `${endpoint}/silent` }, soon));
  await sleep(100);
  abort.abort(reason);
  await sent;
});

/** Nothing listens at this proxy, so what goes by it fails. */
function clientWithProxy(endpoint: string, isLocal: boolean): HttpClient {
  const before = Deno.env.get("HTTP_PROXY");
  Deno.env.set("HTTP_PROXY", "http://127.0.0.1:1");
  try {
    const peer = "the service";
    return new HttpClient({ peer, endpoint, timeoutMs: 60_000, isLocal });
  } finally {
    if (before === undefined) Deno.env.delete("HTTP_PROXY");
    else Deno.env.set("HTTP_PROXY", before);
  }
}

Deno.test("send() asks what is local itself, and others by the environment's proxy", async () => {
  await using server = new LoopbackServer(() => new Response("direct"));
  const request = { ...GET, url: `${server.url}/path` };
  using local = clientWithProxy(server.url, true);
  assert.equal((await local.send(request)).body, "direct");
  assert.equal(server.seen[0]?.path, "/path");
  using other = clientWithProxy(server.url, false);
  await assert.rejects(other.send(request), AwsNoAnswerError);
});

Deno.test("send() sends once what a peer takes without an answer, also after it has answered before", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const endpoint = `http://127.0.0.1:${listener.addr.port}`;
  let requests = 0;
  const serve = async (connection: Deno.TcpConn) => {
    using _closed = connection;
    const answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    while (await connection.read(new Uint8Array(65_536)) !== null) {
      if (++requests > 1) return;
      await connection.write(new TextEncoder().encode(answer));
    }
  };
  const serving = (async () => {
    for await (const connection of listener) {
      void serve(connection).catch(() => {});
    }
  })();
  {
    using http = new HttpClient({
      peer: "EC2",
      endpoint,
      timeoutMs: 60_000,
      once: true,
    });
    const post = { method: "POST", headers: {}, url: endpoint } as const;
    await http.send({ ...post, body: "one" });
    await assert.rejects(http.send({ ...post, body: "two" }), AwsNoAnswerError);
    assert.equal(requests, 2);
  }
  listener.close();
  await serving;
});

/** What a client asks a server by its first line. */
async function firstLine(isLocal: boolean): Promise<string | undefined> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const endpoint = `http://127.0.0.1:${listener.addr.port}`;
  using http = new HttpClient({
    peer: "x",
    endpoint,
    timeoutMs: 60_000,
    isLocal,
  });
  const sent = http.send({ ...GET, url: `${endpoint}/latest/a` });
  using connection = await listener.accept();
  const bytes = new Uint8Array(1_000);
  const count = await connection.read(bytes) ?? 0;
  await connection.write(
    new TextEncoder().encode("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
  );
  await sent;
  return new TextDecoder().decode(bytes.subarray(0, count)).split("\r\n")[0];
}

Deno.test("send() asks a local peer as it asks others, by a path alone", async () => {
  const line = "GET /latest/a HTTP/1.1";
  assert.deepEqual([await firstLine(true), await firstLine(false)], [
    line,
    line,
  ]);
});
