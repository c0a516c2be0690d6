/** What runtimes, tenants, gateways and daemons send: calls, configurations, annotations, objects, announcements. */
import { isJsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import {
  type AddressBlock,
  type AddressPool,
  blockPrefixes,
  parseDestinations,
  parseEgressAnnotations,
  poolCapacity,
  tryBlockOf,
  tryPoolOf,
} from "../../lib/api/mod.ts";
import {
  formatAnnouncement,
  formatSourceReport,
  parseAnnouncement,
  parseRefusal,
  parseSourceReport,
} from "../../lib/announce/wire.ts";
import {
  CniError,
  convertResult,
  parseArgs,
  parseConfig,
  parseEnv,
  parseResult,
} from "../../lib/cni/mod.ts";
import {
  decodeAnswer,
  decodeRequest,
  requestSize,
} from "../../lib/cnirpc/plugin/mod.ts";
import { HpackDecoder } from "../../lib/grpc/base/hpack.ts";
import { FrameReader, Http2Error } from "../../lib/grpc/base/http2_frames.ts";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import { EGRESS_ANNOTATION_PREFIX } from "../../lib/names/mod.ts";
import { formatAlias, parseAlias } from "../../lib/podnet/base/alias.ts";
import { LinkNameError } from "../../lib/podnet/base/errors.ts";
import { readIdentity } from "../../roles/coil_egress/base/identity.ts";
import type { Input, Target } from "./fuzzer.ts";

const isCniError = (error: unknown) => error instanceof CniError;

/** A plugin's request as one datagram: whole, or refused by its first bytes. */
function readPluginRequest({ bytes }: Input): void {
  const size = requestSize(bytes);
  if (size === undefined || size > bytes.length) return;
  const { env, stdin } = decodeRequest(bytes.subarray(0, size));
  assert.ok(env.size <= size && stdin.length <= size);
}

/** Variables, one a line. */
function readEnv({ text }: Input): void {
  const values = new Map(
    text.split("\n").map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }),
  );
  const { args } = parseEnv((name) => values.get(name));
  parseArgs(args, ["K8S_POD_NAME"]);
}

function readConfig({ text }: Input): void {
  const { prevResult } = parseConfig(text);
  if (prevResult !== undefined) convertResult(prevResult, "0.4.0");
  parseConfig(text, { lenient: true });
}

/** A result that was read and written is read as the same. */
function readResult({ text }: Input): void {
  const result = parseResult(JSON.parse(text));
  const again = parseResult(
    JSON.parse(JSON.stringify(convertResult(result, "1.1.0"))),
  );
  assert.deepEqual(
    JSON.stringify(convertResult(again, "1.1.0")),
    JSON.stringify(convertResult(result, "1.1.0")),
  );
}

/** A report that was read and written is read as the same. */
function readSourceReport({ text }: Input): void {
  const report = parseSourceReport(text);
  assert.deepEqual(parseSourceReport(formatSourceReport(report)), report);
}

function readAnnouncement({ text }: Input): void {
  parseRefusal(text);
  const announcement = parseAnnouncement(text);
  const again = parseAnnouncement(formatAnnouncement(announcement));
  assert.deepEqual(
    formatAnnouncement(again),
    formatAnnouncement(announcement),
  );
}

function readAnnotations({ text }: Input): void {
  const value: unknown = JSON.parse(text);
  const given = typeof value === "object" && value !== null
    ? Object.entries(value)
    : [];
  // The API server takes texts only.
  const annotations = Object.fromEntries(
    given.map((
      [key, item],
    ) => [`${EGRESS_ANNOTATION_PREFIX}${key}`, `${item}`]),
  );
  for (const { namespace, names } of parseEgressAnnotations(annotations)) {
    assert.ok(namespace !== "" && names.length > 0);
  }
}

/** Objects of the shape that the schemas ask for, with any texts and numbers in it. */
function readObjects({ text }: Input): void {
  const value: unknown = JSON.parse(text);
  if (isPool(value)) {
    const pool = tryPoolOf(value);
    if (pool === undefined) return;
    const capacity = poolCapacity(pool);
    for (const index of [0, capacity - 1, capacity, 2 ** 31 - 1]) {
      const prefixes: unknown = index < 0
        ? undefined
        : blockPrefixes(pool, index);
      assert.equal(prefixes !== undefined, index >= 0 && index < capacity);
    }
  }
  if (isBlock(value)) tryBlockOf(value);
  if (isDestinations(value)) parseDestinations(value);
}

const isText = (value: unknown) => typeof value === "string";
const isOptional = (value: unknown) => value === undefined || isText(value);

function isPool(value: unknown): value is AddressPool {
  if (!isJsonObject(value) || !isMetadata(value["metadata"])) return false;
  const { spec } = value;
  if (!isJsonObject(spec) || !Array.isArray(spec["subnets"])) return false;
  const bits = spec["blockSizeBits"];
  return (bits === undefined || (Number.isInteger(bits) && Number(bits) >= 0 &&
    Number(bits) <= 120)) &&
    spec["subnets"].length > 0 &&
    spec["subnets"].every((subnet: unknown) =>
      isJsonObject(subnet) && isOptional(subnet["ipv4"]) &&
      isOptional(subnet["ipv6"])
    );
}

function isBlock(value: unknown): value is AddressBlock {
  return isJsonObject(value) && isMetadata(value["metadata"]) &&
    Number.isInteger(value["index"]) && isOptional(value["ipv4"]) &&
    isOptional(value["ipv6"]);
}

function isMetadata(value: unknown): boolean {
  if (!isJsonObject(value) || !isText(value["name"])) return false;
  const { labels } = value;
  return labels === undefined ||
    (isJsonObject(labels) && Object.values(labels).every(isText));
}

function isDestinations(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText);
}

/** An address and a prefix that were read are written as what is read as the same. */
function readAddress({ text }: Input): void {
  const address = Address.tryParse(text);
  if (address !== undefined) {
    assert.ok(Address.parse(`${address}`).equals(address));
  }
  const prefix = Prefix.tryParse(text);
  if (prefix !== undefined) {
    assert.ok(Prefix.parse(`${prefix}`).equals(prefix));
  }
}

function readAlias({ text }: Input): void {
  const alias = parseAlias(text);
  if (alias.kind !== "pod") return;
  let again: string;
  try {
    again = formatAlias(alias.identity);
  } catch (error) {
    // An alias of somebody else's that looks like ours.
    if (error instanceof LinkNameError) return;
    throw error;
  }
  assert.equal(again, text);
}

/** By what they are for. */
export const CALL_TARGETS: readonly Target[] = [
  { name: "plugin-request", kind: "bytes", run: readPluginRequest },
  { name: "cni-environment", kind: "text", mayThrow: isCniError, run: readEnv },
  { name: "cni-config", kind: "json", mayThrow: isCniError, run: readConfig },
  {
    name: "cni-result",
    kind: "json",
    mayThrow: (error) => error instanceof SyntaxError || isCniError(error),
    run: readResult,
  },
  { name: "announcement", kind: "json", run: readAnnouncement },
  { name: "source-report", kind: "json", run: readSourceReport },
  { name: "annotations", kind: "json", run: readAnnotations },
  { name: "objects", kind: "json", run: readObjects },
  { name: "address", kind: "text", mayThrow: () => false, run: readAddress },
  { name: "alias", kind: "text", mayThrow: () => false, run: readAlias },
  {
    name: "identity",
    kind: "text",
    mayThrow: (error) =>
      error instanceof Error && error.message.startsWith("Cannot start: "),
    run({ text }) {
      readIdentity({ get: () => text });
    },
  },
  {
    name: "plugin-answer",
    kind: "bytes",
    run({ bytes }) {
      decodeAnswer(bytes);
    },
  },
  {
    name: "http2",
    kind: "bytes",
    mayThrow: (error) =>
      error instanceof SyntaxError || error instanceof Http2Error,
    run({ bytes }) {
      const decoder = new HpackDecoder();
      for (const { payload } of new FrameReader().frames(bytes)) {
        decoder.decode(payload);
      }
    },
  },
];
