import type { JsonObject } from "../json/mod.ts";
import type { AttachmentKey } from "./attachment.ts";
import { isValidName } from "./environment.ts";
import { CniError, ErrorCode } from "./errors.ts";
import {
  parseList,
  parseObject,
  parseRequiredText,
  parseText,
} from "./json.ts";
import { parseResult, type Result } from "./result.ts";
import { CNI_VERSIONS, compareVersions } from "./versions.ts";

/** A plugin's network configuration: what comes on stdin. */
export interface NetConf {
  /** One of {@linkcode CNI_VERSIONS}. */
  readonly cniVersion: string;
  /** The network's name. */
  readonly name: string;
  /** The plugin's name. */
  readonly type: string;
  /** The result of the plugins before this one in the chain. */
  readonly prevResult?: Result;
  /** What the runtime hands over for the capabilities of the configuration. */
  readonly runtimeConfig?: JsonObject;
  /** `socket`: where the plugin's daemon listens. */
  readonly socket?: string;
  /** `cni.dev/valid-attachments`, for GC only; null there reads as an empty list; only `raw` still has the difference. */
  readonly validAttachments?: readonly AttachmentKey[];
  /** The whole configuration. */
  readonly raw: JsonObject;
}

const VALID_ATTACHMENTS = "cni.dev/valid-attachments";

/** The version a configuration without one has: specification 0.2.0. */
const VERSION_WHEN_ABSENT = "0.1.0";

/**
 * The version that an answer should have, even when the configuration cannot
 * be used; undefined when it says none that we know.
 */
export function versionForErrors(stdinText: string): string | undefined {
  try {
    const { cniVersion } = parseObject(JSON.parse(stdinText), "network config");
    if (typeof cniVersion !== "string") return undefined;
    return CNI_VERSIONS.includes(cniVersion) ? cniVersion : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof CniError) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Parses a network configuration. CNI specification 1.1.0, section 1.
 *
 * With `lenient` a `prevResult` that cannot be understood counts as absent: DEL
 * must not fail for ever because of what a runtime has kept.
 *
 * @throws {CniError} with code 6 when it is not the JSON it should be, 7 when
 * the network's name is missing or malformed, 1 when its version is foreign
 */
export function parseConfig(
  stdinText: string,
  options: { readonly lenient?: boolean } = {},
): NetConf {
  const raw = parseObject(parseJson(stdinText), "network config");
  const name = parseText(raw["name"], "name");
  if (name === undefined || !isValidName(name)) {
    throw new CniError(
      name === undefined
        ? "missing network name"
        : "invalid characters found in network name",
      { code: ErrorCode.INVALID_NETWORK_CONFIG, details: name ?? "" },
    );
  }
  const cniVersion = parseText(raw["cniVersion"], "cniVersion") ??
    VERSION_WHEN_ABSENT;
  checkConfigVersion(cniVersion);
  const { runtimeConfig, prevResult } = raw;
  const socket = parseText(raw["socket"], "socket");
  if (socket?.startsWith("/") === false) {
    throw new CniError(`socket is relative: ${socket}`, {
      code: ErrorCode.INVALID_NETWORK_CONFIG,
      details: "it must be an absolute path",
    });
  }
  const previous = parsePrevResult(prevResult, cniVersion, options);
  return {
    cniVersion,
    name,
    type: parseText(raw["type"], "type") ?? "",
    ...(previous && { prevResult: previous }),
    ...(isPresent(runtimeConfig) && {
      runtimeConfig: parseObject(runtimeConfig, "runtimeConfig"),
    }),
    ...(socket !== undefined && { socket }),
    ...(VALID_ATTACHMENTS in raw && {
      validAttachments: parseList(
        raw[VALID_ATTACHMENTS],
        VALID_ATTACHMENTS,
        parseAttachment,
      ),
    }),
    raw,
  };
}

/** Go's encoders write null for what is absent. */
function isPresent(json: unknown): boolean {
  return json !== undefined && json !== null;
}

function parsePrevResult(
  json: unknown,
  cniVersion: string,
  options: { readonly lenient?: boolean },
): Result | undefined {
  if (!isPresent(json)) return undefined;
  try {
    // A runtime may leave the version out: it is the configuration's.
    const object = { cniVersion, ...parseObject(json, "prevResult") };
    return parseResult(object, "prevResult");
  } catch (error) {
    if (error instanceof CniError && options.lenient) return undefined;
    throw error;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new CniError(
      `error unmarshall network config: ${cause.message}`,
      { code: ErrorCode.DECODING_FAILURE, cause },
    );
  }
}

function parseAttachment(value: unknown, what: string): AttachmentKey {
  const json = parseObject(value, what);
  return {
    containerId: parseRequiredText(json["containerID"], `${what}.containerID`),
    ifname: parseRequiredText(json["ifname"], `${what}.ifname`),
  };
}

function checkConfigVersion(version: string): void {
  if (CNI_VERSIONS.includes(version)) return;
  throw new CniError("incompatible CNI versions", {
    code: ErrorCode.INCOMPATIBLE_CNI_VERSION,
    details: `config is "${version}", plugin supports ${
      JSON.stringify(CNI_VERSIONS)
    }`,
  });
}

/** The first version of the specification that has a command. */
const SINCE: Readonly<Record<string, string>> = {
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

/**
 * Checks that the configuration's version has the command.
 *
 * @throws {CniError} with code 1
 */
export function checkCommandVersion(command: string, version: string): void {
  const since = SINCE[command];
  if (since === undefined || compareVersions(version, since) >= 0) return;
  throw new CniError(`config version does not allow ${command}`, {
    code: ErrorCode.INCOMPATIBLE_CNI_VERSION,
    details: `config is "${version}", ${command} is since ${since}`,
  });
}
