import assert from "node:assert/strict";
import { sleep, startTimer } from "../../async/mod.ts";
import { configureLogging } from "../base/log.ts";
import type { HttpHandler } from "./connection.ts";
import { DEFAULT_LIMITS, type HttpLimits } from "./limits.ts";
import { HttpServer } from "./server.ts";

const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
/** For the server to do something. */
const PATIENCE_MS = 20_000;
/** More than a test takes. */
const LONG_MS = 60_000;

interface Rig {
  readonly port: number;
  readonly server: { stop(): Promise<void> };
  connect(): Promise<Peer>;
}

/** A client that says what it likes. */
class Peer implements Disposable {
  readonly #socket: Deno.TcpConn;
  #text = "";

  constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
  }

  async send(text: string): Promise<void> {
    await this.#socket.write(new TextEncoder().encode(text));
  }

  /** Reads until the text has come. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#text)) {
      const count = await this.#read();
      assert.ok(count > 0, `the connection ended after ${this.#text}`);
    }
    const text = this.#text;
    this.#text = "";
    return text;
  }

  /** Reads until the server closes the connection. */
  async end(): Promise<string> {
    while (await this.#read() > 0);
    return this.#text;
  }

  async #read(): Promise<number> {
    const buffer = new Uint8Array(64 * 1024);
    using _late = startTimer(PATIENCE_MS, () => this.#socket.close());
    try {
      const count = await this.#socket.read(buffer) ?? 0;
      this.#text += new TextDecoder().decode(buffer.subarray(0, count));
      return count;
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionReset) return 0;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    try {
      this.#socket.close();
    } catch (error) {
      // Closed for its server's slowness.
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

async function withServer(
  handler: HttpHandler,
  limits: Partial<HttpLimits>,
  use: (rig: Rig) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const server = new HttpServer({
    address: `127.0.0.1:${port}`,
    handler,
    signal: stop.signal,
    limits: {
      ...DEFAULT_LIMITS,
      headMs: LONG_MS,
      bodyMs: LONG_MS,
      answerMs: LONG_MS,
      stallMs: LONG_MS,
      idleMs: LONG_MS,
      ...limits,
    },
  });
  const finished = server.run(listener);
  const connect = async () => {
    return new Peer(await Deno.connect({ hostname: "127.0.0.1", port }));
  };
  const end = async () => {
    stop.abort();
    await finished;
  };
  try {
    await use({ port, server: { stop: end }, connect });
  } finally {
    await end();
  }
}

const ok: HttpHandler = () => new Response("well");

Deno.test("HttpServer answers one request after the other, also those sent at once and in pieces", async () => {
  const seen: string[] = [];
  const echo: HttpHandler = async (request) => {
    seen.push(`${request.method} ${new URL(request.url).pathname}`);
    return new Response(await request.text());
  };
  await withServer(echo, {}, async ({ connect }) => {
    using peer = await connect();
    await peer.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /b HTTP/1.1\r\nHo");
    await peer.until(/content-length: 0\r\n(?:.+\r\n)*\r\n$/);
    await peer.send(
      "st: x\r\n\r\nPOST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nwo",
    );
    await peer.send(
      "rldGET /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    const rest = await peer.end();
    assert.match(rest, /\r\n\r\nworldHTTP\/1\.1 200 OK\r\n/);
    assert.match(rest, /\r\nconnection: close\r\n\r\n$/);
    assert.deepEqual(seen, ["GET /a", "HEAD /b", "POST /c", "GET /d"]);
  });
});

Deno.test("HttpServer has HEAD answered without the body", async () => {
  await withServer(ok, {}, async ({ connect }) => {
    using peer = await connect();
    await peer.send("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert.match(await peer.end(), /\r\ncontent-length: 4\r\n(?:.+\r\n)*\r\n$/);
  });
});

const SLOW: readonly (readonly [string, Partial<HttpLimits>, string])[] = [
  ["sends nothing", { headMs: 20 }, ""],
  ["does not finish a head", { headMs: 20 }, "GET / HTTP/1.1\r\nHo"],
  [
    "does not finish a body",
    { bodyMs: 20 },
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
  ],
  ["asks nothing more", { idleMs: 20 }, GET],
];

for (const [what, limits, text] of SLOW) {
  Deno.test(`HttpServer closes the connection of a peer that ${what}`, async () => {
    await withServer(ok, limits, async ({ connect }) => {
      using peer = await connect();
      await peer.send(text);
      assert.equal(/200 OK/.test(await peer.end()), text === GET);
    });
  });
}

Deno.test("HttpServer closes the connection of a peer that does not read", async () => {
  const large: HttpHandler = () => new Response("x".repeat(32 << 20));
  await withServer(large, { answerMs: 100 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send(GET);
    await sleep(500);
    assert.ok((await peer.end()).length < 32 << 20);
  });
});

Deno.test("HttpServer closes the connection of a peer that stops to read amid the answer", async () => {
  const large: HttpHandler = () => new Response("x".repeat(32 << 20));
  await withServer(large, { stallMs: 100 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send(GET);
    await peer.until(/x{1000}/);
    await sleep(500);
    assert.ok((await peer.end()).length < 32 << 20);
  });
});

Deno.test("HttpServer lets a peer take a long answer that goes on being read", async () => {
  const large: HttpHandler = () => new Response("x".repeat(32 << 20));
  await withServer(large, { stallMs: 5_000 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send("GET / HTTP/1.0\r\n\r\n");
    assert.ok((await peer.end()).length > 32 << 20);
  });
});

Deno.test("HttpServer serves a peer's newest connection when the others' answers are not taken", async () => {
  const large: HttpHandler = ({ url }) =>
    new Response(url.endsWith("/large") ? "x".repeat(32 << 20) : "well");
  const request = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
  await withServer(large, { maxPerPeer: 2 }, async ({ connect }) => {
    using first = await connect();
    using second = await connect();
    for (const peer of [first, second]) {
      await peer.send(request.repeat(4));
      await peer.until(/x/);
    }
    const isServed = async () => {
      using third = await connect();
      await third.send("GET / HTTP/1.0\r\n\r\n").catch(() => {});
      return /well$/.test(await third.end());
    };
    const deadlineMs = performance.now() + PATIENCE_MS;
    while (!await isServed()) {
      assert.ok(performance.now() < deadlineMs, "never served");
      await sleep(100);
    }
  });
});

/** Events that come when the test sends them. */
function eventSource() {
  const encoder = new TextEncoder();
  const cancelled = Promise.withResolvers<void>();
  const sources: ReadableStreamDefaultController<Uint8Array>[] = [];
  const handler: HttpHandler = ({ url }) => {
    if (!url.endsWith("/events")) return new Response("well");
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void sources.push(controller),
      cancel: () => cancelled.resolve(),
    });
    const headers = { "content-type": "text/event-stream" };
    return new Response(body, { headers });
  };
  const send = (text: string, n = 0) =>
    sources[n]?.enqueue(encoder.encode(text));
  return { handler, send, cancelled: cancelled.promise };
}

const GET_EVENTS = "GET /events HTTP/1.1\r\nHost: x\r\n\r\n";

Deno.test("HttpServer sends events when they come, longer than an answer may take", async () => {
  const { handler, send, cancelled } = eventSource();
  await withServer(handler, { answerMs: 50 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send(GET_EVENTS);
    const head = await peer.until(/\r\n\r\n$/);
    assert.doesNotMatch(head, /content-length/);
    assert.match(head, /\r\nconnection: close\r\n/);
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const text of ["data: 1\n\n", "data: 2\n\n"]) {
      send(text);
      assert.equal(await peer.until(/\n\n$/), text);
    }
    peer[Symbol.dispose]();
    await cancelled;
  });
});

Deno.test("HttpServer ends a stream of events without one for too long, and when it ends itself", async () => {
  const idle = eventSource();
  await withServer(idle.handler, { idleMs: 50 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send(GET_EVENTS);
    await peer.end();
    await idle.cancelled;
  });
  const { handler, cancelled } = eventSource();
  await withServer(handler, {}, async ({ connect, server }) => {
    using peer = await connect();
    await peer.send(GET_EVENTS);
    await peer.until(/\r\n\r\n$/);
    await server.stop();
    await cancelled;
  });
});

Deno.test("HttpServer ends a stream whose reader does not take it", async () => {
  const { handler, send, cancelled } = eventSource();
  await withServer(handler, { stallMs: 100 }, async ({ connect }) => {
    using peer = await connect();
    await peer.send(GET_EVENTS);
    await peer.until(/\r\n\r\n$/);
    send("x".repeat(32 << 20));
    await cancelled;
  });
});

Deno.test("HttpServer serves a peer's newest connection when streams take all of its room", async () => {
  const { handler, send } = eventSource();
  await withServer(handler, { maxPerPeer: 2 }, async ({ connect }) => {
    using first = await connect();
    using second = await connect();
    for (const peer of [first, second]) {
      await peer.send(GET_EVENTS);
      await peer.until(/\r\n\r\n$/);
    }
    using third = await connect();
    await third.send(GET);
    await third.until(/well$/);
    assert.equal(await first.end(), "");
    send("data: 2\n\n", 1);
    await second.until(/data: 2\n\n$/);
  });
});

Deno.test("HttpServer refuses what is too long, and says so", async () => {
  const limits = { maxHeadBytes: 200, maxBodyBytes: 10 };
  await withServer(ok, limits, async ({ connect }) => {
    using head = await connect();
    await head.send(`GET / HTTP/1.1\r\nX: ${"x".repeat(1_000)}`);
    assert.match(await head.end(), /^HTTP\/1\.1 431 /);
    using body = await connect();
    await body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n");
    assert.match(await body.end(), /^HTTP\/1\.1 413 /);
    using wrong = await connect();
    await wrong.send("nonsense\r\n\r\n");
    assert.match(await wrong.end(), /^HTTP\/1\.1 400 /);
  });
});

Deno.test("HttpServer keeps serving a peer's newest connection when it has too many", async () => {
  await withServer(ok, { maxPerPeer: 2 }, async ({ connect }) => {
    using first = await connect();
    using second = await connect();
    await second.send(GET);
    await second.until(/well$/);
    using third = await connect();
    await third.send(GET);
    await third.until(/well$/);
    assert.equal(await first.end(), "");
    await second.send(GET);
    await second.until(/well$/);
  });
});

Deno.test("HttpServer refuses connections of a peer above its rate, and logs that once", async () => {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  await withServer(ok, { perSecond: 1 }, async ({ connect }) => {
    const startMs = performance.now();
    let [served, refused] = [0, 0];
    for (let asked = 0; asked < 8 || refused === 0 && asked < 200; asked++) {
      using peer = await connect();
      await peer.send("GET / HTTP/1.0\r\n\r\n").catch(() => {});
      if (/200 OK/.test(await peer.end())) served++;
      else refused++;
    }
    assert.ok(refused > 0, `all of ${served} served`);
    // Two at once, and another for each second that a busy machine takes.
    const most = 2 + (performance.now() - startMs) / 1_000;
    assert.ok(served >= 1 && served <= most, `${served} served, not ${most}`);
  });
  const said = lines.filter((line) => /Refusing connections/.test(line));
  assert.equal(said.length, 1);
  assert.match(said[0] ?? "", /"peer":"127\.0\.0\.1"/);
});

Deno.test("HttpServer finishes an answer when it is told to end", async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: release, resolve: go } = Promise.withResolvers<void>();
  const slow: HttpHandler = async () => {
    ask();
    await release;
    return new Response("late");
  };
  await withServer(slow, {}, async ({ connect, server }) => {
    using peer = await connect();
    using idle = await connect();
    await peer.send(GET);
    await asked;
    const stopped = server.stop();
    assert.equal(await idle.end(), "");
    go();
    assert.match(await peer.end(), /connection: close\r\n\r\nlate$/);
    await stopped;
  });
});
