import type { HeaderField } from "../base/hpack.ts";
import { GrpcError, StatusCode } from "../base/status.ts";

/** Status in the header and trailer fields of an answer. */
export class ResponseStatus {
  readonly #http: string;
  readonly #fields: ReadonlyMap<string, string>;

  constructor(http: string, fields: ReadonlyMap<string, string>) {
    this.#http = http;
    this.#fields = fields;
  }

  /** The same answer with its trailers. */
  with(trailers: ReadonlyMap<string, string>): ResponseStatus {
    return new ResponseStatus(
      this.#http,
      new Map([...this.#fields, ...trailers]),
    );
  }

  /** @throws {GrpcError} unless the call has succeeded */
  throwUnlessOk(): void {
    const text = this.#fields.get("grpc-status");
    if (text === undefined) throw this.#notGrpc();
    if (text === "0") return;
    const code = /^\d{1,9}$/.test(text) ? Number(text) : StatusCode.UNKNOWN;
    const details = this.#fields.get("grpc-status-details-bin");
    throw new GrpcError(
      decodePercent(this.#fields.get("grpc-message") ?? ""),
      {
        code,
        statusDetails: details === undefined ? undefined : fromBase64(details),
      },
    );
  }

  #notGrpc(): GrpcError {
    const type = this.#fields.get("content-type") ?? "";
    return new GrpcError(
      `Answer is not of a gRPC server: HTTP status ${this.#http}, content type "${type}", no grpc-status`,
      { code: fromHttpStatus(this.#http) },
    );
  }
}

/**
 * Takes a decoded header block: the first of an answer, or, when `previous` is
 * there, its trailers. Undefined for an interim answer (1xx).
 */
export function parseResponseHeaders(
  fields: readonly HeaderField[],
  previous: ResponseStatus | undefined,
): ResponseStatus | undefined {
  const map = new Map(fields);
  if (previous !== undefined) return previous.with(map);
  const http = map.get(":status") ?? "";
  return http.startsWith("1") ? undefined : new ResponseStatus(http, map);
}

/** https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md */
function fromHttpStatus(status: string): number {
  switch (status) {
    case "400":
      return StatusCode.INTERNAL;
    case "401":
      return StatusCode.UNAUTHENTICATED;
    case "403":
      return StatusCode.PERMISSION_DENIED;
    case "404":
      return StatusCode.UNIMPLEMENTED;
    case "429":
    case "502":
    case "503":
    case "504":
      return StatusCode.UNAVAILABLE;
    default:
      return StatusCode.UNKNOWN;
  }
}

/** "gRPC over HTTP2", "HTTP2 Transport Mapping", Errors. */
export function fromHttp2Code(http2Code: number): GrpcError {
  const codes: Readonly<Record<number, number>> = {
    7: StatusCode.UNAVAILABLE, // REFUSED_STREAM
    8: StatusCode.CANCELLED, // CANCEL
    11: StatusCode.RESOURCE_EXHAUSTED, // ENHANCE_YOUR_CALM
    12: StatusCode.PERMISSION_DENIED, // INADEQUATE_SECURITY
  };
  return new GrpcError(`Stream reset, HTTP/2 error code ${http2Code}`, {
    code: codes[http2Code] ?? StatusCode.INTERNAL,
  });
}

/** `grpc-message`: UTF-8 with percent escapes; bad ones stay as they are. */
function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

/** Metadata whose name ends in `-bin`: base64, padded or not. */
function fromBase64(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.fromBase64(text);
  } catch (error) {
    // The status is worth more than its details.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
