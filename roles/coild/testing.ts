/**
 * coild's egress with an API server in memory and pods whose network is a note of what was planned, for unit tests.
 *
 * @module
 */
import type { Egress } from "../../lib/api/mod.ts";
import { type Clock, KeyedMutex, TaskGroup } from "../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../lib/async/testing.ts";
import type {
  ClientPlan,
  EndedConnections,
  KnownChoices,
  OpenProbeSocket,
} from "../../lib/egress/mod.ts";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import {
  type EventInfo,
  type EventRecorder,
  KubeClient,
  KubeMetrics,
  type V1EndpointSlice,
  type V1Pod,
} from "../../lib/kube/mod.ts";
import { MemoryApi } from "../../lib/kube/testing.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import { createRegistry, type Registry } from "../../lib/telemetry/mod.ts";
import type { Attachment } from "./calls/attachment.ts";
import type { Attachments, Connected } from "./calls/attachments.ts";
import type { AddRequest } from "./calls/cni_request.ts";
import { type PodFacts, PodSource } from "./cluster/pod_source.ts";
import type { AppliedPlan, EgressPlane } from "./egress/plane.ts";
import {
  connectEgress,
  type EgressDependencies,
  type EgressPart,
} from "./egress_part.ts";
import { parseCoildFlags } from "./flags.ts";
import { CallsInFlight } from "./observe/calls_in_flight.ts";
import { CoildMetrics } from "./observe/metrics.ts";
import { PodEvents } from "./observe/pod_events.ts";

// Loaded when a namespace is first opened; within a test that would count as a leak.
openLibc();

/** What annotates a pod as a client of Egress "nat/internet". */
export const CLIENT: Readonly<Record<string, string>> = {
  "egress.coil.cybozu.com/nat": "internet",
};

const { signal } = new AbortController();

/** The network inside pods, which all have one namespace here. */
class FakePlane implements EgressPlane {
  /** What was done: "apply GATEWAYS…", "clear" or "inspect". */
  readonly done: string[] = [];
  /** The last plan. */
  plan: ClientPlan | undefined;
  /** What `inspect()` finds in the pod's network, until a plan is applied again. */
  damage: readonly string[] = [];
  /** Whether the pod's address cannot be used yet. */
  awaitsAddress = false;
  /** Thrown by `prepare()`. */
  unsupported: Error | undefined;
  /** Thrown by the next `apply()`. */
  failure: Error | undefined;
  /** Why no connections can be ended. */
  endFailure: Error | undefined;

  prepare(): Promise<void> {
    return this.unsupported === undefined
      ? Promise.resolve()
      : Promise.reject(this.unsupported);
  }

  apply(plan: ClientPlan): Promise<AppliedPlan> {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) return Promise.reject(failure);
    const ways = plan.tunnels.map(({ remote }) => `${remote}`);
    this.done.push(["apply", ...ways].join(" "));
    this.plan = plan;
    this.damage = [];
    return Promise.resolve({ awaitsAddress: this.awaitsAddress });
  }

  choose(plan: ClientPlan): Promise<void> {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) return Promise.reject(failure);
    this.done.push("choose");
    this.plan = plan;
    return Promise.resolve();
  }

  clear(): Promise<boolean> {
    this.done.push("clear");
    this.plan = undefined;
    return Promise.resolve(true);
  }

  inspect(): Promise<readonly string[]> {
    return Promise.resolve(this.damage);
  }

  refused(): Promise<readonly Prefix[]> {
    return Promise.resolve([Prefix.parse("0.0.0.0/0")]);
  }

  endConnections(
    gateways: readonly Address[],
  ): Promise<EndedConnections> {
    const { endFailure } = this;
    if (endFailure !== undefined) return Promise.reject(endFailure);
    this.done.push(`end ${gateways.join()}`);
    return Promise.resolve({ aborted: 1, forgotten: 2 });
  }

  choices(): Promise<KnownChoices> {
    const { choices = [], tunnels = [] } = this.plan ?? {};
    const allOf = (name: string) =>
      choices.filter(({ tunnel }) => tunnel === name).flatMap(({ all }) => all);
    const chosen = new Map<string, Address[]>();
    for (const { name, gateway } of tunnels) {
      const all = allOf(name);
      if (all.length === 0) continue;
      chosen.set(gateway, [...chosen.get(gateway) ?? [], ...all]);
    }
    return Promise.resolve({
      chosen,
      lost: new Set(choices.flatMap(({ lost }) => lost)),
    });
  }
}

/** Egress on node "n1", with Egress "nat/internet" whose Service is 10.96.0.9. */
export class ClientLab implements AsyncDisposable {
  readonly api: MemoryApi;
  readonly plane: FakePlane = new FakePlane();
  readonly locks: KeyedMutex = new KeyedMutex();
  /** The Events so far: "REASON of NAMESPACE/NAME: MESSAGE". */
  readonly events: string[] = [];
  readonly registry: Registry = createRegistry();
  readonly part: EgressPart;
  /** Interfaces that an earlier coild made, by pod. */
  readonly found: Map<string, Attachment> = new Map();
  readonly #pods: PodSource;
  readonly #group = new TaskGroup();
  #egress: Partial<Egress> = {};
  #serviceIp = "";
  readonly #stack = new AsyncDisposableStack();

  constructor(
    {
      api = new MemoryApi(),
      clock,
      inspectMs = 3_600_000,
      openProbe,
      openConntrack,
    }: {
      readonly api?: MemoryApi;
      readonly clock?: Clock;
      readonly inspectMs?: number;
      readonly openProbe?: OpenProbeSocket;
      readonly openConntrack?: EgressDependencies["openConntrack"];
    } = {},
  ) {
    this.api = api;
    this.putNamespace();
    this.putEgress();
    const client = new KubeClient(this.api, { fieldManager: "coild" });
    const { registry } = this;
    const event = (
      { namespace, name }: { namespace?: string; name?: string },
      { reason, message }: EventInfo,
    ) => void this.events.push(`${reason} of ${namespace}/${name}: ${message}`);
    const recorder = { event } as unknown as EventRecorder;
    const pods = new PodSource(client, {
      nodeName: "n1",
      pools: false,
      defaultEgresses: true,
    });
    this.#pods = pods;
    const info = { program: "coild", version: "0", about: "" };
    const find = () => Promise.resolve(this.found);
    this.part = connectEgress({
      options: {
        ...parseCoildFlags([], info),
        reconcileIntervalMs: inspectMs,
        egressEventDelayMs: 0,
      },
      nodeName: "n1",
      client,
      registry,
      metrics: new CoildMetrics(registry),
      kubeMetrics: new KubeMetrics(registry),
      recorder,
      pods,
      events: new PodEvents(recorder, pods),
      stack: this.#stack,
      locks: this.locks,
      calls: new CallsInFlight(),
      lookMs: undefined,
      attachments: { find } as unknown as Attachments,
      plane: this.plane,
      openProbe,
      openConntrack,
      clock,
    });
  }

  /** Stores the pods' namespace. */
  putNamespace(annotations: Readonly<Record<string, string>> = {}): void {
    this.api.put("namespaces", { metadata: { name: "team", annotations } });
  }

  /** Stores the Egress, its Service and its one gateway; each is another version. */
  putEgress(
    {
      destination = "0.0.0.0/0",
      serviceIp = "10.96.0.9",
      generation = 1,
      gatewaySelection = "Service",
      lostConnections = "End",
    }: {
      readonly lostConnections?: "End" | "Keep";
      readonly destination?: string;
      readonly gatewaySelection?: "Service" | "Direct";
      readonly serviceIp?: string;
      readonly generation?: number;
    } = {},
  ): void {
    const metadata = { namespace: "nat", name: "internet" };
    const labels = {
      "app.kubernetes.io/name": "coil",
      "app.kubernetes.io/component": "egress",
    };
    const egress: Egress = {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { ...metadata, generation },
      spec: { destinations: [destination], gatewaySelection, lostConnections },
    };
    this.#egress = egress;
    this.api.put("egresses", egress);
    if (serviceIp !== this.#serviceIp) {
      // A Service that is made again gets EndpointSlices of its own.
      this.#serviceIp = serviceIp;
      this.api.remove("endpointslices/nat/internet-ipv4");
    }
    this.api.put("services", {
      metadata: { ...metadata, labels },
      spec: { clusterIPs: [serviceIp] },
    });
    this.putGateway({ isReady: true });
  }

  /** Stores what a gateway says when it begins to end. */
  announceEnd(name: string): void {
    const gateways = [{ name, draining: true }];
    this.api.put("egresses", { ...this.#egress, status: { gateways } });
  }

  /** Stores whether the gateway is ready. */
  putGateway({ isReady }: { readonly isReady: boolean }): void {
    this.putGateways(isReady ? ["10.64.0.9"] : []);
  }

  /** Stores the gateways, all of which are ready but for those that drain; of some the zone that should use them. */
  putGateways(
    addresses: readonly string[],
    draining: readonly string[] = [],
    zones: Readonly<Record<string, string>> = {},
  ): void {
    const endpoints = addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: !draining.includes(address), serving: true },
      ...(zones[address] !== undefined && {
        hints: { forZones: [{ name: zones[address] }] },
      }),
    }));
    this.#putSlice({ addressType: "IPv4", endpoints });
  }

  /** Stores the gateways' addresses of IPv6. */
  putIpv6Gateways(addresses: readonly string[]): void {
    const endpoints = addresses.map((address) => ({ addresses: [address] }));
    this.#putSlice({ addressType: "IPv6", endpoints });
  }

  #putSlice(
    slice: Pick<V1EndpointSlice, "addressType" | "endpoints">,
  ): void {
    this.api.put("endpointslices", {
      metadata: {
        namespace: "nat",
        name: `internet-${slice.addressType.toLowerCase()}`,
        uid: `${slice.addressType} slice of ${this.#serviceIp}`,
        labels: {
          "app.kubernetes.io/name": "coil",
          "app.kubernetes.io/component": "egress",
          "kubernetes.io/service-name": "internet",
        },
      },
      ...slice,
    });
  }

  /** Stores a pod of this node. */
  putPod(
    name: string,
    annotations: Readonly<Record<string, string>> = {},
    { ip = "10.64.0.1", labels = {} }: {
      readonly ip?: string;
      readonly labels?: Readonly<Record<string, string>>;
    } = {},
  ): V1Pod {
    const pod = {
      metadata: {
        namespace: "team",
        name,
        uid: `uid-${name}`,
        annotations,
        labels,
      },
      spec: { nodeName: "n1", containers: [] },
      status: { phase: "Running", podIPs: [{ ip }] },
    };
    this.api.put("pods", pod);
    return pod;
  }

  /** Runs what follows the API server. */
  start(): this {
    const loops = { ...this.#pods.loops, ...this.part.loops };
    this.#group.runAll(loops);
    return this;
  }

  /** The interface of a pod. */
  attachmentOf(name: string, ip: string = "10.64.0.1"): Attachment {
    return {
      key: { containerId: `c-${name}`, ifname: "eth0" },
      pod: { namespace: "team", name },
      uid: `uid-${name}`,
      addresses: { ipv4: Address.parse(ip) },
      openNetns: () => Promise.resolve(Netns.open("/proc/self/ns/net")),
    };
  }

  /** The part of an ADD that is about egress. Gateways hear of a pod whose address is of a block. */
  async add(
    name: string,
    annotations: Readonly<Record<string, string>> = {},
    { block, ifname = "eth0", isGateway = false }: {
      readonly block?: string;
      readonly ifname?: string;
      readonly isGateway?: boolean;
    } = {},
  ): Promise<void> {
    const attachment = this.attachmentOf(name);
    const request = {
      ...attachment.key,
      ifname,
      netns: "/proc/self/ns/net",
    } as AddRequest;
    const pod: PodFacts = {
      ...attachment.pod,
      annotations,
      isGateway,
      from: "cache",
    };
    const { calls } = this.part;
    const wanted = await calls.wanted(request, pod, { signal });
    const announcement = calls.announcement(request, { wanted, signal });
    if (block !== undefined) announcement?.start({ ...attachment, block });
    const connected = {
      ...attachment,
      result: {},
      undo: () => Promise.resolve(),
    } as unknown as Connected;
    await calls.setUp(connected, { request, wanted, announcement, signal });
  }

  /** The part of a CHECK that is about egress. */
  async check(name: string): Promise<void> {
    await this.part.calls.check(this.attachmentOf(name).key, { signal });
  }

  /** See {@linkcode untilPasses}. */
  async until(check: () => void): Promise<void> {
    await untilPasses(check);
  }

  /** Waits until nothing was done for a while. */
  async quiet(): Promise<void> {
    await untilQuiet(() => this.plane.done.length, 60);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#group[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }
}
