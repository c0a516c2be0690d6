import {
  WAITING_FLAGS,
  type WaitingValues,
} from "../../../lib/eviction/mod.ts";
import {
  CLUSTER_FLAGS,
  defineFlags,
  type FlagSpec,
  type ProgramInfo,
  readCommandLine,
} from "../../../lib/flags/mod.ts";

const QUESTION = defineFlags({
  "yes": {
    type: "bool",
    short: "y",
    help: "Do not ask for confirmation",
  },
  "dry-run": {
    type: "bool",
    help: "Show what would be done without changing anything",
  },
});

const DUMP = defineFlags({
  "output": {
    type: "string",
    default: "coil-v2.yaml",
    short: "o",
    help:
      "Output file for the manifest; - for stdout, which keeps v1's workloads",
  },
  ...QUESTION,
  "overwrite": {
    type: "bool",
    help: "Replace the file even if it was edited or is not a manifest",
  },
  "skip-uninstall": {
    type: "bool",
    help:
      "Keep v1's workloads; the manifest lacks what v1 allocates after the dump",
  },
  "uninstall-timeout": {
    type: "duration",
    default: 100_000,
    min: 1_000,
    help: "How long to wait for the deletion of each of v1's workloads",
  },
  "etcd-endpoints": {
    type: "stringList",
    default: ["http://127.0.0.1:2379"],
    help: "Members of v1's etcd, tried in turn until one answers",
  },
  "etcd-prefix": {
    type: "string",
    default: "/coil/",
    help: "Prefix of all keys of v1",
  },
  "etcd-timeout": {
    type: "duration",
    default: 2_000,
    min: 1,
    help: "Timeout of each etcd request",
  },
  "etcd-page-size": {
    type: "int",
    default: 200,
    min: 1,
    max: 100_000,
    help: "Keys per etcd request",
  },
  "etcd-username": {
    type: "string",
    help: "etcd user, if the certificate does not identify it",
  },
  "etcd-password": {
    type: "string",
    help: "Password of the user; visible to others on this machine",
  },
  "etcd-password-file": {
    type: "string",
    help: "File with the password of the user",
  },
  "etcd-tls-ca": {
    type: "string",
    help:
      "File with CA certificates for etcd, in addition to those that Deno trusts",
  },
  "etcd-tls-cert": {
    type: "string",
    help: "File with the client certificate for etcd",
  },
  "etcd-tls-key": {
    type: "string",
    help: "File with the key of that certificate",
  },
  ...CLUSTER_FLAGS,
});

const REPLACE = defineFlags({
  ...QUESTION,
  "force": {
    type: "bool",
    help:
      "Also delete pods without a controller, permanently; otherwise they are kept with their blocks",
  },
  "parallel": {
    type: "int",
    default: 1,
    min: 1,
    max: 1_000,
    help: "Pods replaced at a time",
  },
  "max-per-node": {
    type: "int",
    default: 1,
    min: 1,
    max: 1_000,
    help: "Pods of one node replaced at a time",
  },
  "max-per-namespace": {
    type: "int",
    default: 1,
    min: 1,
    max: 1_000,
    help: "Pods of one namespace replaced at a time",
  },
  "namespace": {
    type: "stringList",
    default: [],
    short: "n",
    help: "Only replace pods of these namespaces",
  },
  "node": {
    type: "stringList",
    default: [],
    help: "Only replace pods of these nodes",
  },
  "interval": {
    type: "duration",
    default: 10_000,
    help: "Pause before the first pod of each next node",
  },
  ...WAITING_FLAGS,
  ...CLUSTER_FLAGS,
});

const STATUS = defineFlags({
  "output": {
    type: "enum",
    default: "text",
    values: ["text", "json"],
    short: "o",
    help: "Output format",
  },
  "manifest": {
    type: "string",
    help: "Manifest to compare with the cluster",
  },
  ...CLUSTER_FLAGS,
});

/** Flags of `coil migrate dump`, for usage and documentation. */
export const DUMP_FLAGS: FlagSpec = DUMP;
/** Flags of `coil migrate replace`, for usage and documentation. */
export const REPLACE_FLAGS: FlagSpec = REPLACE;
/** Flags of `coil migrate status`, for usage and documentation. */
export const STATUS_FLAGS: FlagSpec = STATUS;

/** How to reach the API server. */
export interface ClusterValues {
  readonly kubeconfig: string;
  readonly context: string;
}

/** How to reach v1's etcd. */
export interface EtcdValues {
  readonly "etcd-endpoints": readonly string[];
  readonly "etcd-prefix": string;
  readonly "etcd-timeout": number;
  readonly "etcd-page-size": number;
  readonly "etcd-username": string;
  readonly "etcd-password": string;
  readonly "etcd-password-file": string;
  readonly "etcd-tls-ca": string;
  readonly "etcd-tls-cert": string;
  readonly "etcd-tls-key": string;
}

/** Values of the flags of `coil migrate dump`. */
export interface DumpValues extends ClusterValues, EtcdValues {
  readonly output: string;
  readonly yes: boolean;
  readonly "dry-run": boolean;
  readonly overwrite: boolean;
  readonly "skip-uninstall": boolean;
  readonly "uninstall-timeout": number;
}

/** Values of the flags of `coil migrate replace`. */
export interface ReplaceValues extends ClusterValues, WaitingValues {
  readonly yes: boolean;
  readonly "dry-run": boolean;
  readonly force: boolean;
  readonly parallel: number;
  readonly "max-per-node": number;
  readonly "max-per-namespace": number;
  readonly namespace: readonly string[];
  readonly node: readonly string[];
  readonly interval: number;
}

/** Values of the flags of `coil migrate status`. */
export interface StatusValues extends ClusterValues {
  readonly output: "text" | "json";
  readonly manifest: string;
}

/** A command line: to be run, or text to be printed. */
export type CommandLine<Values> =
  | { readonly kind: "run"; readonly values: Values }
  | { readonly kind: "print"; readonly text: string };

/** Reads the command line of `dump`. @throws {UsageError} */
export function readDumpLine(
  args: readonly string[],
  info: ProgramInfo,
): CommandLine<DumpValues> {
  return readCommandLine(DUMP, args, info);
}

/** Reads the command line of `replace`. @throws {UsageError} */
export function readReplaceLine(
  args: readonly string[],
  info: ProgramInfo,
): CommandLine<ReplaceValues> {
  return readCommandLine(REPLACE, args, info);
}

/** Reads the command line of `status`. @throws {UsageError} */
export function readStatusLine(
  args: readonly string[],
  info: ProgramInfo,
): CommandLine<StatusValues> {
  return readCommandLine(STATUS, args, info);
}
