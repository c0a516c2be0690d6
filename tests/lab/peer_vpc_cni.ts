import * as path from "node:path";
import {
  createFileRegistry,
  fromBinary,
  fromJson,
  type JsonValue,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { serve } from "../../lib/grpc/mod.ts";
import { ensureGoPrograms, type Log } from "./build.ts";
import { lockFile } from "./cache.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const VERSION = "v1.23.1";
const PEER: GoProgram = {
  output: "peer-vpc-cni/",
  about: `aws-cni (Go) ${VERSION}`,
  packages: ["./cmd/routed-eni-cni-plugin"],
  module: {
    name: `github.com/aws/amazon-vpc-cni-k8s@${VERSION}`,
    goMinimum: "1.26",
  },
};
/** Where upstream's plugin asks its agent; nothing can change it. */
const AGENT_SOCKET = "/run/aws-node/ipamd.sock";
/** Held by the one that answers there. */
const AGENT_LOCK = "/run/coil-test-aws-node.lock";

/** Builds upstream's plugin `aws-cni` from its Go module when it is missing, and returns its path. */
export async function ensurePeerVpcCni(
  options: { readonly log?: Log } = {},
): Promise<string> {
  await ensureGoPrograms([PEER], options);
  return path.join(goProgramFile(PEER), "routed-eni-cni-plugin");
}

/** What the plugin's configuration has where upstream's manifest leaves it as it is, but for the place of its log. */
export function peerVpcCniConfig(logFile: string): Record<string, unknown> {
  return {
    cniVersion: "0.4.0",
    name: "aws-cni",
    type: "aws-cni",
    vethPrefix: "eni",
    mtu: "9001",
    podSGEnforcingMode: "strict",
    pluginLogFile: logFile,
    pluginLogLevel: "DEBUG",
  };
}

/** Upstream's agent, as far as the plugin asks it: it answers at once. Each container gets an address of the ENI with that device index. */
export class VpcAgentStub implements AsyncDisposable {
  readonly #end: AbortController;
  readonly #finished: Promise<void>;
  readonly #lock: Disposable;

  private constructor(
    parts: {
      readonly end: AbortController;
      readonly finished: Promise<void>;
      readonly lock: Disposable;
    },
  ) {
    this.#end = parts.end;
    this.#finished = parts.finished;
    this.#lock = parts.lock;
  }

  /** Waits until another one has ended. `addressOf` gives the address of the nth container. */
  static async start(
    { device, addressOf }: {
      readonly device: number;
      readonly addressOf: (n: number) => string;
    },
  ): Promise<VpcAgentStub> {
    const lock = await lockFile(AGENT_LOCK);
    await Deno.mkdir(path.dirname(AGENT_SOCKET), { recursive: true });
    const addresses = new Map<string, string>();
    const end = new AbortController();
    const { finished } = await serve({
      socketPath: AGENT_SOCKET,
      signal: end.signal,
      service: {
        definition: SERVICE,
        handle: ({ method, request }) => {
          const id = containerOf(method, request);
          const address = addresses.get(id) ?? addressOf(addresses.size);
          addresses.set(id, address);
          return Promise.resolve(answerOf(method, address, device));
        },
      },
    });
    return new VpcAgentStub({ end, finished, lock });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#finished;
    await Deno.remove(path.dirname(AGENT_SOCKET), { recursive: true });
    this.#lock[Symbol.dispose]();
  }
}

const OPTIONAL = "LABEL_OPTIONAL";
const field = (name: string, number: number, type: string) => (
  { name, number, type: `TYPE_${type}`, label: OPTIONAL }
);
const ALLOCATIONS = {
  name: "IPAllocationMetadata",
  number: 2,
  type: "TYPE_MESSAGE",
  typeName: ".rpc.IPAllocationMetadata",
  label: "LABEL_REPEATED",
};

/** The part of upstream's rpc/rpc.proto that is used here. */
const REGISTRY = createFileRegistry(
  fromJson(FileDescriptorProtoSchema, {
    name: "rpc.proto",
    package: "rpc",
    syntax: "proto3",
    messageType: [
      { name: "AddNetworkRequest", field: [field("ContainerID", 7, "STRING")] },
      { name: "DelNetworkRequest", field: [field("ContainerID", 8, "STRING")] },
      {
        name: "IPAllocationMetadata",
        field: [
          field("IPv4Addr", 1, "STRING"),
          field("DeviceNumber", 3, "INT32"),
          field("RouteTableId", 4, "INT32"),
        ],
      },
      ...["AddNetworkReply", "DelNetworkReply"].map((name) => (
        { name, field: [field("Success", 1, "BOOL"), ALLOCATIONS] }
      )),
    ],
    service: [{
      name: "CNIBackend",
      method: ["AddNetwork", "DelNetwork"].map((name) => ({
        name,
        inputType: `.rpc.${name}Request`,
        outputType: `.rpc.${name}Reply`,
      })),
    }],
  }),
  () => undefined,
);

function found<T>(what: T | undefined): T {
  if (what === undefined) throw new Error("rpc.proto lacks a part");
  return what;
}

const SERVICE = found(REGISTRY.getService("rpc.CNIBackend"));

function containerOf(method: string, request: Uint8Array): string {
  const schema = found(REGISTRY.getMessage(`rpc.${method}Request`));
  const message: Record<string, unknown> = fromBinary(schema, request);
  return String(message["ContainerID"]);
}

function answerOf(method: string, address: string, device: number): Uint8Array {
  const schema = found(REGISTRY.getMessage(`rpc.${method}Reply`));
  const reply: JsonValue = {
    Success: true,
    IPAllocationMetadata: [{
      IPv4Addr: address,
      DeviceNumber: device,
      // The main table for the primary ENI, else one that upstream's agent numbers so.
      RouteTableId: device === 0 ? 254 : device + 1,
    }],
  };
  return toBinary(schema, fromJson(schema, reply));
}
