/** The most header fields of a request. */
const MAX_FIELDS = 100;

/** What the Fetch API's Request takes; it refuses CONNECT and TRACE. */
const METHODS: ReadonlySet<string> = new Set(
  ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
);

/** RFC 9110, section 5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/**
 * RFC 9112, section 3: printable ASCII in origin form, or in absolute form,
 * which a server has to accept; clients with a fixed peer may send it.
 */
const REQUEST_LINE =
  /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (?:http:\/\/[-.:[\]0-9A-Za-z]{1,255})?(\/[\x21-\x7e]*) HTTP\/1\.([01])$/;
/** RFC 9110, section 5.5, without obs-text. */
const FIELD_VALUE = /^[\t\x20-\x7e]*$/;

/** Head of a request. */
export interface RequestHead {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Headers;
  /** Bytes of the body. */
  readonly contentLength: number;
  /** Whether another request may follow on the connection. */
  readonly keepAlive: boolean;
}

/** A request that is not served, with the status to answer. */
export class BadRequestError extends Error {
  override readonly name = "BadRequestError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Parses the head of an HTTP/1.1 request, without the empty line at its end. Strict where RFC 9112 lets a server be:
 * no bare LF, no folded lines, no chunked bodies, one Host, one Content-Length.
 *
 * @throws {BadRequestError} when it is not served
 */
export function parseRequestHead(text: string): RequestHead {
  const [line = "", ...fields] = text.split("\r\n");
  const match = REQUEST_LINE.exec(line);
  if (match === null) throw new BadRequestError(400, "malformed request line");
  const [, method = "", target = "", minor] = match;
  if (!METHODS.has(method)) {
    throw new BadRequestError(501, "method not implemented");
  }
  if (!URL.canParse(`http://localhost${target}`)) {
    throw new BadRequestError(400, "malformed request target");
  }
  const headers = parseFields(fields);
  const isHttp11 = minor === "1";
  if (isHttp11 && !headers.has("host")) {
    throw new BadRequestError(400, "missing Host");
  }
  const options = (headers.get("connection") ?? "").toLowerCase().split(
    /[ ,\t]+/,
  );
  return {
    method,
    target,
    headers,
    contentLength: contentLengthOf(headers),
    keepAlive: isHttp11 && !options.includes("close"),
  };
}

function parseFields(lines: readonly string[]): Headers {
  if (lines.length > MAX_FIELDS) {
    throw new BadRequestError(431, "too many header fields");
  }
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    const value = line.slice(colon + 1).trim();
    if (!TOKEN.test(name) || !FIELD_VALUE.test(value)) {
      throw new BadRequestError(400, "malformed header field");
    }
    const isSingle = name === "host" || name === "content-length";
    if (isSingle && headers.has(name)) {
      throw new BadRequestError(400, `more than one ${name}`);
    }
    headers.append(name, value);
  }
  return headers;
}

function contentLengthOf(headers: Headers): number {
  if (headers.has("transfer-encoding")) {
    throw new BadRequestError(411, "a body needs a Content-Length");
  }
  if (headers.has("expect")) {
    throw new BadRequestError(417, "no expectation is met");
  }
  const text = headers.get("content-length");
  if (text === null) return 0;
  if (!/^[0-9]{1,15}$/.test(text)) {
    throw new BadRequestError(400, "malformed Content-Length");
  }
  return Number(text);
}
