import assert from "node:assert/strict";
import { Connections, type ConnectionsOptions } from "./connections.ts";

/** Somebody who listens at a socket, and bounds who connects. */
class Site implements AsyncDisposable {
  readonly connections: Connections;
  readonly #directory = Deno.makeTempDirSync();
  readonly #path = `${this.#directory}/s`;
  readonly #listener = Deno.listen({ transport: "unix", path: this.#path });
  readonly #clients: Deno.UnixConn[] = [];

  constructor(options: Partial<ConnectionsOptions> = {}) {
    this.connections = new Connections({ requestBytes: 1000, ...options });
  }

  /** Connects; both ends, undefined where the server wants no more. */
  async connect() {
    const accepted = this.#listener.accept();
    const client = await Deno.connect({ transport: "unix", path: this.#path });
    this.#clients.push(client);
    const server = this.connections.add(await accepted);
    return { client, server };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.connections.close(0);
    for (const client of this.#clients) client.close();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

async function ended(client: Deno.UnixConn): Promise<boolean> {
  return await client.read(new Uint8Array(1)).catch(() => null) === null;
}

Deno.test("a connection that says nothing is closed", async () => {
  await using site = new Site({ maxStallMs: 20, sweepMs: 10 });
  const { client } = await site.connect();
  assert.ok(await ended(client));
});

Deno.test("a connection without a call is closed", async () => {
  await using site = new Site({ maxQuietMs: 20, sweepMs: 10 });
  const { client, server } = await site.connect();
  server?.resume();
  await client.write(Uint8Array.from([...new Uint8Array(24), ...SETTINGS]));
  assert.ok(await ended(client));
});

Deno.test("a peer that does not read is let go", async () => {
  await using site = new Site({ maxStallMs: 500, sweepMs: 10 });
  const { client, server } = await site.connect();
  assert.ok(server);
  server.resume();
  await client.write(Uint8Array.from([...new Uint8Array(24), ...SETTINGS]));
  await new Promise<void>((resolve) => {
    const look = () => server.isEstablished ? resolve() : setTimeout(look, 1);
    look();
  });
  const closed = new Promise((resolve) => server.once("close", resolve));
  server.on("error", () => {});
  server.write(new Uint8Array(10_000_000));
  await closed;
});

Deno.test("a peer that does not read is not read from", async () => {
  await using site = new Site();
  const { client, server } = await site.connect();
  assert.ok(server);
  server.on("error", () => {});
  server.write(new Uint8Array(10_000_000));
  let read = 0;
  server.on("data", (bytes: Uint8Array) => read += bytes.length);
  await client.write(new Uint8Array(24));
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(read, 0);
  // Now it reads.
  const drain = new Promise((resolve) => server.once("drain", resolve));
  const buffer = new Uint8Array(1_000_000);
  for (let rest = 10_000_000; rest > 0;) rest -= await client.read(buffer) ?? 0;
  await drain;
  await new Promise<void>((resolve) => {
    const look = () => read === 24 ? resolve() : setTimeout(look, 5);
    look();
  });
});

Deno.test("beyond 1,024 connections the quietest is closed for the next", async () => {
  await using site = new Site();
  const first = await site.connect();
  for (let i = 1; i < 1024; i++) await site.connect();
  assert.equal(first.server?.destroyed, false);
  const last = await site.connect();
  assert.ok(last.server && !last.server.destroyed);
  assert.ok(await ended(first.client));
});

const SETTINGS = Uint8Array.of(0, 0, 0, 4, 0, 0, 0, 0, 0);
