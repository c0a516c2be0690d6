/**
 * A node of a cloud with all but the kernel and the API server: address
 * management and the fleet against EC2 and the metadata service as a process.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Attempt } from "../../../lib/aws/mod.ts";
import {
  sleep,
  startTimer,
  TaskGroup,
  untilAborted,
} from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import {
  type Address,
  type DualStack,
  type Prefix,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import { NodeIpam } from "../../../lib/ipam/mod.ts";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { ENI_CLUSTER_TAG, VPC_POOL } from "../../../lib/names/mod.ts";
import type { Listener } from "../../../lib/netlink/mod.ts";
import { createRegistry, type Registry } from "../../../lib/telemetry/mod.ts";
import type { VpcHostProblem, VpcHostSettings } from "../../../lib/vpc/mod.ts";
import { Cloud, type CloudConfig } from "../../../tests/lab/cloud/mod.ts";
import type { InstanceConfig } from "../../../tests/lab/cloud/config.ts";
import {
  byHand,
  changesOf,
  cloudConfig,
  CLUSTER,
  type Ec2Answer,
  GROUP,
  INSTANCE,
  policyOf,
  SUBNET,
  tagging,
  withPolicy,
} from "../../../tests/lab/cloud/testing.ts";
import { readCommandLine } from "../../../lib/flags/mod.ts";
import type { NodeScheduling } from "../cluster/node_source.ts";
import { VPC_FLAGS, vpcOptionsOf } from "../cloud/flags.ts";
import type { VpcOptions } from "../cloud/options.ts";
import {
  supplyOfVpc,
  type VpcSupply,
  type VpcSupplyOptions,
} from "./supply.ts";

/** A kernel that others leave alone. */
const QUIET: Listener<never> = {
  next: ({ signal }) =>
    untilAborted(signal).then(() => Promise.reject(signal.reason)),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

function optionsOf(args: readonly string[]): VpcOptions {
  const line = [`--cluster-name=${CLUSTER}`, ...args];
  const parsed = readCommandLine(VPC_FLAGS, line, {
    program: "coild",
    version: "1",
    about: "x",
  });
  if (parsed.kind !== "run") throw new Error("Cannot go on: no run");
  return vpcOptionsOf(parsed.values);
}

/** A process of coild, as far as addresses go. */
export interface NodeProcess extends AsyncDisposable {
  readonly ipam: NodeIpam;
  /** Gives a pod an address of each family. */
  add(pod: string): Promise<string>;
  /** Takes it back. */
  remove(pod: string): Promise<void>;
  /** What is known of the VPC. */
  readonly supply: Pick<VpcSupply, "allocations" | "lastRefusal" | "view">;
  readonly registry: Registry;
}

/** The node: what outlives a process. */
export class SimulatedNode implements AsyncDisposable {
  readonly cloud: Cloud;
  /** Addresses of pods, as the kernel has them, and those that rest with the time they began. */
  readonly routes: Map<string, DualStack<Address>> = new Map();
  readonly resting: Map<string, { address: Address; atMs: number }> = new Map();
  /** What the kernel was last asked for. */
  settings: VpcHostSettings | undefined;
  /** The fewest ENIs that the kernel was ever asked for. */
  fewestEnis: number = Infinity;
  /** What the kernel cannot do. */
  problems: readonly VpcHostProblem[] = [];
  /** How long it takes to change the kernel. */
  ensureMs = 0;
  /** Until then the kernel cannot be read, by `performance.now()`. */
  failsUntilMs: number = -Infinity;
  /** How far the clock by which ENIs are planned is turned. */
  aheadMs = 0;
  /** What waits for that clock, while it is held, and how long. */
  held: { readonly ms: number; readonly end: () => void }[] | undefined;
  /** Which pods the node is to have. */
  scheduling: NodeScheduling | undefined;
  /** The node's pods, as the API server shows them. */
  pods: readonly V1Pod[] = [];

  readonly #instance: string;

  private constructor(cloud: Cloud, instance: string = INSTANCE) {
    this.cloud = cloud;
    this.#instance = instance;
  }

  /** Starts a cloud with one t3.small, whose role has coild's rights alone. */
  static async start(
    changes: Partial<CloudConfig> = {},
  ): Promise<SimulatedNode> {
    const policy = await policyOf("coild");
    const config = withPolicy(cloudConfig(changes), policy);
    return new SimulatedNode(await Cloud.start(config));
  }

  /** Another instance of the same cloud; the cloud ends with this one. */
  neighbour(instance: string): SimulatedNode {
    return new SimulatedNode(this.cloud, instance);
  }

  /** Starts a process; it may not be ready yet. */
  process(
    args: readonly string[] = [],
    { cooldownMs = 30_000, waitMs = 60_000, onAttempt = () => {} }: {
      readonly cooldownMs?: number;
      readonly waitMs?: number;
      readonly onAttempt?: (attempt: Attempt) => void;
    } = {},
  ): NodeProcess & {
    readonly ready: Promise<void>;
    readonly running: Promise<void>;
  } {
    const { endpoints } = this.cloud;
    const network = this.#network();
    const registry = createRegistry();
    const supply = supplyOfVpc({
      vpc: optionsOf(args),
      host: this.#host(),
      rests: this.#rests(),
      network,
      cooldownMs,
      scheduling: () => this.scheduling,
      pods: () => this.pods,
      returnDelayMs: 100,
      env: new Map([
        ["AWS_ENDPOINT_URL_EC2", endpoints.ec2],
        [
          "AWS_EC2_METADATA_SERVICE_ENDPOINT",
          endpoints.imds[this.#instance] ?? "",
        ],
      ]),
      registry,
      onAttempt,
      clock: {
        nowMs: () => performance.now() + this.aheadMs,
        after: (ms, end) => {
          if (this.held === undefined) return startTimer(ms, end);
          this.held.push({ ms, end });
          return new DisposableStack();
        },
      },
    });
    const ipam = new NodeIpam({
      kernel: network,
      routes: { sync: () => Promise.resolve() },
      requestTimeoutMs: waitMs,
      cooldownMs,
      ...supply.ipam,
    });
    const following = supply.follow(ipam);
    const tasks = new TaskGroup();
    tasks.runAll(supply.loops);
    const start = async () => {
      const pods = [...this.routes].map(([containerId, addresses]) => (
        { containerId, ifname: "eth0", pool: VPC_POOL, addresses }
      ));
      const resting = await supply.rests?.list() ?? [];
      await ipam.start(pods, { signal: tasks.signal, resting });
    };
    const ready = start();
    ready.catch(() => {});
    return {
      ...this.#pods(ipam, { ready, rests: supply.rests }),
      ipam,
      ready,
      running: tasks.wait(),
      supply,
      registry,
      [Symbol.asyncDispose]: async () => {
        following[Symbol.dispose]();
        await ipam[Symbol.asyncDispose]();
        await tasks[Symbol.asyncDispose]();
        supply[Symbol.dispose]();
      },
    };
  }

  /** ADD and DEL, as far as addresses go. */
  #pods(
    ipam: NodeIpam,
    { ready, rests }: Pick<VpcSupply, "rests"> & {
      readonly ready: Promise<void>;
    },
  ): Pick<NodeProcess, "add" | "remove"> {
    const keyOf = (containerId: string) => ({ containerId, ifname: "eth0" });
    return {
      add: async (pod) => {
        await ready;
        const { addresses } = await ipam.allocate({
          ...keyOf(pod),
          pool: VPC_POOL,
        });
        this.routes.set(pod, addresses);
        return valuesOf(addresses).join(" ");
      },
      remove: async (pod) => {
        const releasing = ipam.beginRelease(keyOf(pod));
        if (releasing === undefined) throw new Error("Cannot go on: no pod");
        await rests.begin(releasing.addresses);
        this.routes.delete(pod);
        ipam.finishRelease(releasing);
      },
    };
  }

  /** Does something as an operator of the account does, and returns EC2's answer. */
  async byHand(
    action: string,
    parameters: Readonly<Record<string, string | number>>,
  ): Promise<Ec2Answer> {
    return await byHand(this.cloud, action, parameters);
  }

  /** Creates an ENI that has no tag of coild, only the one that its policy asks for. Returns its ID. */
  async createByHand(): Promise<string> {
    const { all } = await this.byHand("CreateNetworkInterface", {
      SubnetId: SUBNET,
      "SecurityGroupId.1": GROUP,
      // Coil's policies ask for it.
      ...tagging({ [ENI_CLUSTER_TAG]: CLUSTER }),
    });
    const [eni = ""] = all("networkInterfaceId");
    return eni;
  }

  /** Attaches such an ENI to the instance, and returns its ID. */
  async attachByHand(device: number): Promise<string> {
    const eni = await this.createByHand();
    await this.byHand("AttachNetworkInterface", {
      NetworkInterfaceId: eni,
      InstanceId: INSTANCE,
      DeviceIndex: device,
    });
    return eni;
  }

  /** Calls of EC2 that change something, by name, with how often they were made. */
  async changes(): Promise<Record<string, number>> {
    return await changesOf(this.cloud);
  }

  /** Addresses or prefixes of each attached ENI as the kernel was asked to have, lowest device first. */
  layout(): number[] {
    return [...this.settings?.enis ?? []]
      .sort((a, b) => a.device - b.device)
      .map(({ blocks }) => blocks.length);
  }

  /** Waits until the ENIs have so many addresses or prefixes. */
  async expectLayout(...counts: number[]): Promise<void> {
    await untilPasses(() => {
      const found = this.layout();
      if (String(found) === String(counts)) return;
      throw new Error(`The ENIs have ${found}, and not ${counts}`);
    });
  }

  /** The kernel's routes to pods. */
  #network() {
    return {
      routedWithin: (prefixes: readonly Prefix[]) =>
        Promise.resolve(
          [...this.routes.values()].flatMap(valuesOf).filter((address) =>
            prefixes.some((prefix) => prefix.contains(address))
          ),
        ),
    };
  }

  /** The kernel's half of ENIs. */
  #host(): VpcSupplyOptions["host"] {
    return {
      ensure: async (settings) => {
        if (performance.now() < this.failsUntilMs) throw new Error("no memory");
        this.settings = settings;
        const { length } = settings.enis;
        this.fewestEnis = Math.min(this.fewestEnis, length);
        if (this.ensureMs > 0) await sleep(this.ensureMs);
        return { changed: [], problems: this.problems, links: new Set() };
      },
      watchRoutes: () => QUIET,
      watchTable: () => QUIET,
    };
  }

  #rests() {
    return {
      begin: (addresses: readonly Address[]) => {
        for (const address of addresses) {
          this.resting.set(String(address), {
            address,
            atMs: performance.now(),
          });
        }
        return Promise.resolve();
      },
      end: (addresses: readonly Address[]) => {
        for (const address of addresses) this.resting.delete(String(address));
        return Promise.resolve();
      },
      list: () =>
        Promise.resolve([...this.resting.values()].map((
          { address, atMs },
        ) => ({ address, seconds: (performance.now() - atMs) / 1_000 }))),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cloud[Symbol.asyncDispose]();
  }
}

/** Flags of coild by which a node has as few addresses as its pods need. */
export const BARE: readonly string[] = [
  "--vpc-mode=address",
  "--warm-ips=1",
  "--min-ips=1",
];

/** An instance whose type has two ENIs with one address for pods each. */
export const NANO: InstanceConfig = {
  id: INSTANCE,
  type: "t3.nano",
  subnet: SUBNET,
  securityGroups: [GROUP],
};

/** Names of so many pods. */
export function podsOf(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `pod${n}`);
}

/** Waits for what may come only 10 s after the start. */
export async function later(check: () => void | Promise<void>): Promise<void> {
  await untilPasses(check).catch(() => untilPasses(check));
}

/** Fails while EC2 has an ENI that no instance has. */
export async function assertNothingLoose(node: SimulatedNode): Promise<void> {
  const { all } = await node.byHand("DescribeNetworkInterfaces", {
    "Filter.1.Name": "status",
    "Filter.1.Value.1": "available",
  });
  assert.deepEqual(all("networkInterfaceId"), []);
}

/** Each has a cloud of its own, which is a process. */
const MOST_AT_ONCE = 5;

/** Runs tests, which wait for most of their time, at once; each is a step. After a failure no further one begins, and those that run end. */
export async function runStories(
  t: Deno.TestContext,
  stories: ReadonlyMap<string, () => Promise<void>>,
): Promise<void> {
  const rest = stories.entries();
  const failed: string[] = [];
  const work = async () => {
    for (const [name, fn] of rest) {
      if (failed.length > 0) return;
      const passed = await t.step({
        name,
        fn,
        // They would take what others have open for theirs.
        sanitizeOps: false,
        sanitizeResources: false,
        sanitizeExit: false,
      });
      if (!passed) failed.push(name);
    }
  };
  await Promise.all(Array.from({ length: MOST_AT_ONCE }, work));
  assert.deepEqual(failed, []);
}
