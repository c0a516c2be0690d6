/** RFC 9110, section 15: those that are answered here. */
const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  204: "No Content",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  411: "Length Required",
  413: "Content Too Large",
  417: "Expectation Failed",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
};

const encoder = new TextEncoder();

/** Encodes a response, head and body, for one write. */
export async function encodeAnswer(
  response: Response,
  options: { readonly isHead: boolean; readonly keepAlive: boolean },
): Promise<Uint8Array> {
  const body = new Uint8Array(await response.arrayBuffer());
  // RFC 9110, section 8.6: 204 has none.
  const head = encodeHead(response, [
    ...response.status === 204 ? [] : [`content-length: ${body.length}`],
    ...options.keepAlive ? [] : ["connection: close"],
  ]);
  if (options.isHead || body.length === 0) return head;
  const bytes = new Uint8Array(head.length + body.length);
  bytes.set(head);
  bytes.set(body, head.length);
  return bytes;
}

/** Whether the body is server-sent events, which may never end. */
export function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type") === "text/event-stream";
}

/** Encodes the head of a response whose body lasts as long as its connection (RFC 9112, section 6.3). */
export function encodeStreamHead(response: Response): Uint8Array {
  return encodeHead(response, ["connection: close"]);
}

function encodeHead(
  { status, headers }: Response,
  more: readonly string[],
): Uint8Array {
  const lines = [`HTTP/1.1 ${status} ${REASONS[status] ?? ""}`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  lines.push(`date: ${new Date().toUTCString()}`, ...more);
  return encoder.encode(lines.join("\r\n") + "\r\n\r\n");
}
