/**
 * Helpers of the tests of coil-egress: a real API server with an Egress, its
 * pods as objects, and the daemon in this process with the rights that
 * deploy/base gives it. The kernel's half is a set of addresses: what the real
 * one does needs Foo over UDP and is tested in tests/vm.
 */
import assert from "node:assert/strict";
import type {
  Egress,
  EgressClientSlice,
  EgressGatewayStatus,
} from "../../lib/api/mod.ts";
import { Address, type DualStack } from "../../lib/inet/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { openLibc } from "../../lib/linux/mod.ts";
import { configureLogging, createRegistry } from "../../lib/telemetry/mod.ts";
import {
  type GatewayDependencies,
  parseEgressFlags,
  runGateway,
} from "../../roles/coil_egress/mod.ts";
import { type ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";
import { type Access, isAllowed, untilAllowed } from "./access.ts";
import { untilInMemory } from "./api_memory.ts";
import { ClientsController } from "./clients_controller.ts";
import { ClientsKernel } from "./clients_kernel.ts";
import { COIL_API } from "./crds.ts";
import { patchPodStatus } from "./patch_status.ts";

// The daemon loads the C library when it first gives memory back; within a test that would count as a leak.
openLibc();

/** Namespace of the Egress. */
export const NAMESPACE = "nat";
/** Name of the Egress. */
export const EGRESS = "internet";
/** Both. */
export const EGRESS_KEY: string = `${NAMESPACE}/${EGRESS}`;
/** Where the API server has its slices. */
export const SLICES_PATH: string =
  `${COIL_API}/namespaces/${NAMESPACE}/egressclientslices`;
/** The annotation of its clients. */
export const CLIENT: Readonly<Record<string, string>> = {
  [`egress.coil.cybozu.com/${NAMESPACE}`]: EGRESS,
};

/** The Egress. */
export const EGRESS_OBJECT: Readonly<Record<string, unknown>> = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "Egress",
  metadata: { namespace: NAMESPACE, name: EGRESS },
  spec: { destinations: ["0.0.0.0/0", "::/0"] },
};

const RBAC = "rbac.authorization.k8s.io";

/** The addresses of each gateway. */
export const ADDRESSES: DualStack<Address> = {
  ipv4: Address.parse("10.99.0.1"),
  ipv6: Address.parse("fd99::1"),
};

/** What a pod is to be like. */
export interface PodOptions {
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly node?: string;
  readonly hostNetwork?: boolean;
  readonly serviceAccount?: string;
}

/** A token as kubelet projects it into a pod. */
export interface TokenOptions {
  readonly namespace?: string;
  readonly account?: string;
  /** Empty for that of the API server itself. */
  readonly audience?: string;
  /** The pod that it is bound to; none without it. */
  readonly pod?: string;
}

/** A gateway in this process; disposing of it stops it as SIGTERM does. */
export interface RunningGateway extends AsyncDisposable {
  readonly kernel: ClientsKernel;
  /** Everything it has logged. */
  readonly logs: string[];
  /** Where announcements are taken. */
  readonly announceUrl: string;
  /** Status and body of `/readyz`. */
  ready(): Promise<{ readonly status: number; readonly body: string }>;
  /** The samples of `/metrics` that begin so. */
  metrics(prefix: string): Promise<string[]>;
  /** Tells it to end; settles when it has. */
  stop(): Promise<void>;
}

/** How {@link EgressLab.startGateway} starts one. */
export interface GatewayOptions extends
  Partial<
    Pick<
      GatewayDependencies,
      "client" | "confirmMs" | "lostMs" | "statusIntervalMs" | "leastDrainMs"
    >
  > {
  /** Whether nobody writes slices for it, which is so only where the test does. */
  readonly isAlone?: boolean;
  readonly kernel?: ClientsKernel;
  readonly pod?: string;
  /** Its node, where that matters. */
  readonly node?: string;
  readonly args?: readonly string[];
}

/** A right: verb, resource with subresource, group, namespace; the empty namespace is all of them. */
export type Right = readonly [
  verb: string,
  what: string,
  group: string,
  namespace: string,
];

/** One right of each binding: when these are in force, all are. */
const BOUND: readonly Right[] = [
  ["list", "egressclientslices", "coil.cybozu.com", NAMESPACE],
  ["create", "tokenreviews", "authentication.k8s.io", ""],
];

/** The same, of the gateways' service account. */
function accessOf([verb, what, group, namespace]: Right): Access {
  const [resource = "", subresource] = what.split("/");
  return {
    user: `system:serviceaccount:${NAMESPACE}:coil-egress`,
    groups: ["system:serviceaccounts", "system:authenticated"],
    verb,
    group,
    resource,
    subresource,
    namespace,
  };
}

/** A control plane with an Egress. */
export class EgressLab implements AsyncDisposable {
  readonly plane: ControlPlane;
  /** Says who the clients are. */
  readonly controller: ClientsController;
  /** Kubeconfig of the gateways' service account. */
  readonly kubeconfig: string;
  #gateways = 0;

  private constructor(
    plane: ControlPlane,
    parts: {
      readonly kubeconfig: string;
      readonly controller: ClientsController;
    },
  ) {
    this.plane = plane;
    this.kubeconfig = parts.kubeconfig;
    this.controller = parts.controller;
  }

  /** Starts the control plane and makes what the controller would make: the Egress' account, with its rights. */
  static async start(name: string): Promise<EgressLab> {
    const plane = await startCoilPlane({ name, audit: "metadata" });
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const lab = await EgressLab.on(plane);
    undo.move();
    return lab;
  }

  /** Makes the same on a control plane that has Coil's resources and rights. */
  static async on(plane: ControlPlane): Promise<EgressLab> {
    const account = { namespace: NAMESPACE, name: "coil-egress" };
    const subjects = [{ kind: "ServiceAccount", ...account }];
    await plane.apply(
      ...[NAMESPACE, "team"].map((name) => ({
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name },
      })),
      { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
      EGRESS_OBJECT,
      {
        apiVersion: `${RBAC}/v1`,
        kind: "RoleBinding",
        subjects,
        metadata: { name: "coil-egress", namespace: NAMESPACE },
        roleRef: {
          apiGroup: RBAC,
          kind: "ClusterRole",
          name: "coil-egress-gateway",
        },
      },
    );
    // As the controller does it: not by `kubectl apply`, which would own them.
    await plane.request(
      "PATCH",
      `/apis/${RBAC}/v1/clusterrolebindings/coil-egress`,
      { subjects },
      { contentType: "application/merge-patch+json" },
    );
    const token = await plane.serviceAccountToken(account);
    const controller = await ClientsController.on(plane);
    const kubeconfig = await plane.kubeconfigFor({ token });
    // Before, a gateway cannot check tokens: announcements are answered with 503.
    for (const right of BOUND) await untilAllowed(plane, accessOf(right));
    return new EgressLab(plane, { kubeconfig, controller });
  }

  /** Whether the API server lets gateways do that, by its own word. */
  isAllowed(right: Right): Promise<boolean> {
    return isAllowed(this.plane, accessOf(right));
  }

  /** A client with the gateways' rights. */
  gatewayClient(): Promise<KubeClient> {
    return KubeClient.load({ kubeconfig: this.kubeconfig });
  }

  /** Creates a pod and returns its UID. */
  async createPod(name: string, options: PodOptions = {}): Promise<string> {
    const { namespace = "team", annotations = {}, node = "node1" } = options;
    const { hostNetwork, serviceAccount } = options;
    const pod = await this.plane.request(
      "POST",
      `/api/v1/namespaces/${namespace}/pods`,
      {
        metadata: { name, annotations },
        spec: {
          nodeName: node,
          containers: [{ name: "c", image: "none" }],
          ...(hostNetwork !== undefined && { hostNetwork }),
          ...(serviceAccount !== undefined &&
            { serviceAccountName: serviceAccount }),
        },
      },
    );
    return (pod as { metadata: { uid: string } }).metadata.uid;
  }

  /** Sets a pod's status as kubelet does. */
  async setStatus(
    name: string,
    addresses: readonly string[],
    options: { readonly phase?: string; readonly namespace?: string } = {},
  ): Promise<void> {
    const { phase, namespace = "team" } = options;
    const status = { ips: addresses, phase };
    await patchPodStatus(this.plane, { namespace, name }, status);
  }

  /** Creates a pod that runs with these addresses. */
  async runPod(
    name: string,
    addresses: readonly string[],
    options: PodOptions & { readonly phase?: string } = {},
  ): Promise<void> {
    await this.createPod(name, options);
    await this.setStatus(name, addresses, options);
  }

  /** Sets or, with null, removes annotations of a pod. */
  async annotate(
    name: string,
    annotations: Readonly<Record<string, string | null>>,
  ): Promise<void> {
    await this.#patch(`/api/v1/namespaces/team/pods/${name}`, {
      metadata: { annotations },
    });
  }

  /** Deletes a pod; with a grace period it stays, as one being deleted. */
  async deletePod(
    name: string,
    options: { readonly namespace?: string; readonly graceSeconds?: number } =
      {},
  ): Promise<void> {
    const { namespace = "team", graceSeconds = 0 } = options;
    await this.plane.request(
      "DELETE",
      `/api/v1/namespaces/${namespace}/pods/${name}`,
      {
        apiVersion: "v1",
        kind: "DeleteOptions",
        gracePeriodSeconds: graceSeconds,
      },
    );
  }

  /** Deletes the pods of namespace "team" at once. */
  async removePods(): Promise<void> {
    await this.plane.request("DELETE", "/api/v1/namespaces/team/pods", {
      apiVersion: "v1",
      kind: "DeleteOptions",
      gracePeriodSeconds: 0,
    });
  }

  /** The Egress' slices. */
  async slices(): Promise<readonly EgressClientSlice[]> {
    const list = await this.plane.request("GET", SLICES_PATH);
    return (list as { items: EgressClientSlice[] }).items;
  }

  /** Names of the clients in all slices, sorted. */
  async clientNames(): Promise<string[]> {
    return (await this.slices())
      .flatMap(({ clients = [] }) => clients.map(({ name }) => name)).sort();
  }

  /** Creates a block of 65,536 addresses, `10.<index>.0.0` and `fd<index>::` on. */
  async createBlock(name: string, node: string): Promise<void> {
    const index = Number(name.split("-").at(-1));
    await this.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name,
        labels: {
          "coil.cybozu.com/pool": "default",
          "coil.cybozu.com/node": node,
        },
      },
      index,
      ipv4: `10.${index}.0.0/16`,
      ipv6: `fd${index.toString().padStart(2, "0")}::/112`,
    });
  }

  /** Issues a token; for coild's announcements unless told otherwise. */
  async token(options: TokenOptions = {}): Promise<string> {
    const { namespace = "kube-system", account = "coild", pod } = options;
    const { audience = `coil-egress/${NAMESPACE}/${EGRESS}` } = options;
    const answer = await this.plane.request(
      "POST",
      `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {
          audiences: audience === "" ? undefined : [audience],
          ...(pod !== undefined && {
            boundObjectRef: { apiVersion: "v1", kind: "Pod", name: pod },
          }),
        },
      },
    );
    return (answer as { status: { token: string } }).status.token;
  }

  /** What gateways have written into the status of the Egress. */
  async gateways(): Promise<readonly EgressGatewayStatus[]> {
    const path = `${COIL_API}/namespaces/${NAMESPACE}/egresses/${EGRESS}`;
    const egress = await this.plane.request("GET", path) as Egress;
    return egress.status?.gateways ?? [];
  }

  /** Starts a gateway. */
  async startGateway(options: GatewayOptions = {}): Promise<RunningGateway> {
    const { kernel = new ClientsKernel(), pod = "internet-0", node, ...more } =
      options;
    const controller = options.isAlone === true
      ? undefined
      : await this.controller.use(`${NAMESPACE}/${EGRESS}`);
    await untilInMemory(this.plane, SLICES_PATH);
    const logs: string[] = [];
    configureLogging({ level: "debug", write: (line) => logs.push(line) });
    // Of the loopback addresses one for each gateway: nobody else has its ports.
    const host = `127.30.${this.plane.subnet.index}.${++this.#gateways}`;
    const [health, metrics, announce] = [9387, 9386, 9385]
      .map((port) => `${host}:${port}`);
    const own = options.client === undefined
      ? await this.gatewayClient()
      : undefined;
    const client = options.client ?? own;
    assert.ok(client);
    const stop = new AbortController();
    const ended = runGateway({
      // No proxy here has to learn of the end.
      leastDrainMs: 0,
      ...more,
      kernel,
      client,
      registry: createRegistry(),
      identity: {
        namespace: NAMESPACE,
        egress: EGRESS,
        pod,
        addresses: ADDRESSES,
        node,
      },
      options: parseEgressFlags([
        `--health-addr=${health}`,
        `--metrics-addr=${metrics}`,
        `--announce-addr=${announce}`,
        ...options.args ?? [],
      ], { program: "coil-egress", version: "test", about: "" }),
    }, stop.signal).finally(async () => {
      own?.close();
      await controller?.[Symbol.asyncDispose]();
    });
    // The one that waits for it learns of a failure.
    ended.catch(() => {});
    const end = () => {
      stop.abort();
      return ended;
    };
    return {
      kernel,
      logs,
      announceUrl: `http://${announce}/v1/clients`,
      async ready() {
        const response = await fetch(`http://${health}/readyz`);
        return { status: response.status, body: await response.text() };
      },
      async metrics(prefix) {
        const response = await fetch(`http://${metrics}/metrics`);
        const lines = (await response.text()).split("\n");
        return lines.filter((line) => line.startsWith(prefix));
      },
      stop: end,
      [Symbol.asyncDispose]: end,
    };
  }

  async #patch(path: string, body: unknown): Promise<void> {
    const contentType = "application/merge-patch+json";
    await this.plane.request("PATCH", path, body, { contentType });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plane[Symbol.asyncDispose]();
  }
}

/** Waits until exactly these addresses are clients. */
export async function assertClients(
  kernel: ClientsKernel,
  wanted: readonly string[],
): Promise<void> {
  const text = [...wanted].sort().join(" ");
  const seen = () => [...kernel.clients].sort().join(" ");
  await eventually("the clients", () => seen() === text, { intervalMs: 10 })
    .catch(() => assert.equal(seen(), text));
}

/** Says how long something took; machines differ, so nothing is asserted of it. */
export function reportMs(what: string, tookMs: readonly number[]): void {
  // deno-lint-ignore no-console -- a figure for anyone who runs the tests
  console.log(`  ${what}: ${tookMs.map(Math.round).join(", ")} ms`);
}

/** Waits until the gateway is ready. */
export async function untilReady(gateway: RunningGateway): Promise<void> {
  await eventually("readiness", async () => {
    return (await gateway.ready()).status === 200;
  }, { intervalMs: 20 });
}
