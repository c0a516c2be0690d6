import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { sleep } from "../../../lib/async/mod.ts";
import type { SignedRequest } from "./sigv4.ts";

/** A request, read whole. */
export interface Request extends SignedRequest {
  /** Address of the peer. */
  readonly from: string;
}

/** What becomes of a request. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Closes the connection without an answer, or in the middle of it. */
  readonly cut?: "all" | "half" | undefined;
  /** When to answer, if not at once, and how long after that. */
  readonly after?: Promise<void> | undefined;
  readonly lateMs?: number | undefined;
}

/** Where a server listens: a path of a socket, or an address with a port, where 0 means any. */
export type Place =
  | { readonly path: string }
  | { readonly host: string; readonly port: number };

const LONGEST_BODY = 100_000;

/** A server that answers each request by `answer`. */
export class HttpServer implements AsyncDisposable {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(
    place: Place,
    answer: (request: Request) => Answer | Promise<Answer>,
  ): Promise<HttpServer> {
    const server = createServer((incoming, response) => {
      const socket = incoming.socket;
      const respond = async () => {
        const given = await answer(await read(incoming));
        await given.after;
        if (given.lateMs) await sleep(given.lateMs);
        if (given.cut === "all") return void socket.destroy();
        const body = new TextEncoder().encode(given.body);
        response.writeHead(given.status, {
          ...given.headers,
          "content-type": given.type,
          "content-length": body.length,
        });
        if (given.cut === undefined) return void response.end(body);
        const half = body.slice(0, Math.ceil(body.length / 2));
        response.write(half, () => socket.destroy());
      };
      // Only a peer that has gone away makes this fail.
      respond().catch(() => void socket.destroy());
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(place, resolve);
    });
    return new HttpServer(server);
  }

  /** The port, of a server that listens on an address. */
  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

async function read(incoming: IncomingMessage): Promise<Request> {
  let body = "";
  for await (const chunk of incoming.setEncoding("utf8")) {
    body += chunk;
    if (body.length > LONGEST_BODY) throw new RangeError("Body is too long");
  }
  const [path = "/", query = ""] = (incoming.url ?? "/").split("?", 2);
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, [value].flat().join(","));
  }
  const from = incoming.socket.remoteAddress ?? "";
  return { method: incoming.method ?? "", path, query, headers, body, from };
}
