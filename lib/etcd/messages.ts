// The messages of etcd's API v3 that reading needs, as far as it needs them:
// api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto of etcd-io/etcd.
import {
  decodeText,
  type ProtoField,
  ProtoWriter,
  readFields,
} from "../grpc/remote/mod.ts";

/** What is asked of `etcdserverpb.KV/Range`. */
export interface RangeRequest {
  /** First key. */
  readonly key: Uint8Array;
  /** The key after the last one; without it, `key` alone. */
  readonly rangeEnd?: Uint8Array;
  /** The most entries to answer with; 0 for all. */
  readonly limit: number;
  /** State to read; 0 for the newest. */
  readonly revision: number;
  readonly keysOnly?: boolean;
}

/** A key and its value. */
export interface KeyValue {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** The answer of `etcdserverpb.KV/Range`. */
export interface RangeResponse {
  /** Of the store when the answer was made, also when an older one was asked for. */
  readonly revision: number;
  readonly entries: readonly KeyValue[];
  /** Whether the limit has cut off entries. */
  readonly more: boolean;
}

const NOTHING = new Uint8Array();

/** Encodes a RangeRequest. */
export function encodeRangeRequest(request: RangeRequest): Uint8Array {
  const { key, rangeEnd = NOTHING, limit, revision, keysOnly } = request;
  const writer = new ProtoWriter().bytes(1, key).bytes(2, rangeEnd)
    .uint(3, limit).uint(4, revision);
  if (keysOnly) writer.bool(8, true);
  return writer.finish();
}

/** Decodes a RangeResponse. @throws {SyntaxError} when it is none. */
export function decodeRangeResponse(bytes: Uint8Array): RangeResponse {
  let [revision, more] = [0, false];
  const entries: KeyValue[] = [];
  for (const part of readFields(bytes)) {
    if (part.field === 1) revision = numberIn(bytesOf(part), 3);
    else if (part.field === 2) entries.push(keyValueOf(bytesOf(part)));
    else if (part.field === 3) more = valueOf(part) !== 0;
  }
  return { revision, entries, more };
}

/** Encodes an AuthenticateRequest. */
export function encodeAuthenticateRequest(
  user: { readonly name: string; readonly password: string },
): Uint8Array {
  return new ProtoWriter().string(1, user.name).string(2, user.password)
    .finish();
}

/** The token of an AuthenticateResponse. @throws {SyntaxError} when it is none. */
export function decodeToken(bytes: Uint8Array): string {
  for (const part of readFields(bytes)) {
    if (part.field === 2) return decodeText(bytesOf(part));
  }
  throw new SyntaxError("Cannot read etcd's answer: it has no token");
}

function keyValueOf(bytes: Uint8Array): KeyValue {
  let [key, value] = [NOTHING, NOTHING];
  for (const part of readFields(bytes)) {
    if (part.field === 1) key = bytesOf(part);
    else if (part.field === 5) value = bytesOf(part);
  }
  return { key, value };
}

/** A number of a message; 0, which is not sent, when it is absent. */
function numberIn(bytes: Uint8Array, field: number): number {
  for (const part of readFields(bytes)) {
    if (part.field === field) return valueOf(part);
  }
  return 0;
}

function bytesOf(part: ProtoField): Uint8Array<ArrayBuffer> {
  if ("bytes" in part) return new Uint8Array(part.bytes);
  throw new SyntaxError(
    `Cannot read etcd's answer: field ${part.field} is a number`,
  );
}

function valueOf(part: ProtoField): number {
  if ("value" in part) return part.value;
  throw new SyntaxError(
    `Cannot read etcd's answer: field ${part.field} is no number`,
  );
}
