/**
 * The messages of `proto/cni.proto` that the CNI plugin sends and receives,
 * encoded by hand: loading a protobuf library would cost each call of the
 * plugin more than the call itself. The bytes are those of the generated code.
 *
 * @module
 */
import {
  decodeRpcStatus,
  decodeText,
  ProtoWriter,
  readFields,
} from "../../grpc/mod.ts";

/** pkg.cnirpc.CNIArgs */
export interface CniArgs {
  readonly containerId: string;
  readonly netns: string;
  readonly ifname: string;
  readonly args: Readonly<Record<string, string>>;
  readonly path: string;
  readonly stdinData: Uint8Array;
  readonly ips: readonly string[];
  readonly interfaces: Readonly<Record<string, boolean>>;
  readonly validAttachments: readonly {
    readonly containerId: string;
    readonly ifname: string;
  }[];
}

/** pkg.cnirpc.CNIError */
export interface CniErrorDetail {
  readonly code: number;
  readonly msg: string;
  readonly details: string;
}

/** The methods of pkg.cnirpc.CNI. */
export type MethodName = "Add" | "Del" | "Check" | "Gc" | "Status";

/** The full name of a method: `/pkg.cnirpc.CNI/Add`. */
export function methodPath(name: MethodName): string {
  return `/pkg.cnirpc.CNI/${name}`;
}

/** Where a google.protobuf.Any says that it holds a pkg.cnirpc.CNIError. */
export const CNI_ERROR_TYPE_URL = "type.googleapis.com/pkg.cnirpc.CNIError";

const encoder = new TextEncoder();

/** Encodes a pkg.cnirpc.CNIArgs. */
export function encodeCniArgs(args: CniArgs): Uint8Array {
  const writer = new ProtoWriter()
    .string(1, args.containerId)
    .string(2, args.netns)
    .string(3, args.ifname);
  for (const [key, value] of Object.entries(args.args)) {
    // The key and the value of a map entry are written even when empty.
    const entry = new ProtoWriter()
      .message(1, encoder.encode(key))
      .message(2, encoder.encode(value));
    writer.message(4, entry.finish());
  }
  writer.string(5, args.path).bytes(6, args.stdinData);
  for (const ip of args.ips) writer.message(7, encoder.encode(ip));
  for (const [key, value] of Object.entries(args.interfaces)) {
    const entry = new ProtoWriter()
      .message(1, encoder.encode(key))
      .bool(2, value);
    writer.message(8, entry.finish());
  }
  for (const { containerId, ifname } of args.validAttachments) {
    const entry = new ProtoWriter().string(1, containerId).string(2, ifname);
    writer.message(9, entry.finish());
  }
  return writer.finish();
}

/** Encodes a pkg.cnirpc.CNIError. */
export function encodeCniError(error: CniErrorDetail): Uint8Array {
  const { code, msg, details } = error;
  return new ProtoWriter().uint(1, code).string(2, msg).string(3, details)
    .finish();
}

/**
 * Decodes a pkg.cnirpc.AddResponse to the CNI result's JSON.
 *
 * @throws {SyntaxError} when the bytes are not one
 */
export function decodeAddResponse(bytes: Uint8Array): string {
  let result = "";
  for (const field of readFields(bytes)) {
    if ("bytes" in field && field.field === 1) result = decodeText(field.bytes);
  }
  return result;
}

/**
 * The pkg.cnirpc.CNIError in an encoded google.rpc.Status; undefined unless
 * that is its only detail.
 *
 * @throws {SyntaxError} when the bytes are not a google.rpc.Status
 */
export function decodeCniError(
  statusDetails: Uint8Array,
): CniErrorDetail | undefined {
  const { details } = decodeRpcStatus(statusDetails);
  const [detail] = details;
  if (detail === undefined || details.length !== 1) return undefined;
  // Only what follows the last slash counts: google/protobuf/any.proto.
  if (!detail.typeUrl.endsWith("/pkg.cnirpc.CNIError")) return undefined;
  let error = { code: 0, msg: "", details: "" };
  for (const field of readFields(detail.value)) {
    if (!("bytes" in field)) {
      if (field.field === 1) error = { ...error, code: field.value };
    } else if (field.field === 2) {
      error = { ...error, msg: decodeText(field.bytes) };
    } else if (field.field === 3) {
      error = { ...error, details: decodeText(field.bytes) };
    }
  }
  return error;
}
