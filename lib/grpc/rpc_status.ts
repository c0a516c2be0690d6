import { decodeText, ProtoWriter, readFields } from "./protobuf_wire.ts";

/** A detail of a status: google.protobuf.Any. */
export interface StatusDetail {
  /** `type.googleapis.com/<full message name>` */
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

/**
 * google.rpc.Status, which travels in the trailer `grpc-status-details-bin`:
 * `int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3`.
 */
export interface RpcStatus {
  readonly code: number;
  readonly message: string;
  readonly details: readonly StatusDetail[];
}

/** Encodes a google.rpc.Status. */
export function encodeRpcStatus(status: RpcStatus): Uint8Array {
  const writer = new ProtoWriter()
    .uint(1, status.code)
    .string(2, status.message);
  for (const { typeUrl, value } of status.details) {
    writer.message(
      3,
      new ProtoWriter().string(1, typeUrl).bytes(2, value).finish(),
    );
  }
  return writer.finish();
}

/**
 * Decodes a google.rpc.Status.
 *
 * @throws {SyntaxError} when the bytes are not one
 */
export function decodeRpcStatus(bytes: Uint8Array): RpcStatus {
  let [code, message] = [0, ""];
  const details: StatusDetail[] = [];
  for (const field of readFields(bytes)) {
    if (!("bytes" in field)) {
      if (field.field === 1) code = field.value;
    } else if (field.field === 2) message = decodeText(field.bytes);
    else if (field.field === 3) details.push(decodeDetail(field.bytes));
  }
  return { code, message, details };
}

function decodeDetail(bytes: Uint8Array): StatusDetail {
  let [typeUrl, value] = ["", new Uint8Array()];
  for (const field of readFields(bytes)) {
    if (!("bytes" in field)) continue;
    if (field.field === 1) typeUrl = decodeText(field.bytes);
    if (field.field === 2) value = new Uint8Array(field.bytes);
  }
  return { typeUrl, value };
}
