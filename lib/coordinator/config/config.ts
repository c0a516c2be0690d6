import type { JsonObject } from "../../json/mod.ts";
import {
  checkIfname,
  CniError,
  parseBoolean,
  parseInteger,
  parseList,
  parseObject,
  parseText,
  refusePattern,
} from "../../cni/mod.ts";
import { Address, Prefix } from "../../inet/mod.ts";
import type { ProbeTimes } from "../../probe/mod.ts";
import { parseDetectOptions } from "./detect_options.ts";
import { invalidConfig } from "./invalid.ts";
import { parseLogOptions } from "./log_options.ts";
import { type MacPrefix, macPrefixProblem } from "./mac_prefix.ts";

/** How an interface is joined to the host; `auto` decides by what the pod has. */
export type Mode = "auto" | "underlay" | "overlay" | "disable";

/** A route that every pod gets. */
export interface PolicyRoute {
  readonly destination: Prefix;
  readonly gateway: Address;
}

/** What one source of configuration says. What is absent, empty or null counts as not given. */
export interface Given {
  readonly mode?: Mode | undefined;
  /** `podDefaultCniNic`: the pod's first interface. */
  readonly firstNic?: string | undefined;
  /** `podDefaultRouteNIC`: the interface that keeps the default route. */
  readonly defaultRouteNic?: string | undefined;
  readonly tunePodRoutes?: boolean | undefined;
  readonly overlayPodCidrs?: readonly Prefix[] | undefined;
  readonly serviceCidrs?: readonly Prefix[] | undefined;
  readonly hijackCidrs?: readonly Prefix[] | undefined;
  readonly policyRoutes?: readonly PolicyRoute[] | undefined;
  readonly hostRuleTable?: number | undefined;
  /** Negative: leave the pod's setting alone. */
  readonly podRpFilter?: number | undefined;
  /** 0: leave the interface's setting alone. */
  readonly txQueueLength?: number | undefined;
  readonly macPrefix?: MacPrefix | undefined;
  readonly vethLinkAddress?: Address | undefined;
  readonly vethMtu?: number | undefined;
  readonly detectIpConflict?: boolean | undefined;
  readonly detectGateway?: boolean | undefined;
  readonly detectTimes?: ProbeTimes | undefined;
}

const MODES: ReadonlyMap<string, Mode> = new Map([
  ["auto", "auto"],
  ["underlay", "underlay"],
  ["overlay", "overlay"],
  ["disable", "disable"],
  // How the custom resource spells it.
  ["disabled", "disable"],
]);

/** RT_TABLE_COMPAT to RT_TABLE_LOCAL of `<linux/rtnetlink.h>`: 252 to 255 are the kernel's own. */
const KERNEL_TABLES = { from: 252, to: 255 } as const;
/** ETH_MIN_MTU and the largest one of a veth. */
const MTU = { least: 68, most: 65535 } as const;

/**
 * Reads the coordinator's keys of a network configuration.
 *
 * @throws {CniError} with code 6 when a key has another JSON type, 7 when its value cannot be used
 */
export function parseGiven(json: JsonObject): Given {
  const text = (key: string) => trimmed(json[key], key);
  const number = (key: string) => parseInteger(json[key], key);
  parseLogOptions(json["logOptions"]);
  return {
    mode: parseMode(text("mode")),
    firstNic: parseNicName(json, "podDefaultCniNic"),
    defaultRouteNic: parseNicName(json, "podDefaultRouteNic") ??
      parseNicName(json, "podDefaultRouteNIC"),
    tunePodRoutes: parseBoolean(json["tunePodRoutes"], "tunePodRoutes"),
    overlayPodCidrs: parsePrefixes(json, "overlayPodCIDR"),
    serviceCidrs: parsePrefixes(json, "serviceCIDR"),
    hijackCidrs: parsePrefixes(json, "hijackCIDR"),
    policyRoutes: parsePolicyRoutes(json["policyRoutes"]),
    hostRuleTable: checkTable(number("hostRuleTable")),
    podRpFilter: checkRpFilter(number("podRPFilter")),
    txQueueLength: checkQueueLength(number("txQueueLen")),
    macPrefix: parseMacPrefix(text("podMACPrefix")),
    vethLinkAddress: parseLinkAddress(text("vethLinkAddress")),
    vethMtu: checkMtu(number("vethMTU")),
    detectIpConflict: parseBoolean(
      json["detectIPConflict"],
      "detectIPConflict",
    ),
    detectGateway: parseBoolean(json["detectGateway"], "detectGateway"),
    detectTimes: parseDetectOptions(json["detectOptions"]),
  };
}

/**
 * The interface that a key names. A pod's annotation may be as long as its
 * owner likes, so only the beginning of what is refused is repeated.
 *
 * @throws {CniError} with code 6 when it is not text, 7 when the kernel takes no such name
 */
export function parseNicName(
  json: JsonObject,
  key: string,
): string | undefined {
  const name = trimmed(json[key], key);
  if (name === undefined) return undefined;
  try {
    checkIfname(name);
    refusePattern(name);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw invalidConfig(
      `invalid ${key} ${JSON.stringify(name.slice(0, 20))}`,
      `it must name an interface of the pod: ${error.message}`,
    );
  }
  return name;
}

function trimmed(value: unknown, key: string): string | undefined {
  const text = parseText(value, key)?.trim();
  return text === "" ? undefined : text;
}

function parseMode(text: string | undefined): Mode | undefined {
  if (text === undefined) return undefined;
  const mode = MODES.get(text);
  if (mode !== undefined) return mode;
  throw invalidConfig(
    `unknown tuneMode: ${text}`,
    "mode must be auto, underlay, overlay or disable",
  );
}

function parsePrefixes(
  json: JsonObject,
  key: string,
): readonly Prefix[] | undefined {
  const list = parseList(json[key], key, (item, what) =>
    parseDestination(
      trimmed(item, what) ?? "",
      (text) =>
        invalidConfig(
          `invalid CIDR address: ${text}`,
          `${what} must be a CIDR or an address`,
        ),
    ));
  return list.length === 0 ? undefined : list;
}

/** A CIDR, or an address, which means that address alone. */
function parseDestination(
  text: string,
  problem: (text: string) => CniError,
): Prefix {
  const prefix = Prefix.tryParse(text);
  if (prefix !== undefined) return prefix;
  const address = Address.tryParse(text);
  if (address === undefined) throw problem(text);
  return Prefix.host(address);
}

function parsePolicyRoutes(
  value: unknown,
): readonly PolicyRoute[] | undefined {
  const list = parseList(value, "policyRoutes", (item, what): PolicyRoute => {
    const json = parseObject(item, what);
    const dst = trimmed(json["dst"], `${what}.dst`) ?? "";
    const gw = trimmed(json["gw"], `${what}.gw`) ?? "";
    const destination = parseDestination(
      dst,
      () =>
        invalidConfig(
          `invalid route dst "${dst}"`,
          `${what}.dst must be a CIDR or an address`,
        ),
    );
    const gateway = Address.tryParse(gw);
    if (gateway === undefined) {
      throw invalidConfig(
        `invalid route gw "${gw}"`,
        `${what}.gw must be an address`,
      );
    }
    if (gateway.family !== destination.family) {
      throw invalidConfig(
        `route dst "${dst}" and gw "${gw}" must use the same IP family`,
        `${what} mixes IPv4 and IPv6`,
      );
    }
    return { destination, gateway };
  });
  return list.length === 0 ? undefined : list;
}

function checkTable(table: number | undefined): number | undefined {
  if (table === undefined) return undefined;
  const isKernels = table >= KERNEL_TABLES.from && table <= KERNEL_TABLES.to;
  if (table > 0 && table <= 0xffffffff && !isKernels) return table;
  throw invalidConfig(
    `invalid hostRuleTable ${table}`,
    "it must be a route table from 1 on, other than 252 to 255",
  );
}

function checkRpFilter(value: number | undefined): number | undefined {
  if (value === undefined || value <= 2) return value;
  throw invalidConfig(
    `invalid rp_filter value ${value}`,
    "podRPFilter must be 0, 1, 2, or negative to leave it alone",
  );
}

function checkQueueLength(value: number | undefined): number | undefined {
  if (value === undefined || value >= 0 && value <= 0xffffffff) return value;
  throw invalidConfig(
    `invalid txQueueLen value ${value}`,
    "it must be 0, to leave it alone, or more",
  );
}

function parseMacPrefix(text: string | undefined): MacPrefix | undefined {
  if (text === undefined) return undefined;
  const problem = macPrefixProblem(text);
  if (problem === undefined) return text.toLowerCase();
  throw invalidConfig(
    `invalid podMACPrefix "${text}": ${problem}`,
    "it must be two bytes such as 0a:1b",
  );
}

function parseLinkAddress(text: string | undefined): Address | undefined {
  if (text === undefined) return undefined;
  const address = Address.tryParse(text);
  const [first = 0] = address?.toBytes() ?? [];
  // The kernel takes 0.0.0.0 and shows no address then.
  const isUnicast = first > 0 && first < 224 && first !== 127;
  if (address?.family === "ipv4" && isUnicast) return address;
  throw invalidConfig(
    `invalid vethLinkAddress "${text}"`,
    "it must be an IPv4 address of one machine",
  );
}

function checkMtu(mtu: number | undefined): number | undefined {
  if (mtu === undefined || mtu >= MTU.least && mtu <= MTU.most) return mtu;
  throw mtu <= 0
    ? invalidConfig(
      "vethMTU must be greater than 0",
      `vethMTU is ${mtu}; leave it out for 1500`,
    )
    : invalidConfig(
      `invalid vethMTU ${mtu}`,
      `it must be from ${MTU.least} to ${MTU.most}`,
    );
}
