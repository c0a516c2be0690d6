import type { Transport } from "./transport.ts";

/** Of 127.0.0.1, until 2120, signed with its own key; nothing else ever had that key. */
export const SERVER_CERT: string = `
-----BEGIN CERTIFICATE-----
MIIBUzCB+aADAgECAgEBMAoGCCqGSM49BAMCMBExDzANBgNVBAMMBnNlcnZlcjAg
Fw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowETEPMA0GA1UEAwwGc2Vy
dmVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1nbF8zYUBiv4OTxvwUkANnPV
P1f44g4tzvpCLdVfRBIKNITMbwVs5XkZA23WfSmqs5UuLPUruOSN4n0KV2MbMqNA
MD4wDwYDVR0RBAgwBocEfwAAATAMBgNVHRMBAf8EAjAAMB0GA1UdDgQWBBRawNiQ
6NDY5cxntKMIVNg7q/WcuzAKBggqhkjOPQQDAgNJADBGAiEAzQkef+YeboU5bLXl
y7Rs+VdfL+mSoKOTvXtzPLhsiG4CIQCn5K09PFfaTHbweBoEocfeRqDl9Evfe3s+
byRMnhFhwA==
-----END CERTIFICATE-----
`;
/** The key of {@link SERVER_CERT}. */
export const SERVER_KEY: string = `
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgMbKFbUzjK+0SizsI
B3FFNq+kYxwKfNFsT9pVZh5seQ6hRANCAATWdsXzNhQGK/g5PG/BSQA2c9U/V/ji
Di3O+kIt1V9EEgo0hMxvBWzleRkDbdZ9KaqzlS4s9Su45I3ifQpXYxsy
-----END PRIVATE KEY-----
`;

/** A server at a port of the loopback. */
export interface MemoryServer extends AsyncDisposable {
  /** A file that leads there. */
  readonly kubeconfig: string;
}

/** Serves what a transport in memory answers over HTTPS, for programs that find their API server themselves. */
export async function serveTransport(
  transport: Pick<Transport, "stream">,
): Promise<MemoryServer> {
  const stop = new AbortController();
  const server = Deno.serve(
    {
      hostname: "127.0.0.1",
      port: 0,
      cert: SERVER_CERT,
      key: SERVER_KEY,
      onListen() {},
    },
    (request) => answerOf(transport, request, stop.signal),
  );
  const kubeconfig = await Deno.makeTempFile();
  await Deno.writeTextFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{
        name: "memory",
        cluster: {
          server: `https://127.0.0.1:${server.addr.port}`,
          "certificate-authority-data": btoa(SERVER_CERT),
        },
      }],
      // Without a user, client-node ignores the certificate.
      users: [{ name: "memory", user: { token: "memory" } }],
      contexts: [{
        name: "memory",
        context: { cluster: "memory", user: "memory" },
      }],
      "current-context": "memory",
    }),
  );
  return {
    kubeconfig,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await server.shutdown();
      await Deno.remove(kubeconfig);
    },
  };
}

async function answerOf(
  transport: Pick<Transport, "stream">,
  request: Request,
  signal: AbortSignal,
): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const { status, headers, chunks } = await transport.stream({
    method: request.method,
    path: `${pathname}${search}`,
    headers: Object.fromEntries(request.headers),
    ...(request.method !== "GET" && { body: await request.text() }),
    signal,
  }, { idleTimeoutMs: Infinity });
  return new Response(ReadableStream.from(untilEnd(chunks, signal)), {
    status,
    headers,
  });
}

/** A watch ends with the server, which is not a failure. */
async function* untilEnd(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (err) {
    if (!signal.aborted) throw err;
  }
}
