import assert from "node:assert/strict";
import { KubeClient } from "../client/client.ts";
import { KubeUnreachableError } from "./errors.ts";
import { HttpTransport } from "./http_transport.ts";
import { InClusterSource } from "./in_cluster.ts";
import { NODES } from "../api/resource.ts";
import { SERVER_CERT, SERVER_KEY } from "./testing.ts";

/** Did not sign the server's. */
const OTHER_CERT = `
-----BEGIN CERTIFICATE-----
MIIBUDCB96ADAgECAgEBMAoGCCqGSM49BAMCMBAxDjAMBgNVBAMMBW90aGVyMCAX
DTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAQMQ4wDAYDVQQDDAVvdGhl
cjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABE+dqvtXSxyzGGB19eQUDyndcvEX
h3mcn+uIEwii03JvQje7o2lyMNZShBRaw0WsFjNEy6QfFUPr+Wdc8Gt+BFyjQDA+
MA8GA1UdEQQIMAaHBH8AAAEwDAYDVR0TAQH/BAIwADAdBgNVHQ4EFgQUneXJeqQz
F2sDw0p+KKh+1FZZuCUwCgYIKoZIzj0EAwIDSAAwRQIgV2CHrxNfIVgRLpbyVYEB
YwVOkkD6gdUgxCP6ch9hsjcCIQDMgVp4VTsqbZi6I6/Kra+kR7CeQ+YQDOHHMfG6
7W+kGg==
-----END CERTIFICATE-----
`;

/** An API server that takes one token at a time, and a pod's files. */
class Bed implements AsyncDisposable {
  readonly transport: HttpTransport;
  /** The tokens of all requests that came through. */
  readonly seen: string[] = [];
  /** The token that is good. */
  token = "first";
  readonly #dir: string;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(dir: string) {
    this.#dir = dir;
    this.#server = Deno.serve({
      port: 0,
      hostname: "127.0.0.1",
      cert: SERVER_CERT,
      key: SERVER_KEY,
      onListen() {},
    }, (request) => this.#answer(request));
    const env = new Map([
      ["KUBERNETES_SERVICE_HOST", "127.0.0.1"],
      ["KUBERNETES_SERVICE_PORT", `${this.#server.addr.port}`],
    ]);
    // No minute ever passes: files are read again only by anyone who wants it.
    const source = new InClusterSource({ dir, env, now: () => 0 });
    this.transport = new HttpTransport(source);
  }

  static async start(ca: string): Promise<Bed> {
    const dir = await Deno.makeTempDir();
    await Deno.writeTextFile(`${dir}/token`, "first");
    await Deno.writeTextFile(`${dir}/ca.crt`, ca);
    return new Bed(dir);
  }

  async write(file: "token" | "ca.crt", text: string): Promise<void> {
    await Deno.writeTextFile(`${this.#dir}/${file}`, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.transport.close();
    await this.#server.shutdown();
    await Deno.remove(this.#dir, { recursive: true });
  }

  #answer({ headers }: Request): Response {
    const [, token = ""] = headers.get("authorization")?.split(" ") ?? [];
    this.seen.push(token);
    if (token === this.token) {
      return Response.json({ metadata: { name: "n" } });
    }
    const status = { kind: "Status", code: 401, reason: "Unauthorized" };
    return Response.json(status, { status: 401 });
  }
}

const REQUEST = { method: "GET", path: "/version", headers: {} };

Deno.test("a request that is answered 401 is repeated with the token that is in the file by then", async () => {
  await using bed = await Bed.start(SERVER_CERT);
  using client = new KubeClient(bed.transport);
  await client.get(NODES, { name: "n" });
  await bed.write("token", "second");
  // What is known is good: nobody looks.
  await client.get(NODES, { name: "n" });
  bed.token = "second";
  const node = await client.get(NODES, { name: "n" });
  assert.equal(node.metadata?.name, "n");
  await client.get(NODES, { name: "n" });
  assert.deepEqual(bed.seen, ["first", "first", "first", "second", "second"]);
});

for (
  const [method, send] of [
    ["request", async (transport: HttpTransport) => {
      const { status } = await transport.request(REQUEST, {
        timeoutMs: 30_000,
      });
      return status;
    }],
    ["stream", async (transport: HttpTransport) => {
      const { status, chunks } = await transport.stream(REQUEST, {
        idleTimeoutMs: 30_000,
      });
      for await (const _ of chunks);
      return status;
    }],
  ] as const
) {
  Deno.test(`${method}() to a server that is not trusted has the next one read the authority again`, async () => {
    await using bed = await Bed.start(OTHER_CERT);
    const untrusted = (error: unknown) =>
      error instanceof KubeUnreachableError &&
      /UnknownIssuer/.test(error.message);
    await assert.rejects(send(bed.transport), untrusted);
    await assert.rejects(send(bed.transport), untrusted);
    await bed.write("ca.crt", SERVER_CERT);
    assert.equal(await send(bed.transport), 200);
    assert.deepEqual(bed.seen, ["first"]);
  });
}
