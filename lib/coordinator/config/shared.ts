import type { JsonObject } from "../../json/mod.ts";
import type { SpiderCoordinator } from "../../api/mod.ts";
import { CniError, parseObject, parseText } from "../../cni/mod.ts";
import { type Given, parseGiven } from "./config.ts";

/** Why the cluster's Service CIDRs are not known, for the runtime. */
export interface Problem {
  readonly message: string;
  readonly details: string;
}

/** What counts for all pods where their network configuration does not say otherwise. */
export interface Shared {
  readonly given: Given;
  readonly problem?: Problem | undefined;
}

/** The same as coild writes it to a file for calls that it does not answer. */
export interface SharedDocument {
  /** Keys of a network configuration. */
  readonly config: JsonObject;
  readonly problem?: Problem | undefined;
}

/** An incompatible format gets another number. */
const FORMAT = 1;
/** `SPIDER_SYNCED` of `lib/api`, of which a call loads nothing. */
const SYNCED = "Synced";
const OR_CONFIGURE = "or set serviceCIDR in the network configuration";

/** No SpiderCoordinator was ever seen. */
export const NOTHING_SHARED: SharedDocument = {
  config: {},
  problem: {
    // Upstream's words.
    message: "coordinator config not found",
    details:
      `this node has not seen SpiderCoordinator "default": create it and run coild with --enable-coordinator, ${OR_CONFIGURE}`,
  },
};

/**
 * What is in force by the custom resource. CIDRs that it does not have keep
 * their last value. `refused` says why it cannot be used; the former document
 * stays in force then.
 */
export function documentOf(
  resource: SpiderCoordinator | undefined,
  former: SharedDocument = NOTHING_SHARED,
): { readonly document: SharedDocument; readonly refused?: Problem } {
  if (resource === undefined) return { document: former };
  try {
    const document = documentFrom(resource, former.config);
    readShared(document);
    return { document };
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const refused = {
      message: error.message,
      details: `correct SpiderCoordinator "default"; ${error.details}`,
    };
    const problem = former.problem && refused;
    return { document: { ...former, problem }, refused };
  }
}

function documentFrom(
  { spec, status = {} }: SpiderCoordinator,
  known: JsonObject,
): SharedDocument {
  if (status.phase === SYNCED) {
    const { overlayPodCIDR, serviceCIDR } = status;
    return withCidrs({ ...spec }, { overlayPodCIDR, serviceCIDR });
  }
  if (known["serviceCIDR"] !== undefined) return withCidrs({ ...spec }, known);
  const reason = status.reason || "no controller has written its status";
  return {
    config: { ...spec },
    problem: {
      message: "spidercoordinator: default no ready",
      details:
        `${reason}; coil-controller with --enable-coordinator writes the status, ${OR_CONFIGURE}`,
    },
  };
}

/** An empty list means that the cluster is known to have none. */
function withCidrs(spec: JsonObject, cidrs: JsonObject): SharedDocument {
  const overlayPodCIDR = cidrs["overlayPodCIDR"] ?? [];
  const serviceCIDR = cidrs["serviceCIDR"] ?? [];
  return { config: { ...spec, overlayPodCIDR, serviceCIDR } };
}

/**
 * What a document says.
 *
 * @throws {CniError} when it has what no network configuration may have
 */
export function readShared({ config, problem }: SharedDocument): Shared {
  const given = parseGiven(config);
  // Elsewhere an empty list is one that is not given.
  const isKnown = Array.isArray(config["serviceCIDR"]);
  const serviceCidrs = given.serviceCidrs ?? (isKnown ? [] : undefined);
  return { given: { ...given, serviceCidrs }, problem };
}

/** The document as a line of JSON, with the number of its format. */
export function formatDocument(document: SharedDocument): string {
  return JSON.stringify({ format: FORMAT, ...document }) + "\n";
}

/**
 * Reads what `formatDocument()` wrote, and what later versions add to it.
 *
 * @throws {SyntaxError} when it is cut off, or of another form
 * @throws {CniError} when a field has another JSON type
 */
export function parseDocument(text: string): SharedDocument {
  const json = parseObject(JSON.parse(text), "defaults");
  if (json["format"] !== FORMAT) {
    throw new SyntaxError(
      `Cannot read the defaults: their format is ${
        json["format"]
      }, this version reads ${FORMAT}`,
    );
  }
  const config = parseObject(json["config"], "config");
  if (json["problem"] === undefined) return { config };
  const problem = parseObject(json["problem"], "problem");
  const message = parseText(problem["message"], "message") ?? "";
  const details = parseText(problem["details"], "details") ?? "";
  return { config, problem: { message, details } };
}
