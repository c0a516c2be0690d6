import { Buffer } from "node:buffer";
import type { MethodDefinition } from "@grpc/grpc-js";

/** How a definition of grpc-js has messages that are encoded and decoded elsewhere. */
export const AS_BYTES: Pick<
  MethodDefinition<Uint8Array, Uint8Array>,
  | "requestSerialize"
  | "requestDeserialize"
  | "responseSerialize"
  | "responseDeserialize"
> = {
  requestSerialize: toBuffer,
  requestDeserialize: (bytes) => bytes,
  responseSerialize: toBuffer,
  responseDeserialize: (bytes) => bytes,
};

/** The same bytes as node: modules have them. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
