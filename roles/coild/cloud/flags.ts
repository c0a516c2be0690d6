import type {
  BoolFlag,
  EnumFlag,
  FlagValues,
  IntFlag,
  StringFlag,
  StringListFlag,
} from "../../../lib/flags/mod.ts";
import { FAMILIES, type Family, Prefix } from "../../../lib/inet/mod.ts";
import {
  clusterNameMistake,
  VPC_BLOCK_PRIORITY,
  VPC_INTROSPECTION_ADDRESS,
} from "../../../lib/names/mod.ts";
import { parseListenAddress } from "../../../lib/telemetry/mod.ts";
import type { VpcOptions } from "./options.ts";

/** Largest and smallest frames of a VPC that ENIs take. */
const MTU = { max: 9_001, min: 576 };

/** Smallest MTU of a link with IPv6 (RFC 8200, section 5). */
const MIN_IPV6_MTU = 1_280;

const MANY = 10_000;

type IpFamily = Family | "dual";

const LIMITS = /^(\d{1,4}),(\d{1,4})$/;

function count(fallback: number, help: string) {
  return { type: "int", default: fallback, min: 0, max: MANY, help } as const;
}

export type VpcFlags = {
  readonly "vpc-mode": EnumFlag<VpcOptions["mode"]>;
  readonly "ip-family": EnumFlag<IpFamily>;
  readonly "warm-enis": IntFlag;
  readonly "warm-ips": IntFlag;
  readonly "min-ips": IntFlag;
  readonly "warm-prefixes": IntFlag;
  readonly "free-min": IntFlag;
  readonly "free-max": IntFlag;
  readonly "max-enis": IntFlag;
  readonly "eni-limits": StringFlag;
  readonly "eni-mtu": IntFlag;
  readonly "external-snat": BoolFlag;
  readonly "no-snat-cidrs": StringListFlag;
  readonly "node-ports": BoolFlag;
  readonly "pod-imds": BoolFlag;
  readonly "manage-untagged": BoolFlag;
  readonly "provision": BoolFlag;
  readonly "cluster-name": StringFlag;
  readonly "eni-tags": StringListFlag;
  readonly "introspection-addr": StringFlag;
};

export const VPC_FLAGS: VpcFlags = {
  "vpc-mode": {
    type: "enum",
    default: "auto",
    values: ["auto", "prefix", "address"],
    help:
      "Assign prefixes of 16 addresses to ENIs, single addresses, or prefixes if the instance type supports them (auto)",
  },
  "ip-family": {
    type: "enum",
    default: "ipv4",
    values: [...FAMILIES, "dual"],
    help: "Addresses of pods: IPv4, IPv6, or one of each (dual)",
  },
  "warm-enis": count(1, "Free addresses to keep, counted in ENIs"),
  "warm-ips": count(
    0,
    "Free addresses to keep, instead of --warm-enis and --warm-prefixes",
  ),
  "min-ips": count(
    0,
    "Minimum number of addresses, instead of --warm-enis and --warm-prefixes",
  ),
  "warm-prefixes": count(1, "Free prefixes to keep"),
  "free-min": {
    type: "int",
    default: -1,
    min: -1,
    max: MANY,
    help:
      "Grow when fewer addresses than this are free, instead of all other targets; needs --free-max",
  },
  "free-max": {
    type: "int",
    default: -1,
    min: -1,
    max: MANY,
    help: "Shrink when more addresses than this are free; needs --free-min",
  },
  "max-enis": count(
    0,
    "Maximum number of ENIs, including the primary one; 0 is the limit of the instance type",
  ),
  "eni-limits": {
    type: "string",
    help:
      "Maximum number of ENIs and of addresses of each, such as 3,4, if lower than the limits of the instance type",
    check: (text) =>
      text === "" || LIMITS.test(text)
        ? undefined
        : "must be two numbers, such as 3,4",
  },
  "eni-mtu": {
    type: "int",
    default: MTU.max,
    ...MTU,
    help: "MTU of ENIs in bytes",
  },
  "external-snat": {
    type: "bool",
    help:
      "Do not translate pods' source addresses, for VPCs whose NAT gateway does",
  },
  "no-snat-cidrs": {
    type: "stringList",
    default: [],
    help:
      "Further IPv4 networks, besides the VPC's, to which source addresses of pods are not translated",
  },
  "node-ports": {
    type: "bool",
    default: true,
    help: "Send replies of node ports through the primary ENI",
  },
  "pod-imds": {
    type: "bool",
    default: true,
    help: "Let pods reach the instance metadata service",
  },
  "manage-untagged": {
    type: "bool",
    default: true,
    help: "Also use ENIs that other programs have attached",
  },
  "provision": {
    type: "bool",
    default: true,
    help:
      "Request ENIs and addresses from EC2; if false, pods get only addresses that the instance already has",
  },
  "cluster-name": {
    type: "string",
    help:
      "Cluster name in the tags of new ENIs, for coil-controller's --vpc-sweep-cluster",
    check: (text) => text === "" ? undefined : clusterNameMistake(text),
  },
  "eni-tags": {
    type: "stringList",
    default: [],
    help: "Further tags of new ENIs, such as team=net,stage=test",
  },
  "introspection-addr": {
    type: "string",
    default: VPC_INTROSPECTION_ADDRESS,
    help:
      "Listen address for /v1/enis and /ip-manager, without authentication; empty disables them",
    check: (text) =>
      text === "" || isListenAddress(text)
        ? undefined
        : 'must be host:port, such as "127.0.0.1:61679"',
  },
};

function isListenAddress(text: string): boolean {
  try {
    parseListenAddress(text);
    return true;
  } catch {
    return false;
  }
}

/** Values of flags among which are those of VPCs. */
export type VpcFlagValues = FlagValues<VpcFlags>;

/** What is meant by the flags, which fit together by {@linkcode vpcMistakeIn}. */
export function vpcOptionsOf(values: VpcFlagValues): VpcOptions {
  const [min, max] = [values["free-min"], values["free-max"]];
  const limits = LIMITS.exec(values["eni-limits"]);
  return {
    mode: values["vpc-mode"],
    families: familiesOf(values["ip-family"]),
    warmEnis: values["warm-enis"],
    warmIps: values["warm-ips"],
    minIps: values["min-ips"],
    warmPrefixes: values["warm-prefixes"],
    free: min < 0 ? undefined : { min, max },
    maxEnis: values["max-enis"] || undefined,
    eniLimits: limits === null ? undefined : {
      enis: Number(limits[1]),
      addressesPerEni: Number(limits[2]),
    },
    eniMtu: values["eni-mtu"],
    externalSnat: values["external-snat"],
    noSnatCidrs: values["no-snat-cidrs"].map((text) => Prefix.parse(text)),
    nodePorts: values["node-ports"],
    podImds: values["pod-imds"],
    manageUntagged: values["manage-untagged"],
    provision: values["provision"],
    clusterName: values["cluster-name"],
    eniTags: Object.fromEntries(values["eni-tags"].map(tagOf)),
    introspectionAddress: values["introspection-addr"],
  };
}

function familiesOf(family: IpFamily): readonly Family[] {
  return family === "dual" ? FAMILIES : [family];
}

/** Flags that say something of pools, of which there are none. */
const OF_POOLS = [
  "block-return-delay",
  "clear-routes-on-shutdown",
  "export-table-id",
  "low-water",
];

/** Flags that say how many ENIs and IPv4 addresses a node has, and where these are translated. */
const OF_IPV4 = [
  "eni-limits",
  "external-snat",
  "free-max",
  "free-min",
  "max-enis",
  "min-ips",
  "no-snat-cidrs",
  "vpc-mode",
  "warm-enis",
  "warm-ips",
  "warm-prefixes",
];

/** Flags that exclude each other, or have a wrong value. */
export function vpcMistakeIn(
  values: VpcFlagValues & { readonly "pod-rule-prio": number },
  { given, isVpc }: {
    readonly given: ReadonlySet<string>;
    readonly isVpc: boolean;
  },
): string | undefined {
  if (!isVpc) {
    const flag = Object.keys(VPC_FLAGS).find((name) => given.has(name));
    return flag && `--${flag} has no effect without --addresses=vpc`;
  }
  const ofPools = OF_POOLS.find((name) => given.has(name));
  if (ofPools !== undefined) {
    return `--${ofPools} has no effect with --addresses=vpc`;
  }
  if (
    given.has("pod-rule-prio") && values["pod-rule-prio"] >= VPC_BLOCK_PRIORITY
  ) {
    return `--pod-rule-prio must be less than ${VPC_BLOCK_PRIORITY} with --addresses=vpc, so that pods are found before the rules of ENIs`;
  }
  const ofIpv4 = OF_IPV4.find((name) => given.has(name));
  if (values["ip-family"] === "ipv6" && ofIpv4 !== undefined) {
    return `--${ofIpv4} has no effect with --ip-family=ipv6: all pods have addresses of one ENI's prefix`;
  }
  return targetMistakeIn(values) ?? networkMistakeIn(values) ??
    tagMistakeIn(values["eni-tags"]);
}

function targetMistakeIn(values: VpcFlagValues): string | undefined {
  const [min, max] = [values["free-min"], values["free-max"]];
  if (min < 0 !== max < 0) return "--free-min and --free-max need each other";
  if (min >= 0 && max <= min) {
    return `--free-max is ${max}, must be more than --free-min, ${min}`;
  }
  const isNone = min < 0 && values["warm-ips"] === 0 && values["min-ips"] === 0;
  if (
    isNone && values["vpc-mode"] !== "address" && values["warm-prefixes"] === 0
  ) {
    return "--warm-prefixes, --warm-ips and --min-ips are all 0, so there would be no prefix";
  }
  return undefined;
}

function networkMistakeIn(values: VpcFlagValues): string | undefined {
  const mtu = values["eni-mtu"];
  if (values["ip-family"] !== "ipv4" && mtu < MIN_IPV6_MTU) {
    return `--eni-mtu is ${mtu}, must be at least ${MIN_IPV6_MTU} for IPv6`;
  }
  const wrong = values["no-snat-cidrs"].find((text) =>
    Prefix.tryParse(text)?.family !== "ipv4"
  );
  return wrong === undefined
    ? undefined
    : `--no-snat-cidrs has "${wrong}", which is not a valid IPv4 CIDR (for example "192.0.2.0/24")`;
}

/** EC2 allows 50 tags; three are coild's. */
const MAX_TAGS = 47;
const MAX_KEY = 128;
const MAX_VALUE = 256;

function tagMistakeIn(texts: readonly string[]): string | undefined {
  const keys = texts.map((text) => tagOf(text)[0]);
  if (texts.length > MAX_TAGS) {
    return `--eni-tags has ${texts.length} tags, must be ${MAX_TAGS} at the most`;
  }
  if (new Set(keys).size < keys.length) {
    return "--eni-tags has a key more than once";
  }
  const wrong = texts.find((text) => !isTag(text));
  if (wrong !== undefined) {
    return `--eni-tags has "${wrong}", must be KEY=VALUE with at most ${MAX_KEY} and ${MAX_VALUE} characters`;
  }
  const reserved = keys.find(isReserved);
  return reserved === undefined
    ? undefined
    : `--eni-tags has the key "${reserved}", which is reserved`;
}

function tagOf(text: string): readonly [key: string, value: string] {
  const end = text.indexOf("=");
  return [text.slice(0, end), text.slice(end + 1)];
}

function isTag(text: string): boolean {
  const [key, value] = tagOf(text);
  return text.includes("=") && key !== "" && key.length <= MAX_KEY &&
    value.length <= MAX_VALUE;
}

/** For AWS, and for what coild itself goes by. */
function isReserved(key: string): boolean {
  return /^aws:/i.test(key) || key.includes("k8s.amazonaws.com");
}
