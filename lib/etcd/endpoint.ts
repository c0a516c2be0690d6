import type { RemoteEndpoint, TlsOptions } from "./call.ts";

const DEFAULT_PORT = 2379;

/**
 * Parses an endpoint in the forms that etcd's own clients take: `http://host:2379`, `https://host`, `host:2379`, which
 * means http.
 *
 * @throws {SyntaxError} when it is none, or has a path or credentials
 */
export function parseEndpoint(
  text: string,
  tls: TlsOptions = {},
): RemoteEndpoint {
  const bad = (why: string) =>
    new SyntaxError(`Cannot use etcd endpoint "${redact(text)}": ${why}`);
  const url = URL.parse(/^[a-z]+:\/\//i.test(text) ? text : `http://${text}`);
  if (url === null || url.hostname === "") {
    throw bad("needs the form http://HOST:PORT or https://HOST:PORT");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw bad("only http and https are known");
  }
  if (url.pathname !== "/" || url.search !== "" || text.includes("@")) {
    throw bad("it may have a host and a port only, and no credentials");
  }
  const isTls = url.protocol === "https:";
  return {
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: portOf(url, text),
    ...(isTls ? { tls } : {}),
  };
}

/** What stands before the last "@" may be a user with a password; both may have any character. */
function redact(text: string): string {
  return text.replace(/^([a-z]+:\/\/)?.*@/is, "$1***@");
}

/** URL leaves out the protocol's own port, which counts only if it was written. */
function portOf(url: URL, text: string): number {
  if (url.port !== "") return Number(url.port);
  const written = /:(80|443)\/?$/.exec(text)?.[1];
  return written === undefined ? DEFAULT_PORT : Number(written);
}
