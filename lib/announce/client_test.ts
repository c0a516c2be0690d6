import assert from "node:assert/strict";
import { Address } from "../inet/mod.ts";
import {
  ANNOUNCE_PATH,
  AnnounceClient,
  type AnnounceClientOptions,
  announceHandler,
  type Announcement,
  type AnnounceTokens,
  LOSSES_PATH,
  parseAnnouncement,
  parseLossReport,
  parseSourceReport,
  SOURCES_PATH,
} from "./mod.ts";

const LOCAL = Address.parse("127.0.0.1");
const POD = { namespace: "team", name: "client-0", uid: "8d2a" };
const ADDRESSES = [Address.parse("10.1.1.2"), Address.parse("fd01::2")];
const EGRESS = { namespace: "nat", name: "internet" };

/** A gateway, and the tokens that it is shown. */
class Bed implements AsyncDisposable {
  readonly port: number;
  readonly refused: string[] = [];
  readonly tokens: AnnounceTokens = {
    token: ({ name }, { signal }) => this.token(name, signal),
    refused: ({ name }, token) => this.refused.push(`${name} ${token}`),
  };
  token: (egress: string, signal: AbortSignal) => Promise<string | undefined> =
    (egress) => Promise.resolve(`for.${egress}`);
  readonly requests: { path: string; token: string; body: string }[] = [];
  answer: (request: Request) => Response | Promise<Response> = () =>
    new Response(null, { status: 204 });
  nowMs = 0;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #connections = new Set<string>();

  private constructor(hostname: string) {
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

  static start({ hostname = "127.0.0.1" } = {}): Promise<Bed> {
    return Promise.resolve(new Bed(hostname));
  }

  get connections(): number {
    return this.#connections.size;
  }

  client(options: Partial<AnnounceClientOptions> = {}): AnnounceClient {
    return new AnnounceClient({
      tokens: this.tokens,
      port: this.port,
      timeoutMs: 30_000,
      nowMs: () => this.nowMs,
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

async function tell(
  client: AnnounceClient,
  addresses: readonly Address[] = [LOCAL],
): Promise<string[]> {
  const outcomes = await client.announce({
    pod: POD,
    addresses: ADDRESSES,
    block: "default-3",
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
    takeSources: () => assert.fail("no report was sent"),
    takeLosses: () => assert.fail("taken for a report"),
    authenticate: (token) =>
      Promise.resolve(
        token === "for.internet" ? { username: "coild" } : undefined,
      ),
    admit: (announcement) => {
      told = announcement;
      return Promise.resolve({ status: 204 });
    },
  });
  bed.answer = (request) => handle(request, "192.0.2.1");
  assert.deepEqual(await tell(client), ["accepted"]);
  assert.deepEqual(told, {
    egress: EGRESS,
    pod: POD,
    addresses: ADDRESSES,
    block: "default-3",
  });
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

Deno.test("announce() shows each gateway the token of its own Egress", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  const names = ["internet", "dmz"];
  const outcomes = await client.announce({
    pod: POD,
    addresses: ADDRESSES,
    block: "default-3",
    targets: names.map((name) => ({
      egress: { namespace: "nat", name },
      address: LOCAL,
    })),
  });
  assert.deepEqual(outcomes.map(({ result }) => result), [
    "accepted",
    "accepted",
  ]);
  const shown = bed.requests.map(({ body, token }) =>
    `${JSON.parse(body).egress.name}: ${token}`
  );
  assert.deepEqual(shown.sort(), [
    "dmz: Bearer for.dmz",
    "internet: Bearer for.internet",
  ]);
});

Deno.test("announce() says which token a gateway refused with 401, and no other", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  for (const status of [403, 401]) {
    bed.answer = () => new Response(null, { status });
    await tell(client);
  }
  assert.deepEqual(bed.refused, ["internet for.internet"]);
});

Deno.test("announce() asks nobody without a token, and works once there is one", async () => {
  await using bed = await Bed.start();
  const { token } = bed;
  bed.token = () => Promise.resolve(undefined);
  using client = bed.client();
  assert.deepEqual(await tell(client), ["no-token"]);
  assert.equal(bed.requests.length, 0);
  bed.token = token;
  assert.deepEqual(await tell(client), ["accepted"]);
});

Deno.test("announce() does not take a gateway for deaf when the token comes late", async () => {
  await using bed = await Bed.start();
  const { token } = bed;
  bed.token = (_egress, signal) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason))
    );
  using client = bed.client({ timeoutMs: 50 });
  assert.deepEqual(await tell(client), ["no-token"]);
  bed.token = token;
  using patient = bed.client();
  assert.deepEqual(await tell(patient), ["accepted"]);
  assert.equal(bed.requests.length, 1);
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

Deno.test("announce() does not take a gateway for deaf when the caller gives up", async () => {
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
    pod: POD,
    addresses: ADDRESSES,
    block: "default-3",
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
    block: "default-3",
    targets: names.map((name) => ({
      egress: { namespace: "nat", name },
      address: LOCAL,
    })),
  });
  const told = bed.requests.map(({ body }) => parseAnnouncement(body));
  assert.deepEqual(told.map(({ egress }) => egress.name).sort(), names);
});

Deno.test("AnnounceClient reports lost gateways with the token of their Egress", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  const gateway = Address.parse("10.1.9.9");
  const { signal } = new AbortController();
  const outcome = await client.report({ egress: EGRESS, address: LOCAL }, {
    losses: [{ gateway, seconds: 3, ended: 12 }],
    suspects: [LOCAL],
    signal,
  });
  assert.equal(outcome.result, "accepted");
  const [sent] = bed.requests;
  assert.deepEqual([sent?.path, sent?.token], [
    LOSSES_PATH,
    "Bearer for.internet",
  ]);
  assert.deepEqual(parseLossReport(sent?.body ?? ""), {
    egress: EGRESS,
    losses: [{ gateway, seconds: 3, ended: 12 }],
    suspects: [LOCAL],
  });
});

Deno.test("AnnounceClient reports translated sources with the token of the gateway's Egress", async () => {
  await using bed = await Bed.start();
  using client = bed.client();
  const [source, seenAs, destination] = ["10.1.9.9", "192.0.2.1", "fd00::1"]
    .map(Address.parse) as [Address, Address, Address];
  const translated = [{ source, seenAs, destination }];
  const outcome = await client.reportSources(
    { egress: EGRESS, address: LOCAL },
    { translated, signal: new AbortController().signal },
  );
  assert.equal(outcome.result, "accepted");
  const [sent] = bed.requests;
  assert.deepEqual([sent?.path, sent?.token], [
    SOURCES_PATH,
    "Bearer for.internet",
  ]);
  assert.deepEqual(parseSourceReport(sent?.body ?? ""), {
    egress: EGRESS,
    translated,
  });
});
