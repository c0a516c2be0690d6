/**
 * The halves of coil-controller with an API server in memory, for unit tests.
 *
 * @module
 */
import assert from "node:assert/strict";
import type {
  BlockRequest,
  BlockRequestSpec,
  Egress,
  EgressSpec,
  SpiderCoordinator,
  SpiderCoordinatorSpec,
  SpiderCoordinatorStatus,
} from "../../lib/api/mod.ts";
import { type Clock, TaskGroup } from "../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../lib/async/testing.ts";
import {
  type EventInfo,
  type EventRecorder,
  KubeClient,
  KubeMetrics,
  type ObjectMeta,
  type V1ClusterRoleBinding,
} from "../../lib/kube/mod.ts";
import { MemoryApi } from "../../lib/kube/testing.ts";
import { HeapKeeper, openLibc } from "../../lib/linux/mod.ts";
import { Registry } from "../../lib/telemetry/mod.ts";
import { openCoordinator } from "./coordinator_part.ts";
import { type EgressPartOptions, openEgress } from "./egress_part.ts";
import { IpamMetrics } from "./ipam/metrics.ts";
import { type IpamPartOptions, openIpam } from "./ipam_part.ts";
import { openPods, type PodsPartOptions } from "./pods_part.ts";

// Loaded when memory is first given back; within a test that would count as a leak.
openLibc();

/** An API server in memory, and a controller that leads once it is started. */
abstract class ControllerLab implements AsyncDisposable {
  readonly api: MemoryApi = new MemoryApi();
  readonly registry: Registry = new Registry();
  /** The Events so far: "REASON of NAMESPACE/NAME: MESSAGE". */
  readonly events: string[] = [];
  /** UIDs that Events were about, by "REASON of NAMESPACE/NAME"; an Event without one is not shown with its object. */
  readonly uids: Map<string, string | undefined> = new Map();
  readonly #group = new TaskGroup();

  /** Starts the controller. */
  start(): this {
    const { api, events, registry, uids } = this;
    const event = (
      { namespace, name, uid }: ObjectMeta,
      { reason, message }: EventInfo,
    ) => {
      const place = [namespace, name].filter((part) => part).join("/");
      const what = `${reason} of ${place}`;
      events.push(`${what}: ${message}`);
      uids.set(what, uid);
    };
    const lead = this.open({
      client: new KubeClient(api, { fieldManager: "coil-controller" }),
      events: { event } as unknown as EventRecorder,
      kubeMetrics: new KubeMetrics(registry),
    }, this.#group);
    this.#group.run("leader", lead);
    return this;
  }

  protected abstract open(
    options: Pick<EgressPartOptions, "client" | "events" | "kubeMetrics">,
    group: TaskGroup,
  ): (leading: AbortSignal) => Promise<void>;

  /** See {@linkcode untilPasses}. */
  async until(check: () => void): Promise<void> {
    await untilPasses(check);
  }

  /** Waits until the controller has written nothing for a while. */
  async quiet(): Promise<void> {
    await untilQuiet(() => this.api.writes.length, 100);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
  }
}

type EgressLabOptions =
  & Pick<EgressPartOptions, "statusIntervalMs">
  & { readonly heap?: PodsPartOptions["heap"] };

/** The egress half, with the ClusterRoleBinding of gateways. */
export class EgressLab extends ControllerLab {
  readonly #options: EgressLabOptions;

  constructor(options: EgressLabOptions = {}) {
    super();
    this.#options = options;
    this.api.put("clusterrolebindings", bindingNamed("coil-egress"));
  }

  protected override open(
    options: Pick<EgressPartOptions, "client" | "events" | "kubeMetrics">,
    group: TaskGroup,
  ): (leading: AbortSignal) => Promise<void> {
    const { heap = new HeapKeeper(), statusIntervalMs } = this.#options;
    return openEgress({
      ...options,
      heap,
      statusIntervalMs,
      pods: openPods(options.client, group, {
        heap,
        everyAddress: false,
        namespaceEgress: true,
      }),
      registry: this.registry,
      settings: {
        port: 5555,
        backend: "nftables",
        drainTimeoutMs: 300_000,
        systemNamespace: "kube-system",
        leaseNamespace: "kube-system",
      },
      image: { image: "example.com/coil:1", pod: {} },
    }, group);
  }
}

/** The status of SpiderCoordinator, with a ServiceCIDR; the networks are looked up every 20 ms or so. */
export class SpiderLab extends ControllerLab {
  constructor() {
    super();
    this.api.put("servicecidrs", {
      metadata: { name: "kubernetes" },
      spec: { cidrs: ["10.96.0.0/12"] },
    });
  }

  protected override open(
    options: Pick<EgressPartOptions, "client" | "events" | "kubeMetrics">,
    group: TaskGroup,
  ): (leading: AbortSignal) => Promise<void> {
    return openCoordinator({ ...options, networksIntervalMs: 20 }, group);
  }

  /** Stores a SpiderCoordinator as an admin does; the status stays. */
  want(
    spec: SpiderCoordinatorSpec,
    { name = "default", generation = 1, uid = "uid-of-first" }: Pick<
      ObjectMeta,
      "name" | "generation" | "uid"
    > = {},
  ): void {
    const { status } = this.resource(name) ?? {};
    this.api.put("spidercoordinators", {
      apiVersion: "spiderpool.spidernet.io/v2beta1",
      kind: "SpiderCoordinator",
      metadata: { name, generation, uid },
      spec,
      ...status && { status },
    });
  }

  /** Changes the status as another controller does. */
  overwrite(status: SpiderCoordinatorStatus): void {
    const found = this.resource();
    if (found === undefined) return;
    this.api.put("spidercoordinators", {
      ...found,
      status: { ...found.status, ...status },
    });
  }

  resource(name: string = "default"): SpiderCoordinator | undefined {
    return this.api.get(`spidercoordinators//${name}`);
  }
}

/** The half for addresses, with pool "default" of four blocks of 8 addresses, and nodes "n1" and "n2". */
export class IpamLab extends ControllerLab {
  readonly #nodeAddressFactor: number;
  readonly #heap: IpamPartOptions["heap"] | undefined;
  readonly #clock: Clock | undefined;

  constructor(
    { nodeAddressFactor = 0, heap, clock }: {
      readonly nodeAddressFactor?: number;
      readonly heap?: IpamPartOptions["heap"];
      /** By which addresses are audited. */
      readonly clock?: Clock;
    } = {},
  ) {
    super();
    this.#clock = clock;
    this.#nodeAddressFactor = nodeAddressFactor;
    this.#heap = heap;
    this.api.put("addresspools", {
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: "default" },
      spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.64.0.0/27" }] },
    });
    for (const [n, name] of ["n1", "n2"].entries()) {
      const address = `192.0.2.${n + 1}`;
      this.api.put("nodes", {
        metadata: { name },
        status: { addresses: [{ type: "InternalIP", address }] },
      });
    }
  }

  protected override open(
    options: Pick<EgressPartOptions, "client" | "events" | "kubeMetrics">,
    group: TaskGroup,
  ): (leading: AbortSignal) => Promise<void> {
    return openIpam({
      ...options,
      pods: openPods(options.client, group, {
        heap: new HeapKeeper(),
        everyAddress: true,
        namespaceEgress: false,
      }),
      metrics: new IpamMetrics(this.registry),
      gcIntervalMs: 3_600_000,
      nodeGraceMs: 0,
      concurrentRequests: 4,
      nodeAddressFactor: this.#nodeAddressFactor,
      maxPodsPerNode: 1000,
      heap: this.#heap ?? new HeapKeeper(),
      clock: this.#clock,
    }, group);
  }

  /** Asks for a block as coild does. */
  ask(name: string, spec: Partial<BlockRequestSpec> = {}): void {
    this.api.put("blockrequests", {
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: { name },
      spec: { nodeName: "n1", poolName: "default", ...spec },
    });
  }

  /** The answer to a request: the block's name, or the reason of a refusal. */
  answerOf(name: string): string | undefined {
    const { status } = this.api.get<BlockRequest>(`blockrequests//${name}`) ??
      {};
    const failed = status?.conditions?.find(({ type }) => type === "Failed");
    return failed?.reason ?? status?.addressBlockName;
  }

  /** Waits for the answer to a request. */
  async answered(name: string): Promise<string | undefined> {
    await this.until(() => assert.ok(this.answerOf(name), name));
    return this.answerOf(name);
  }
}

/** A ClusterRoleBinding without subjects, as manifests have it. */
export function bindingNamed(name: string): V1ClusterRoleBinding {
  const apiGroup = "rbac.authorization.k8s.io";
  return {
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name },
  };
}

/** The Egress "internet/nat", or one of another name. */
export function egressOf(
  { name = "nat", namespace = "internet", ...spec }:
    & Omit<EgressSpec, "destinations">
    & { readonly name?: string; readonly namespace?: string } = {},
): Egress {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace, name, uid: `uid-of-${name}` },
    spec: { destinations: ["0.0.0.0/0"], replicas: 2, ...spec },
  };
}
