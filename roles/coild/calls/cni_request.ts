import { isJsonObject } from "../../../lib/json/mod.ts";
import {
  type AttachmentKey,
  checkContainerId,
  checkIfname,
  CniError,
  ErrorCode,
  parseResult,
  refusePattern,
  type Result,
} from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { InvalidCallError, InvalidNetworkError } from "../base/errors.ts";
import type { PodQuery } from "../cluster/pod_source.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/**
 * Capability under which containerd hands the pod's annotations to a plugin
 * whose configuration asks for them (containerd `pkg/cri/annotations`,
 * go-cni `WithCapability`).
 */
const POD_ANNOTATIONS_CAPABILITY = "io.kubernetes.cri.pod-annotations";

export interface AddRequest extends AttachmentKey {
  readonly netns: string;
  readonly network: string;
  readonly pod: PodQuery;
  /** Whether another plugin has connected the pod before. */
  readonly chained: boolean;
  /** What that plugin said; absent in calls of other clients than ours and upstream's. */
  readonly prevResult?: Result;
  /** The addresses that the plugin found in it. */
  readonly ips: readonly string[];
}

/** Together with the longest pool name this fits into a link's alias, of 255 bytes. */
const MAX_CONTAINER_ID = 128;

/**
 * Reads which attachment a call is about.
 *
 * For DEL that is enough: what cannot have been attached is gone, and a DEL
 * that fails for ever keeps a pod from being deleted.
 *
 * @throws {InvalidCallError} when the container ID or the interface is missing.
 */
export function parseKey(args: CniRequest): AttachmentKey {
  const { containerId, ifname } = args;
  if (containerId === "") {
    throw new InvalidCallError("Cannot serve the call: container_id is empty");
  }
  if (ifname === "") {
    throw new InvalidCallError("Cannot serve the call: ifname is empty");
  }
  return { containerId, ifname };
}

/**
 * Reads which attachment a call is about, strictly: the plugin has checked it,
 * other clients of the socket may not have.
 *
 * @throws {InvalidCallError} when one half is missing, or the container ID too long.
 * @throws {CniError} with code 4 when one half holds what it must not.
 */
export function parseStrictKey(args: CniRequest): AttachmentKey {
  const key = parseKey(args);
  checkContainerId(key.containerId);
  checkIfname(key.ifname);
  const { length } = key.containerId;
  if (length > MAX_CONTAINER_ID) {
    throw new InvalidCallError(
      `Cannot serve the call: container_id has ${length} characters, more than ${MAX_CONTAINER_ID}`,
    );
  }
  return key;
}

/** The pod's name where the runtime gave one: DEL and CHECK may come without. */
export function parsePodName(
  args: CniRequest,
): { readonly pod?: NamespacedName } {
  const name = args.args["K8S_POD_NAME"] ?? "";
  const namespace = args.args["K8S_POD_NAMESPACE"] ?? "";
  return name === "" || namespace === "" ? {} : { pod: { name, namespace } };
}

/**
 * Reads an ADD from the plugin's message.
 *
 * @throws {InvalidCallError} when a parameter is missing.
 * @throws {CniError} with code 6 when the configuration, or the result in it, cannot be read.
 */
export function parseAdd(args: CniRequest): AddRequest {
  const key = parseStrictKey(args);
  refusePattern(key.ifname);
  if (args.netns === "") {
    throw new InvalidCallError("Cannot serve ADD: CNI_NETNS is empty");
  }
  const chained = parseChained(args.args["IS_CHAINED"]);
  const name = requireArgument(args, "K8S_POD_NAME");
  const namespace = requireArgument(args, "K8S_POD_NAMESPACE");
  const uid = args.args["K8S_POD_UID"] ?? "";
  const network = parseNetwork(args.stdinData);
  return {
    ...key,
    netns: args.netns,
    network: network.name,
    chained,
    ...(chained && network.prevResult !== undefined && {
      prevResult: parseResult(network.prevResult, "prevResult"),
    }),
    ips: args.ips,
    pod: {
      name,
      namespace,
      ...(uid !== "" && { uid }),
      ...(network.annotations !== undefined && {
        annotations: network.annotations,
      }),
    },
  };
}

function requireArgument(args: CniRequest, name: string): string {
  const value = args.args[name];
  if (value === undefined || value === "") {
    throw new InvalidCallError(
      `Cannot serve ADD: CNI_ARGS has no ${name}, which the container runtime of Kubernetes sets`,
    );
  }
  return value;
}

function parseChained(value: string | undefined): boolean {
  switch (value ?? "false") {
    case "false":
      return false;
    case "true":
      return true;
    default:
      throw new InvalidCallError(
        `Cannot serve ADD: IS_CHAINED is "${value}", not "true" or "false"`,
      );
  }
}

/** @throws {InvalidNetworkError} when another plugin has connected the pod already. */
export function refuseChained({ chained }: Pick<AddRequest, "chained">): void {
  if (!chained) return;
  throw new InvalidNetworkError(
    "Cannot serve ADD: coil must be the first plugin of the network configuration when it manages addresses; " +
      "run coild with --enable-ipam=false to have it after another",
  );
}

/** @throws {InvalidNetworkError} when no plugin has connected the pod. */
export function requireChained({ chained }: Pick<AddRequest, "chained">): void {
  if (chained) return;
  throw new InvalidNetworkError(
    "Cannot serve ADD: coild runs with --enable-ipam=false, so coil must come after the plugin that connects pods",
  );
}

export interface GcRequest {
  readonly network: string;
  /** The attachments that stay. */
  readonly valid: readonly AttachmentKey[];
}

/** The key of the configuration under which a runtime says what it has (CNI 1.1, section 2, "GC"). */
const VALID_ATTACHMENTS = "cni.dev/valid-attachments";

/**
 * Reads a GC from the plugin's message.
 *
 * Only an empty list says that no attachment is valid, so that all
 * go. libcni writes null for a list that its
 * caller never filled in, and in a message alone none and unknown are the same.
 *
 * @throws {InvalidNetworkError} when it is not known what is valid.
 */
export function parseGc(
  { stdinData, validAttachments }: CniRequest,
): GcRequest {
  const { name, valid } = parseNetwork(stdinData);
  if (validAttachments.length === 0 && !Array.isArray(valid)) {
    throw new InvalidNetworkError(
      `Cannot collect garbage of network "${name}": "${VALID_ATTACHMENTS}" of its configuration is ` +
        `${valid === undefined ? "missing" : JSON.stringify(valid)}, ` +
        "so the runtime's attachments are unknown; a runtime without attachments sends []",
    );
  }
  return { network: name, valid: validAttachments };
}

interface Network {
  readonly name: string;
  /** What the runtime says to have, as it is. */
  readonly valid?: unknown;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The result of the plugins before, as it is. */
  readonly prevResult?: unknown;
}

/**
 * Reads the network's name and the annotations in `runtimeConfig`.
 *
 * The plugin checked the configuration already; upstream's clients may send
 * none, so absence is not an error here.
 */
export function parseNetwork(stdinData: Uint8Array): Network {
  if (stdinData.length === 0) return { name: "" };
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder().decode(stdinData));
  } catch (error) {
    throw new CniError(
      "Cannot read the network configuration: it is not JSON",
      { code: ErrorCode.DECODING_FAILURE, cause: error },
    );
  }
  const name = field(parsed, "name");
  const annotations = parseAnnotations(
    field(field(parsed, "runtimeConfig"), POD_ANNOTATIONS_CAPABILITY),
  );
  const valid = field(parsed, VALID_ATTACHMENTS);
  const prevResult = field(parsed, "prevResult");
  return {
    name: typeof name === "string" ? name : "",
    ...(annotations !== undefined && { annotations }),
    ...(valid !== undefined && { valid }),
    ...(prevResult !== undefined && prevResult !== null && { prevResult }),
  };
}

function parseAnnotations(
  value: unknown,
): Record<string, string> | undefined {
  if (!isJsonObject(value)) return undefined;
  const entries = Object.entries(value).filter((entry): entry is [
    string,
    string,
  ] => typeof entry[1] === "string");
  return Object.fromEntries(entries);
}

function field(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return new Map<string, unknown>(Object.entries(value)).get(name);
}
