import { encodeHeaders, type HeaderField } from "../base/hpack.ts";
import type { GrpcError } from "../base/status.ts";

/** More than any client takes would only lose the status as well. */
const MAX_MESSAGE_BYTES = 4 * 1024;
const MAX_DETAILS_BYTES = 24 * 1024;

const HEAD: readonly HeaderField[] = [
  [":status", "200"],
  ["content-type", "application/grpc"],
];

/** The header block before the first message of an answer. */
export const RESPONSE_HEAD: Uint8Array = encodeHeaders(HEAD);

const OK_TRAILERS = encodeHeaders([["grpc-status", "0"]]);

/** The header block that ends an answer. */
export function encodeTrailers(error: GrpcError | undefined): Uint8Array {
  if (error === undefined) return OK_TRAILERS;
  return encodeHeaders(statusFields(error));
}

/** An answer that is nothing but its status: "Trailers-Only". */
export function encodeTrailersOnly(
  error: GrpcError | undefined,
  httpStatus = 200,
): Uint8Array {
  const status: HeaderField[] = error === undefined
    ? [["grpc-status", "0"]]
    : statusFields(error);
  return encodeHeaders([
    [":status", String(httpStatus)],
    ...HEAD.slice(1),
    ...status,
  ]);
}

function statusFields(error: GrpcError): HeaderField[] {
  const { code, message, statusDetails } = error;
  const fields: HeaderField[] = [
    ["grpc-status", String(code)],
    ["grpc-message", encodePercent(message)],
  ];
  if (statusDetails && statusDetails.length <= MAX_DETAILS_BYTES) {
    const value = statusDetails.toBase64({ omitPadding: true });
    fields.push(["grpc-status-details-bin", value]);
  }
  return fields;
}

const encoder = new TextEncoder();

/** `grpc-message`: UTF-8, all that is not printable ASCII as %XX. */
function encodePercent(text: string): string {
  let encoded = "";
  for (const byte of encoder.encode(text).subarray(0, MAX_MESSAGE_BYTES)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}
