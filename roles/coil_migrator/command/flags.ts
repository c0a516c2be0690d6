import { WAITING_FLAGS } from "../../../lib/eviction/mod.ts";
import { CLUSTER_FLAGS, type FlagValues } from "../../../lib/flags/mod.ts";

const QUESTION = {
  "yes": {
    type: "bool",
    short: "y",
    help: "Do not ask for confirmation",
  },
  "dry-run": {
    type: "bool",
    help: "Show what would be done without changing anything",
  },
} as const;

const MANIFEST = {
  "output": {
    type: "string",
    default: "coil-v2.yaml",
    short: "o",
    help:
      "Output file for the manifest; - for stdout, which keeps v1's workloads",
  },
} as const;

const DUMP = {
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
} as const;

const REPLACE = {
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
} as const;

const STATUS = {
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
} as const;

type Cluster = typeof CLUSTER_FLAGS;

export const DUMP_FLAGS:
  & typeof MANIFEST
  & typeof QUESTION
  & typeof DUMP
  & Cluster = { ...MANIFEST, ...QUESTION, ...DUMP, ...CLUSTER_FLAGS };
export const REPLACE_FLAGS:
  & typeof QUESTION
  & typeof REPLACE
  & typeof WAITING_FLAGS
  & Cluster = { ...QUESTION, ...REPLACE, ...WAITING_FLAGS, ...CLUSTER_FLAGS };
export const STATUS_FLAGS: typeof STATUS & Cluster = {
  ...STATUS,
  ...CLUSTER_FLAGS,
};

export type DumpValues = FlagValues<typeof DUMP_FLAGS>;
export type ReplaceValues = FlagValues<typeof REPLACE_FLAGS>;
export type StatusValues = FlagValues<typeof STATUS_FLAGS>;
