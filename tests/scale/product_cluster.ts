// A cluster whose daemons are the product's own code, on a model API server and a
// clock that is turned.
import { sleep } from "../../lib/async/mod.ts";
import {
  ADDRESS_BLOCKS,
  type BlockRequest,
  blockRequestResult,
} from "../../lib/api/mod.ts";
import { type CoildOptions, parseCoildFlags } from "../../roles/coild/flags.ts";
import { parseControllerFlags } from "../../roles/coil_controller/flags.ts";
import { PodSource } from "../../roles/coild/cluster/pod_source.ts";
import { NO_EGRESS } from "../../roles/coild/egress/calls.ts";
import { EgressSource } from "../../roles/coild/gateways/source.ts";
import { fractionOf } from "../../roles/coild/blocks/jitter.ts";
import { egressRefsOf } from "../../lib/egress/mod.ts";
import { KubeClient, type Transport } from "../../lib/kube/mod.ts";
import { SYSTEM_NAMESPACE } from "../../lib/names/mod.ts";
import type { Random } from "../faults/random.ts";
import type { Life, Steps } from "../schedules/scheduler.ts";
import type { SimEvent, Stored } from "../schedules/sim_api.ts";
import { SimController } from "../schedules/sim_controller.ts";
import { SimKernel } from "../schedules/sim_kernel.ts";
import {
  cniArgs,
  SimCoild,
  type SimParts,
  type SimWorld,
} from "../schedules/sim_node.ts";
import { NO_FAULTS } from "../schedules/sim_transport.ts";
import type { SimClock } from "./clock.ts";
import {
  type ConnectOptions,
  type CountedRequest,
  CountingApi,
} from "./counting_api.ts";
import type { ModelServer } from "./model_server.ts";
import {
  type ClusterObjects,
  podObject,
  podOn,
  putObjects,
  servedView,
  SMALL_POOL,
} from "./objects.ts";
import { ProductGateway } from "./product_gateway.ts";
import { ProductRouter } from "./product_router.ts";
import { type Simulated, Totals } from "./simulated.ts";
import { HEARTBEAT_S, LEASE_MS, POD_WRITES, RESTART_MS } from "./simulated.ts";
import type { ClusterSize } from "./size.ts";
import { type Pod, type PodHost, Workload } from "./workload.ts";

const INFO = { program: "simulated", version: "0", about: "" };
/** As it is without flags. */
const CONTROLLER = parseControllerFlags([], INFO);
/** Between two writes of one pod's object, and before its ADD or DEL. */
const POD_STEP_MS = 200;
/** When it makes an ADD or DEL, and tries one that failed again. */
const KUBELET = { afterMs: POD_STEP_MS, retryMs: 15_000 };
const FULL_MS = 20_000;

/** As `mod.ts` of coil-controller has it. */
const EGRESS = {
  settings: {
    port: CONTROLLER.egressPort,
    backend: CONTROLLER.backend,
    drainTimeoutMs: CONTROLLER.drainTimeoutMs,
    systemNamespace: SYSTEM_NAMESPACE,
    leaseNamespace: SYSTEM_NAMESPACE,
  },
  image: { image: "example.com/coil:1", pod: {} },
};
/** From a Deployment to its pods. */
const GATEWAYS_MS = 10_000;

/** Who makes a request. */
export type ProductRole =
  | "coild"
  | "coil-router"
  | "coil-egress"
  | "coil-controller";

/** A node, with its daemons. */
export interface ProductNode extends PodHost {
  readonly name: string;
  isUp: boolean;
  readonly pods: Set<ProductPod>;
  kernel: SimKernel;
  coild: SimCoild;
  router: ProductRouter;
}

type ProductPod = Pod<ProductNode>;

/** What such a cluster is made of. */
export interface ProductParts {
  readonly size: ClusterSize;
  readonly clock: SimClock;
  readonly server: ModelServer;
  readonly random: Random;
  /** Of coild. */
  readonly flags?: readonly string[];
  /** Whether controllers have leases. Default: who leads is said by the cluster. */
  readonly hasLeases?: boolean;
  /** Called with each request. */
  readonly onRequest?: (request: CountedRequest, role: ProductRole) => void;
}

/** The cluster; its pods start within its first minute. */
export class ProductCluster implements Simulated<ProductNode>, Disposable {
  readonly nodes: ProductNode[] = [];
  readonly gateways: ProductGateway[] = [];
  readonly totals: Totals = new Totals();
  readonly #with: ProductParts;
  readonly #api: CountingApi;
  readonly #objects: ClusterObjects;
  readonly #workload: Workload<ProductNode>;
  readonly #stop = new AbortController();
  readonly #options: CoildOptions;
  /** One function for each kind of client, so that what it is shown is made once. */
  readonly #views: Readonly<
    Record<"coild" | "controller", NonNullable<ConnectOptions["view"]>>
  >;
  /** How many controllers have had a name. */
  #identities = 0;
  #controllers: {
    readonly controller: SimController;
    readonly lead: () => void;
  }[] = [];

  constructor(parts: ProductParts) {
    const { size, clock } = parts;
    this.#with = parts;
    this.#options = parseCoildFlags(parts.flags ?? [], INFO);
    this.#api = new CountingApi(parts);
    this.#api.onWritten = (event) => this.#note(event);
    const { sampleOf = 1 } = size;
    this.#views = {
      coild: (plural, object) => timesOf(plural, object, sampleOf),
      controller: servedView(size),
    };
    this.#objects = putObjects(this.#api, size);
    this.#workload = new Workload({
      ...parts,
      nodes: this.nodes,
      onStart: (pod) => this.#started(pod),
      onEnd: (pod) => this.#ended(pod),
    });
    this.#startController();
    this.#startController();
    this.#controllers[0]?.lead();
    this.addNodes(size.nodes);
    for (let i = 0; i < size.pods; i++) {
      clock.after(60_000 * i / size.pods, () => this.#workload.start());
    }
    this.#tick();
  }

  get pods(): number {
    return this.#workload.count;
  }

  /** Objects of a kind, as the API server has them. */
  list(plural: string): readonly Stored[] {
    return this.#api.list(plural);
  }

  get blocks(): number {
    return this.#api.list(ADDRESS_BLOCKS.plural).length;
  }

  set rush(times: number) {
    this.#workload.rush = times;
  }

  addNodes(count: number): void {
    for (let i = 0; i < count; i++) {
      const name = this.#objects.addNode();
      const daemons = this.#startDaemons(name);
      this.nodes.push({ name, isUp: true, pods: new Set(), ...daemons });
      this.#beat(name, HEARTBEAT_S * 1000 * this.#with.random.next());
    }
  }

  replaceCoild(node: ProductNode): void {
    node.coild.kill();
    this.#with.clock.after(RESTART_MS, () => {
      node.coild = this.#startCoild(node.name, node.kernel);
    });
  }

  loseNode(node: ProductNode): void {
    node.isUp = false;
    node.coild.kill();
    node.router.kill();
    for (const pod of node.pods) this.#workload.remove(pod);
  }

  returnNode(node: ProductNode): void {
    node.isUp = true;
    Object.assign(node, this.#startDaemons(node.name));
  }

  replacePod(): void {
    this.#workload.replace();
  }

  restartServer(awayMs: number): void {
    this.#api.restart(awayMs);
  }

  failOver(): void {
    const [leader, standby] = this.#controllers;
    this.#controllers = this.#controllers.slice(1);
    leader?.controller.kill();
    const { clock } = this.#with;
    clock.after(LEASE_MS, () => standby?.lead());
    clock.after(LEASE_MS + RESTART_MS, () => this.#startController());
  }

  startRefusing(node: ProductNode, retryMs: number): void {
    const { name: namespace, blockAddresses } = SMALL_POOL;
    for (let n = 0; n <= blockAddresses; n++) {
      const name = `${node.name}-${n}`;
      const object = podOn(node.name, { name, namespace });
      // Each node has its block before one is full, and asks for another.
      const afterMs = n === 0 ? POD_STEP_MS : FULL_MS;
      this.#objects.put("pods", object);
      this.#insist(
        { afterMs, retryMs },
        (signal) => node.coild.service.add(argsOf(object), { signal }),
      );
    }
  }

  /** Ends all daemons. */
  [Symbol.dispose](): void {
    this.#stop.abort(new Error("over"));
    for (const { controller } of this.#controllers) controller.kill();
    for (const gateway of this.gateways) gateway.kill();
    for (const { coild, router } of this.nodes) {
      coild.kill();
      router.kill();
    }
  }

  /** How a daemon reaches the API server, and what it is shown of objects. */
  #connect(role: ProductRole, view?: ConnectOptions["view"]): Transport {
    return this.#api.connect({
      ...view && { view },
      onRequest: (request) => this.#with.onRequest?.(request, role),
    });
  }

  #worldOf(role: ProductRole, view?: ConnectOptions["view"]): SimWorld {
    const { clock, random } = this.#with;
    const scheduler: Steps = {
      get nowMs() {
        return clock.nowMs;
      },
      random,
      // The kernel answers at once.
      point: (_label, { isOver }: Life) =>
        isOver ? new Promise(() => {}) : Promise.resolve(),
    };
    return {
      scheduler,
      faults: () => NO_FAULTS,
      connect: (life) => untilOver(life, this.#connect(role, view)),
    };
  }

  /** Of a node that has just started: its kernel knows nothing. */
  #startDaemons(node: string) {
    const kernel = new SimKernel();
    const coild = this.#startCoild(node, kernel);
    const client = new KubeClient(this.#connect("coil-router"));
    return { kernel, coild, router: new ProductRouter(client, node) };
  }

  #startCoild(node: string, kernel: SimKernel): SimCoild {
    const options = this.#options;
    const world = this.#worldOf("coild", this.#views.coild);
    return new SimCoild(world, {
      node,
      kernel,
      life: { name: node, isOver: false },
      timing: {
        intervalMs: options.reconcileIntervalMs,
        ipam: {
          requestTimeoutMs: options.blockRequestTimeoutMs,
          cooldownMs: options.cooldownMs,
          ...options.blockReturns,
          jitterOf: (block) => fractionOf(`${node}/${block}`),
        },
      },
      partsOf: (client) => partsOf(client, node, options),
    });
  }

  #startController(): void {
    const { hasLeases } = this.#with;
    const world = this.#worldOf("coil-controller", this.#views.controller);
    const { promise: lead, resolve } = Promise.withResolvers<void>();
    const life = { name: "controller", isOver: false };
    const controller = new SimController(world, life, {
      ...CONTROLLER,
      lead,
      identity: hasLeases ? `controller-${++this.#identities}` : undefined,
      followsPods: true,
      egress: EGRESS,
    });
    this.#controllers.push({ controller, lead: resolve });
  }

  /** Kubernetes makes the pods of a Deployment. */
  #startGateways(deployment: Stored): void {
    this.#objects.setReady(deployment);
    const { size } = this.#with;
    const { namespace = "", name } = deployment.metadata;
    for (let i = 0; i < size.gatewaysEach; i++) {
      const client = new KubeClient(this.#connect("coil-egress"));
      this.gateways.push(new ProductGateway(client, { namespace, name }));
    }
  }

  /** What goes on all the time; once a second. */
  #tick(): void {
    const { clock } = this.#with;
    if (clock.nowMs >= 60_000) this.#workload.startSecond();
    clock.after(1000, () => this.#tick());
  }

  /** kubelet reports the node's status. */
  #beat(node: string, afterMs: number): void {
    this.#with.clock.after(afterMs, () => {
      this.#objects.touch("nodes", node);
      this.#beat(node, 1000 * HEARTBEAT_S);
    });
  }

  #note({ type, plural, object }: SimEvent): void {
    if (plural === "addressblocks") {
      if (type === "ADDED") this.totals.obtained++;
      if (type === "DELETED") this.totals.givenBack++;
    } else if (plural === "blockrequests" && type === "MODIFIED") {
      const { state } = blockRequestResult(object as unknown as BlockRequest);
      if (state === "failed") this.totals.refused++;
    } else if (plural === "deployments" && type === "ADDED") {
      const { clock } = this.#with;
      clock.after(GATEWAYS_MS, () => this.#startGateways(object));
    }
  }

  #started(pod: ProductPod): boolean {
    this.totals.starts++;
    const object = podObject(pod, this.#with);
    this.#objects.put("pods", object);
    // One more is that of its addresses.
    this.#write(object.metadata.name, POD_WRITES.start - 2);
    this.#insist(KUBELET, async (signal) => {
      if (!pod.node.pods.has(pod)) return;
      const added = await pod.node.coild.service
        .add(argsOf(object), { signal });
      this.#objects.setAddresses(object, added);
    });
    return true;
  }

  #ended(pod: ProductPod): void {
    const object = podObject(pod, this.#with);
    const { name } = object.metadata;
    const { clock } = this.#with;
    this.#write(name, POD_WRITES.end - 1);
    const lastMs = POD_STEP_MS * POD_WRITES.end;
    clock.after(lastMs, () => this.#objects.remove("pods", name));
    this.#insist(KUBELET, async (signal) => {
      if (!pod.node.isUp) return;
      await pod.node.coild.service.del(argsOf(object), { signal });
    });
  }

  /** Others write a pod's object, one time after the other. */
  #write(name: string, times: number): void {
    for (let i = 1; i <= times; i++) {
      this.#with.clock.after(POD_STEP_MS * i, () => {
        this.#objects.touch("pods", name);
      });
    }
  }

  /** Tries again and again, until it is done. */
  async #insist(
    { afterMs, retryMs }: typeof KUBELET,
    attempt: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    const { signal } = this.#stop;
    await sleep(afterMs).catch(() => {});
    while (!signal.aborted) {
      try {
        await attempt(signal);
        return;
      } catch {
        // A kubelet does not ask why.
        await sleep(retryMs, { signal }).catch(() => {});
      }
    }
  }
}

/** Pods and egress of a node; gateways are not asked anything. */
function partsOf(
  client: KubeClient,
  nodeName: string,
  options: CoildOptions,
): SimParts {
  const pods = new PodSource(client, {
    nodeName,
    pools: options.enableIpam,
    defaultEgresses: options.namespaceEgress,
  });
  const source = new EgressSource(client, {
    isNamed: (namespace) => pods.hasClientsOf(namespace),
  });
  return {
    pods,
    egress: {
      ...NO_EGRESS,
      async wanted(_request, { annotations }, options) {
        await source.find(egressRefsOf(annotations), options);
        return undefined;
      },
    },
    loops: { ...pods.loops, ...source.loops },
  };
}

/** What a process asks for that was killed never happens: it gives no lease back. */
function untilOver(life: Life, transport: Transport): Transport {
  const never = new Promise<never>(() => {});
  return {
    ...transport,
    request: (...args) => life.isOver ? never : transport.request(...args),
    stream: (...args) => life.isOver ? never : transport.stream(...args),
  };
}

function argsOf({ metadata: { name, namespace } }: Stored) {
  return cniArgs({ containerId: name, ifname: "eth0" }, {
    pool: namespace ?? "",
  });
}

/** A pool's status as it is in a cluster that is so many times as large. */
function timesOf(plural: string, object: Stored, times: number): Stored {
  const status = object.status as {
    readonly blocks?: Readonly<Record<string, number>>;
  } | undefined;
  if (plural !== "addresspools" || status?.blocks === undefined) return object;
  const blocks = Object.fromEntries(
    Object.entries(status.blocks).map(([name, n]) => [name, times * n]),
  );
  return { ...object, status: { ...status, blocks } };
}
