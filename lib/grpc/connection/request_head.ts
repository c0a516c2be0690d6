import type { HeaderField } from "../base/hpack.ts";
import { GrpcError, StatusCode } from "../base/status.ts";

/** Parsed header of a request. */
export interface CallHead {
  /** `/package.Service/Method` */
  readonly path: string;
  /** Undefined when the caller would wait for ever. */
  readonly timeoutMs: number | undefined;
}

/** A request that is not a gRPC call: its HTTP status, and the gRPC one. */
export class RefusedRequest extends Error {
  override readonly name = "RefusedRequest";
  readonly httpStatus: number;
  readonly status: GrpcError;

  constructor(httpStatus: number, status: GrpcError) {
    super(status.message);
    this.httpStatus = httpStatus;
    this.status = status;
  }
}

/** A request that HTTP/2 does not allow: RFC 9113, section 8.1.1. */
export class MalformedRequest extends Error {
  override readonly name = "MalformedRequest";
}

/** What a header may hold; each field counts 32 beyond its text. */
export const MAX_HEADER_LIST_SIZE: number = 32 * 1024;

const PSEUDO: ReadonlySet<string> = new Set([
  ":method",
  ":scheme",
  ":path",
  ":authority",
]);

/** RFC 9113, section 8.2.2. */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Reads the header of a request. Sources: RFC 9113, section 8.3.1; "gRPC over
 * HTTP2", "Requests".
 *
 * @throws {MalformedRequest} when HTTP/2 does not allow it
 * @throws {RefusedRequest} when it is not a gRPC call
 */
export function parseRequestHead(fields: readonly HeaderField[]): CallHead {
  const map = checkedFields(fields);
  const path = map.get(":path");
  const method = map.get(":method");
  if (!path || !method || !map.get(":scheme")) {
    throw new MalformedRequest("pseudo-header field missing");
  }
  if (method !== "POST") {
    throw refusal(405, StatusCode.INTERNAL, `HTTP method ${method}, not POST`);
  }
  const type = map.get("content-type") ?? "";
  if (!/^application\/grpc(\+proto)?($|;)/i.test(type)) {
    const message = `Content type "${type}" is not application/grpc`;
    throw refusal(415, StatusCode.UNKNOWN, message);
  }
  return { path, timeoutMs: parseTimeout(map.get("grpc-timeout")) };
}

function checkedFields(fields: readonly HeaderField[]): Map<string, string> {
  const map = new Map<string, string>();
  let size = 0;
  let isPseudoOver = false;
  for (const [name, value] of fields) {
    size += name.length + value.length + 32;
    if (name.startsWith(":")) {
      if (isPseudoOver || !PSEUDO.has(name) || map.has(name)) {
        throw new MalformedRequest(`pseudo-header field ${name}`);
      }
    } else {
      isPseudoOver = true;
      checkName(name, value);
    }
    map.set(name, value);
  }
  if (size > MAX_HEADER_LIST_SIZE) {
    throw refusal(431, StatusCode.RESOURCE_EXHAUSTED, "Header too large");
  }
  return map;
}

function checkName(name: string, value: string): void {
  const isForbidden = name === "" || /[A-Z]/.test(name) ||
    CONNECTION_FIELDS.has(name) || (name === "te" && value !== "trailers");
  if (isForbidden) throw new MalformedRequest(`header field ${name}`);
}

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

function parseTimeout(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const unit = UNIT_MS[text.at(-1) ?? ""];
  const digits = text.slice(0, -1);
  if (unit === undefined || !/^\d{1,8}$/.test(digits)) {
    throw refusal(200, StatusCode.INTERNAL, `Cannot parse timeout "${text}"`);
  }
  return Number(digits) * unit;
}

function refusal(http: number, code: number, message: string): RefusedRequest {
  return new RefusedRequest(http, new GrpcError(message, { code }));
}
