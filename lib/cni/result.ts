import type { JsonObject } from "../json/mod.ts";
import { CniError, ErrorCode } from "./errors.ts";
import {
  malformed,
  parseInteger,
  parseList,
  parseObject,
  parseRequiredText,
  parseText,
} from "./json.ts";
import { CNI_VERSIONS, compareVersions } from "./versions.ts";

/** An interface made by ADD. */
export interface Interface {
  readonly name: string;
  /** Its Ethernet address. */
  readonly mac?: string;
  /** Its largest packet in bytes. */
  readonly mtu?: number;
  /** Path of the network namespace; absent for an interface on the host. */
  readonly sandbox?: string;
  /** Path of a socket that belongs to it. */
  readonly socketPath?: string;
  /** The PCI identifier of the hardware. */
  readonly pciID?: string;
}

/** An address given by ADD. */
export interface IpConfig {
  /** With its prefix length: `10.1.2.3/32`. */
  readonly address: string;
  /** The default gateway of its network. */
  readonly gateway?: string;
  /** Index into {@linkcode Result.interfaces}. */
  readonly interface?: number;
}

/** A route made by ADD. */
export interface Route {
  /** The destination, with its prefix length. */
  readonly dst: string;
  /** The next hop. */
  readonly gw?: string;
  /** The largest packet in bytes on this way. */
  readonly mtu?: number;
  /** The largest TCP segment to announce, in bytes. */
  readonly advmss?: number;
  /** The lowest of several to one destination wins. */
  readonly priority?: number;
  readonly table?: number;
  /** How far the destination is, `enum rt_scope_t` of `<linux/rtnetlink.h>`. */
  readonly scope?: number;
}

/** Settings of a resolver. */
export interface Dns {
  /** Addresses of name servers, in their order of use. */
  readonly nameservers?: readonly string[];
  /** The local domain, for short names. */
  readonly domain?: string;
  /** The domains to look short names up in. */
  readonly search?: readonly string[];
  /** Options for the resolver. */
  readonly options?: readonly string[];
}

/**
 * The result of ADD in the shape of CNI 1.1.0, section 5 "ADD Success". Older
 * versions are made of it by {@linkcode convertResult}.
 */
export interface Result {
  /** The version that it was written in. */
  readonly cniVersion: string;
  /** The interfaces that ADD made, on both sides. */
  readonly interfaces: readonly Interface[];
  /** The addresses it gave. */
  readonly ips: readonly IpConfig[];
  /** The routes it made. */
  readonly routes: readonly Route[];
  /** Settings of a resolver. */
  readonly dns: Dns;
}

/** Without the keys whose value is undefined. */
function compact<T extends object>(
  fields: { readonly [K in keyof T]: T[K] | undefined },
): T {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as T; // T's optional keys are exactly those that may be undefined
}

function parseInterface(value: unknown, what: string): Interface {
  const json = parseObject(value, what);
  return compact<Interface>({
    name: parseText(json["name"], `${what}.name`) ?? "",
    mac: parseText(json["mac"], `${what}.mac`),
    mtu: parseInteger(json["mtu"], `${what}.mtu`),
    sandbox: parseText(json["sandbox"], `${what}.sandbox`),
    socketPath: parseText(json["socketPath"], `${what}.socketPath`),
    pciID: parseText(json["pciID"], `${what}.pciID`),
  });
}

function parseIpConfig(value: unknown, what: string): IpConfig {
  const json = parseObject(value, what);
  return compact<IpConfig>({
    address: parseRequiredText(json["address"], `${what}.address`),
    gateway: parseText(json["gateway"], `${what}.gateway`),
    interface: parseInteger(json["interface"], `${what}.interface`),
  });
}

function parseRoute(value: unknown, what: string): Route {
  const json = parseObject(value, what);
  const number = (key: string) => parseInteger(json[key], `${what}.${key}`);
  return compact<Route>({
    dst: parseRequiredText(json["dst"], `${what}.dst`),
    gw: parseText(json["gw"], `${what}.gw`),
    mtu: number("mtu"),
    advmss: number("advmss"),
    priority: number("priority"),
    table: number("table"),
    scope: number("scope"),
  });
}

function parseDns(value: unknown, what: string): Dns {
  if (value === undefined || value === null) return {};
  const json = parseObject(value, what);
  const list = (key: string) => {
    const items = parseList(json[key], `${what}.${key}`, parseRequiredText);
    return items.length === 0 ? undefined : items;
  };
  return compact<Dns>({
    nameservers: list("nameservers"),
    domain: parseText(json["domain"], `${what}.domain`),
    search: list("search"),
    options: list("options"),
  });
}

/**
 * Reads a result of any version of {@linkcode CNI_VERSIONS}, as it comes from
 * another plugin or in `prevResult`. Keys of no version are dropped.
 *
 * @throws {CniError} with code 6 when the shape is wrong, 1 when the version is
 */
export function parseResult(json: unknown, what = "result"): Result {
  const object: JsonObject = parseObject(json, what);
  const version = parseText(object["cniVersion"], `${what}.cniVersion`);
  const interfaces = parseList(
    object["interfaces"],
    `${what}.interfaces`,
    parseInterface,
  );
  const ips = parseList(object["ips"], `${what}.ips`, parseIpConfig);
  for (const { interface: index } of ips) {
    if (index !== undefined && (index < 0 || index >= interfaces.length)) {
      throw malformed(`${what}.ips`, "about interfaces of the result");
    }
  }
  return {
    cniVersion: checkVersion(version ?? "1.1.0"),
    interfaces,
    ips,
    routes: parseList(object["routes"], `${what}.routes`, parseRoute),
    dns: parseDns(object["dns"], `${what}.dns`),
  };
}

function checkVersion(version: string): string {
  if (CNI_VERSIONS.includes(version)) return version;
  throw new CniError("incompatible CNI versions", {
    code: ErrorCode.INCOMPATIBLE_CNI_VERSION,
    details: `result is "${version}", supported are ${
      JSON.stringify(CNI_VERSIONS)
    }`,
  });
}

/**
 * Puts a result into the shape of another version: up to 0.4.0 each address
 * says its IP version and `dns` is always there; what 1.1.0 added to
 * interfaces and routes goes for those before it.
 *
 * @throws {CniError} with code 1 when the version is not supported
 */
export function convertResult(result: Result, version: string): unknown {
  checkVersion(version);
  const before100 = compareVersions(version, "1.0.0") < 0;
  const before110 = compareVersions(version, "1.1.0") < 0;
  const { interfaces, ips, routes, dns } = result;
  const hasDns = Object.keys(dns).length > 0;
  return {
    cniVersion: version,
    ...(interfaces.length > 0 && {
      interfaces: before110
        ? interfaces.map(({ name, mac, sandbox }) =>
          compact<Interface>({ name, mac, sandbox })
        )
        : interfaces,
    }),
    ...(ips.length > 0 && {
      ips: before100
        ? ips.map((ip) => ({
          version: ip.address.includes(":") ? "6" : "4",
          ...ip,
        }))
        : ips,
    }),
    ...(routes.length > 0 && {
      routes: before110
        ? routes.map(({ dst, gw }) => compact<Route>({ dst, gw }))
        : routes,
    }),
    ...((hasDns || before100) && { dns }),
  };
}
