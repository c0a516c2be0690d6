import {
  isJsonObject,
  type JsonObject,
  tryParseJsonObject,
} from "../json/mod.ts";
import { Address } from "../inet/mod.ts";
import type { NamespacedName } from "../names/mod.ts";

/** Path that announcements are sent to, by POST. */
export const ANNOUNCE_PATH = "/v1/clients";

/** Path that reports of lost gateways are sent to, by POST. */
export const LOSSES_PATH = "/v1/losses";

/** Path that translated sources are reported to, by POST. */
export const SOURCES_PATH = "/v1/sources";

/** The pod that an announcement is about. */
export interface AnnouncedPod extends NamespacedName {
  /** UID of the pod in the API: a later pod of that name is another one. */
  readonly uid: string;
}

/** A pod that is about to be a client, and the addresses it will send from. */
export interface Announcement {
  /** The Egress of the gateway. */
  readonly egress: NamespacedName;
  readonly pod: AnnouncedPod;
  /** Its addresses, one of each family at most. */
  readonly addresses: readonly Address[];
  /** Name of the AddressBlock that they are of, which shows that the pod's node has them. */
  readonly block?: string | undefined;
}

/** A gateway that a node has lost. */
export interface ReportedLoss {
  readonly gateway: Address;
  /** How long ago, in whole seconds. */
  readonly seconds: number;
  /** Connections of the node's clients through it that were ended. */
  readonly ended: number;
}

/** All gateways of an Egress that a node has lost, or nearly; none once they all answer again. */
export interface LossReport {
  /** The Egress of the gateway that it is sent to. */
  readonly egress: NamespacedName;
  readonly losses: readonly ReportedLoss[];
  /** Those that work, and to or from which many packets are lost. */
  readonly suspects: readonly Address[];
}

/** Packets of a gateway that leave its node with another source. */
export interface TranslatedSource {
  /** The gateway's. */
  readonly source: Address;
  /** The source that they leave with. */
  readonly seenAs: Address;
  /** Where one of them went. */
  readonly destination: Address;
}

/** What the node of a gateway makes of the gateway's source addresses. */
export interface SourceReport {
  /** The Egress of the gateway. */
  readonly egress: NamespacedName;
  readonly translated: readonly TranslatedSource[];
}

/** The most translated sources that are reported of a gateway. */
export const MAX_TRANSLATED = 8;

/** Clients use no more gateways of an Egress. */
const MAX_LOSSES = 64;

/** Above what the longest report has; keeps a peer from filling the memory. */
export const MAX_TEXT_CHARS = 16_384;

/** A namespace, a name and a UID are shorter (RFC 1123; a subdomain has 253 characters). */
const MAX_WORD_CHARS = 253;

/** Returns the announcement as JSON. */
export function formatAnnouncement(announcement: Announcement): string {
  const { egress, pod, addresses, block } = announcement;
  return JSON.stringify({
    egress: { namespace: egress.namespace, name: egress.name },
    pod: { namespace: pod.namespace, name: pod.name, uid: pod.uid },
    addresses: addresses.map(String),
    block,
  });
}

/**
 * Parses an announcement. Members that it does not know are left alone, so
 * that a newer daemon is understood.
 *
 * @throws {SyntaxError} when it is not one; the message names the member
 */
export function parseAnnouncement(text: string): Announcement {
  return parse(text, "announcement", (message) => {
    const egress = egressOf(message);
    const pod = objectOf(message["pod"], "pod");
    return {
      egress,
      pod: {
        namespace: wordOf(pod, "pod", "namespace"),
        name: wordOf(pod, "pod", "name"),
        uid: wordOf(pod, "pod", "uid"),
      },
      addresses: addressesOf(message["addresses"]),
      ...(message["block"] !== undefined &&
        { block: wordOf(message, "announcement", "block") }),
    };
  });
}

/** Returns the report as JSON; what is above the limit is left out. */
export function formatLossReport(
  { egress, losses, suspects }: LossReport,
): string {
  return JSON.stringify({
    egress: { namespace: egress.namespace, name: egress.name },
    losses: losses.slice(0, MAX_LOSSES).map(({ gateway, seconds, ended }) => ({
      gateway: gateway.toString(),
      seconds,
      ended,
    })),
    suspects: suspects.slice(0, MAX_LOSSES).map(String),
  });
}

/**
 * Parses a report of lost gateways, as {@linkcode parseAnnouncement}.
 *
 * @throws {SyntaxError} when it is not one; the message names the member
 */
export function parseLossReport(text: string): LossReport {
  return parse(text, "loss report", (message) => ({
    egress: egressOf(message),
    losses: entriesOf(message, "losses").map((value) => {
      const loss = objectOf(value, "losses");
      return {
        gateway: addressOf(loss["gateway"], "gateway"),
        seconds: countOf(loss, "seconds"),
        ended: countOf(loss, "ended"),
      };
    }),
    suspects: entriesOf(message, "suspects")
      .map((value) => addressOf(value, "suspects")),
  }));
}

/** Returns the report as JSON; what is above the limit is left out. */
export function formatSourceReport(
  { egress, translated }: SourceReport,
): string {
  return JSON.stringify({
    egress: { namespace: egress.namespace, name: egress.name },
    translated: translated.slice(0, MAX_TRANSLATED).map((each) => ({
      source: each.source.toString(),
      seenAs: each.seenAs.toString(),
      destination: each.destination.toString(),
    })),
  });
}

/**
 * Parses a report of translated sources, as {@linkcode parseAnnouncement}.
 *
 * @throws {SyntaxError} when it is not one; the message names the member
 */
export function parseSourceReport(text: string): SourceReport {
  return parse(text, "source report", (message) => ({
    egress: egressOf(message),
    translated: entriesOf(message, "translated", MAX_TRANSLATED)
      .map((value) => {
        const each = objectOf(value, "translated");
        return {
          source: addressOf(each["source"], "source"),
          seenAs: addressOf(each["seenAs"], "seenAs"),
          destination: addressOf(each["destination"], "destination"),
        };
      }),
  }));
}

function entriesOf(
  message: JsonObject,
  member: string,
  most = MAX_LOSSES,
): readonly unknown[] {
  const entries = message[member];
  if (!Array.isArray(entries)) return [];
  if (entries.length <= most) return entries;
  throw new SyntaxError(`"${member}" has more than ${most} entries`);
}

/** Returns the body of a refusal: JSON with the reason. */
export function formatRefusal(reason: string): string {
  return JSON.stringify({ error: reason });
}

/** Returns the reason in the body of a refusal; the body's beginning when it is not one of ours. */
export function parseRefusal(text: string): string {
  const { error } = tryParseJsonObject(text) ?? {};
  return typeof error === "string" ? error : text.trim().slice(0, 200);
}

/** Reads a message; an error begins with what it should be. */
function parse<T>(
  text: string,
  what: string,
  read: (message: JsonObject) => T,
): T {
  try {
    if (text.length > MAX_TEXT_CHARS) {
      throw new SyntaxError(`it is longer than ${MAX_TEXT_CHARS} characters`);
    }
    return read(objectOf(parseJson(text), what));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const { cause, message } = error;
    throw new SyntaxError(`Cannot parse ${what}: ${message}`, { cause });
  }
}

function egressOf(message: JsonObject): NamespacedName {
  const egress = objectOf(message["egress"], "egress");
  return {
    namespace: wordOf(egress, "egress", "namespace"),
    name: wordOf(egress, "egress", "name"),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SyntaxError("it is not JSON", {
      cause,
    });
  }
}

function objectOf(value: unknown, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new SyntaxError(
    `"${what}" must be an object`,
  );
}

function wordOf(
  object: JsonObject,
  parent: string,
  member: string,
): string {
  const value = object[member];
  const isWord = typeof value === "string" && value.length <= MAX_WORD_CHARS &&
    /^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$/.test(value);
  if (isWord) return value;
  throw new SyntaxError(
    `"${parent}.${member}" must be a name`,
  );
}

function addressesOf(value: unknown): readonly Address[] {
  const texts: readonly unknown[] = Array.isArray(value) ? value : [];
  const addresses = texts.map((text) => addressOf(text, "addresses"));
  const families = new Set(addresses.map(({ family }) => family));
  if (addresses.length === 0 || families.size < addresses.length) {
    throw new SyntaxError(
      '"addresses" must have one address of each family at most, and one at least',
    );
  }
  return addresses;
}

function addressOf(text: unknown, member: string): Address {
  const address = typeof text === "string" ? Address.tryParse(text) : undefined;
  if (address !== undefined) return address;
  throw new SyntaxError(
    `"${member}" has ${JSON.stringify(text)}, which is not a valid IP address`,
  );
}

function countOf(object: JsonObject, member: string): number {
  const value = object[member];
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value);
  throw new SyntaxError(
    `"${member}" must be a whole number`,
  );
}
