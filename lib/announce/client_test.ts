import assert from "node:assert/strict";
import { Address } from "../inet/mod.ts";
import {
  ANNOUNCE_PATH,
  AnnounceClient,
  type AnnounceClientOptions,
  announceHandler,
  type Announcement,
  parseAnnouncement,
} from "./mod.ts";

const LOCAL = Address.parse("127.0.0.1");
const POD = { namespace: "team", name: "client-0", uid: "8d2a" };
const ADDRESSES = [Address.parse("10.1.1.2"), Address.parse("fd01::2")];
const EGRESS = { namespace: "nat", name: "internet" };

/** A gateway, and a directory with a token. */
class Bed implements AsyncDisposable {
  readonly dir: string;
  readonly port: number;
  readonly tokenFile: string;
  readonly requests: { path: string; token: string; body: string }[] = [];
  answer: (request: Request) => Response | Promise<Response> = () =>
    new Response(null, { status: 204 });
  nowMs = 0;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #connections = new Set<string>();

  private constructor(dir: string, hostname: string) {
    this.dir = dir;
    this.tokenFile = `${dir}/token`;
    this.#server = Deno.serve(
      { port: 0, hostname, onListen: () => {} },
      async (request, { remoteAddr }) => {
        this.#connections.add(`${remoteAddr.port}`);
        this.requests.push({
          path: new URL(request.url).pathname,
          token: request.headers.get("authorization") ?? "",
          body: await request.clone().text(),
        });
        return await this.answer(request);
      },
    );
    this.port = this.#server.addr.port;
  }

  static async start({ token = "t1", hostname = "127.0.0.1" } = {}) {
    const bed = new Bed(await Deno.makeTempDir(), hostname);
    await Deno.writeTextFile(bed.tokenFile, `${token}\n`);
    return bed;
  }

  get connections(): number {
    return this.#connections.size;
  }

  client(options: Partial<AnnounceClientOptions> = {}): AnnounceClient {
    return new AnnounceClient({
      tokenFile: this.tokenFile,
      port: this.port,
      timeoutMs: 2_000,
      nowMs: () => this.nowMs,
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}

async function tell(
  client: AnnounceClient,
  addresses: readonly Address[] = [LOCAL],
): Promise<string[]> {
  const outcomes = await client.announce({
    pod: POD,
    addresses: ADDRESSES,
    targets: addresses.map((address) => ({ egress: EGRESS, address })),
  });
  return outcomes.map(({ result, reason }) =>
    reason === undefined ? result : `${result}: ${reason}`
  );
}

Deno.test("announce() is understood by the server's half", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  let told: Announcement | undefined;
  const handle = announceHandler({
    authenticate: (token) =>
      Promise.resolve(token === "t1" ? { username: "coild" } : undefined),
    admit: (announcement) => {
      told = announcement;
      return Promise.resolve({ status: 204 });
    },
  });
  bed.answer = handle;
  assert.deepEqual(await tell(client), ["accepted"]);
  assert.deepEqual(told, { egress: EGRESS, pod: POD, addresses: ADDRESSES });
  assert.equal(bed.requests[0]?.path, ANNOUNCE_PATH);
});

Deno.test("announce() keeps its connection", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  for (let i = 0; i < 5; i++) await tell(client);
  assert.equal(bed.requests.length, 5);
  assert.equal(bed.connections, 1);
});

Deno.test("announce() reaches gateways by IPv6", async () => {
  await using bed = await Bed.start({ hostname: "::1" });
  using client = bed.client();
  assert.deepEqual(await tell(client, [Address.parse("::1")]), ["accepted"]);
});

Deno.test("announce() tells the gateway's reason, the beginning of it", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  bed.answer = () => Response.json({ error: "draining" }, { status: 503 });
  assert.deepEqual(await tell(client), ["refused: 503 draining"]);
  const endless = () =>
    new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(4_096)),
    });
  bed.answer = () => new Response(endless(), { status: 500 });
  const [outcome] = await tell(client);
  assert.match(outcome ?? "", /^refused: 500 /);
});

Deno.test("announce() shows the token to nobody to whom it is redirected", async () => {
  await using bed = await Bed.start();
  await using other = await Bed.start();
  using client = bed.client();
  bed.answer = () =>
    Response.redirect(`http://127.0.0.1:${other.port}/v1/clients`, 307);
  const [outcome] = await tell(client);
  assert.match(outcome ?? "", /^refused: 307/);
  assert.equal(other.requests.length, 0);
});

Deno.test("announce() reads the token anew after a minute, and after a 401", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  const tokens = () => bed.requests.map(({ token }) => token.slice(7)).join();
  await tell(client);
  await Deno.writeTextFile(bed.tokenFile, "t2");
  await tell(client);
  bed.nowMs += 61_000;
  await tell(client);
  assert.equal(tokens(), "t1,t1,t2");
  await Deno.writeTextFile(bed.tokenFile, "t3");
  bed.answer = () => new Response(null, { status: 401 });
  await tell(client);
  await tell(client);
  assert.equal(tokens(), "t1,t1,t2,t2,t3");
});

Deno.test("announce() asks nobody without a token, and works once there is one", async () => {
  await using bed = await Bed.start();
  await Deno.remove(bed.tokenFile);
  using client = bed.client();
  assert.deepEqual(await tell(client), ["no-token"]);
  assert.equal(bed.requests.length, 0);
  await Deno.writeTextFile(bed.tokenFile, "t1");
  bed.nowMs += 61_000;
  assert.deepEqual(await tell(client), ["accepted"]);
});

Deno.test("announce() leaves a gateway alone for a while where nobody listens", async () => {
  await using bed = await Bed.start();
  const unused = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = unused.addr;
  unused.close();
  using client = bed.client({ port });
  const [first] = await tell(client);
  assert.match(first ?? "", /^failed: .*refused/i);
  assert.deepEqual(await tell(client), ["deaf"]);
  bed.nowMs += 11_000;
  assert.match((await tell(client))[0] ?? "", /^failed/);
});

const THREE = ["127.0.0.1", "127.0.0.1", "127.0.0.1"]
  .map((text) => Address.parse(text));

Deno.test("announce() asks all at once", async () => {
  await using bed = await Bed.start();
  const { promise: allAsked, resolve } = Promise.withResolvers<void>();
  bed.answer = async () => {
    if (bed.requests.length === THREE.length) resolve();
    await allAsked;
    return new Response(null, { status: 204 });
  };
  using client = bed.client();
  const outcomes = await tell(client, THREE);
  assert.deepEqual(outcomes, ["accepted", "accepted", "accepted"]);
});

Deno.test("announce() waits for a gateway that does not answer to the limit, and once for all pods of a while", async () => {
  await using bed = await Bed.start();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  bed.answer = async () => {
    await ended;
    return new Response(null, { status: 204 });
  };
  using client = bed.client({ timeoutMs: 1_000 });
  assert.deepEqual(await tell(client, THREE), ["late", "late", "late"]);
  assert.deepEqual(await tell(client), ["deaf"]);
  assert.equal(bed.requests.length, THREE.length);
  bed.nowMs += 11_000;
  end();
  assert.deepEqual(await tell(client), ["accepted"]);
});

Deno.test("announce() does not take a gateway for deaf when whoever asked gives up", async () => {
  await using bed = await Bed.start();
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  bed.answer = async () => {
    ask();
    await ended;
    return new Response(null, { status: 204 });
  };
  using client = bed.client();
  const stop = new AbortController();
  const outcomes = client.announce({
    ...{ pod: POD, addresses: ADDRESSES },
    targets: [{ egress: EGRESS, address: LOCAL }],
  }, { signal: stop.signal });
  await asked;
  stop.abort();
  assert.deepEqual((await outcomes).map(({ result }) => result), ["late"]);
  end();
  assert.deepEqual(await tell(client), ["accepted"]);
});

Deno.test("announce() sends one message for each Egress", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  const names = ["a", "b"];
  await client.announce({
    pod: POD,
    addresses: ADDRESSES,
    targets: names.map((name) => ({
      egress: { namespace: "nat", name },
      address: LOCAL,
    })),
  });
  const told = bed.requests.map(({ body }) => parseAnnouncement(body));
  assert.deepEqual(told.map(({ egress }) => egress.name).sort(), names);
});
