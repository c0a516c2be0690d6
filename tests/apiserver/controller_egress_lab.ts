/** Helpers of the tests of the egress half of coil-controller, which runs here with its own rights and no more. */
import { openLibc } from "../../lib/linux/mod.ts";
import type { Condition, Egress, EgressSpec } from "../../lib/api/mod.ts";
import type {
  V1ClusterRoleBinding,
  V1Deployment,
  V1Pod,
  V1PodDisruptionBudget,
  V1Service,
} from "../../lib/kube/mod.ts";
import {
  type ControlPlane,
  eventually,
  type LabProcess,
  startCoilPlane,
} from "../lab/mod.ts";
import { coilCommand } from "./coild_lab.ts";
import {
  controllerWith,
  type EventObject,
  type RunningController,
} from "./controller_testing.ts";
import { COIL_API } from "./crds.ts";
import { patchStatus } from "./patch_status.ts";

// Loaded when memory is first given back; within a test that would count as a leak.
openLibc();

const MERGE = { contentType: "application/merge-patch+json" };

/** User that the controller runs as. */
export const CONTROLLER_USER =
  "system:serviceaccount:kube-system:coil-controller";

/** Image given to the controller. */
export const IMAGE = "example.com/coil:1";

/** A Deployment that is there. */
export interface StoredDeployment extends V1Deployment {
  readonly metadata: NonNullable<V1Deployment["metadata"]>;
  readonly spec: NonNullable<V1Deployment["spec"]>;
}

/** A control plane with Coil's resources and rights, for tests of egress. */
export class EgressLab implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly #kubeconfig: string;

  private constructor(plane: ControlPlane, kubeconfig: string) {
    this.plane = plane;
    this.#kubeconfig = kubeconfig;
  }

  /** Starts the control plane, with namespaces of the names. */
  static async start(
    name: string,
    namespaces: readonly string[],
    options: { readonly controllerManager?: boolean } = {},
  ): Promise<EgressLab> {
    const audit = "metadata" as const;
    const plane = await startCoilPlane({ name, audit, ...options });
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    const token = await plane.serviceAccountToken({
      namespace: "kube-system",
      name: "coil-controller",
    });
    const lab = new EgressLab(plane, await plane.kubeconfigFor({ token }));
    for (const namespace of namespaces) {
      await plane.createNamespace(namespace);
    }
    undo.move();
    return lab;
  }

  /** Starts a controller of egresses in this process. */
  startController(...args: readonly string[]): RunningController {
    return controllerWith(["--enable-ipam=false", ...args], {
      kubeconfig: this.#kubeconfig,
      // A minute is too long to wait for a number.
      statusIntervalMs: 200,
    });
  }

  /** Starts a controller of egresses as a process. */
  async spawnController(
    env: Readonly<Record<string, string>>,
  ): Promise<LabProcess> {
    const [command, ...args] = coilCommand("coil-controller");
    return await this.plane.startProcess({
      command,
      args: [
        ...[...args, "--metrics-addr=0", "--health-addr=0"],
        "--enable-ipam=false",
      ],
      serviceAccount: { namespace: "kube-system", name: "coil-controller" },
      env: { ...env },
    });
  }

  /** Kills the API server, and returns when another serves Egresses. */
  async restartApiServer(): Promise<void> {
    await this.plane.killApiServer();
    await this.plane.startApiServer();
    await eventually("the storage of Egresses", async () => {
      try {
        await this.plane.request("GET", `${COIL_API}/egresses`);
        return true;
      } catch (error) {
        // 429: "storage is (re)initializing".
        if (error instanceof Error && /status 429/.test(error.message)) {
          return false;
        }
        throw error;
      }
    });
  }

  /** Creates an Egress; `key` is `namespace/name`. */
  async create(
    key: string,
    spec: Omit<EgressSpec, "destinations"> & {
      readonly destinations?: readonly string[];
    } = {},
  ): Promise<void> {
    const [namespace, name] = key.split("/");
    await this.plane.request("POST", egressPath(`${namespace}/`), {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name },
      spec: { destinations: ["0.0.0.0/0"], ...spec },
    });
  }

  /** Merges a change into the spec of an Egress. */
  async change(key: string, spec: object): Promise<void> {
    await this.plane.request("PATCH", egressPath(key), { spec }, MERGE);
  }

  async delete(key: string): Promise<void> {
    await this.plane.request("DELETE", egressPath(key));
  }

  async egress(key: string): Promise<Egress> {
    return await this.plane.request("GET", egressPath(key)) as Egress;
  }

  /** A condition of an Egress. */
  async condition(key: string, type: string): Promise<Condition | undefined> {
    const { status } = await this.egress(key);
    return status?.conditions?.find((c) => c.type === type);
  }

  /** Waits until a condition of an Egress is `status reason`, and returns it. */
  async awaitCondition(
    key: string,
    type: string,
    expected: string,
  ): Promise<Condition> {
    return await eventually(`${type} of ${key} to be ${expected}`, async () => {
      const condition = await this.condition(key, type);
      const { status, reason } = condition ?? {};
      return `${status} ${reason}` === expected && condition;
    });
  }

  async deployment(key: string): Promise<StoredDeployment> {
    return await this.get(`/apis/apps/v1`, "deployments", key);
  }

  async service(key: string): Promise<V1Service> {
    return await this.get("/api/v1", "services", key);
  }

  async budget(key: string): Promise<V1PodDisruptionBudget> {
    return await this.get("/apis/policy/v1", "poddisruptionbudgets", key);
  }

  /** Reads an object; the test says of which type. */
  async get<T>(api: string, plural: string, key: string): Promise<T> {
    return await this.plane.request("GET", pathOf(api, plural, key)) as T;
  }

  /** Whether an object exists. */
  async exists(api: string, plural: string, key: string): Promise<boolean> {
    try {
      await this.get(api, plural, key);
      return true;
    } catch (error) {
      if (error instanceof Error && /status 404/.test(error.message)) {
        return false;
      }
      throw error;
    }
  }

  /** Waits for the Deployment of an Egress to fulfil a condition, and returns it. */
  async awaitDeployment(
    key: string,
    what: string,
    is: (deployment: StoredDeployment) => boolean = () => true,
  ): Promise<StoredDeployment> {
    return await eventually(`Deployment ${key}: ${what}`, async () => {
      const deployment = await this.deployment(key);
      return is(deployment) && deployment;
    });
  }

  /** Writes what the Deployment controller would. */
  async reportPods(
    key: string,
    status: NonNullable<V1Deployment["status"]>,
  ): Promise<void> {
    const { metadata } = await this.deployment(key);
    const path = pathOf("/apis/apps/v1", "deployments", key);
    await patchStatus(this.plane, path, {
      observedGeneration: metadata.generation,
      readyReplicas: status.availableReplicas,
      ...status,
    });
  }

  /** Applies an entry as the gateway pod of the name does. */
  async reportGateway(
    key: string,
    gateway: { readonly name: string; readonly [field: string]: unknown },
  ): Promise<void> {
    const [, name] = key.split("/");
    const manager = `coil-egress-${gateway.name}`;
    await this.plane.request(
      "PATCH",
      `${egressPath(key)}/status?fieldManager=${manager}&force=true`,
      {
        apiVersion: "coil.cybozu.com/v2",
        kind: "Egress",
        metadata: { name },
        status: { gateways: [gateway] },
      },
      { contentType: "application/apply-patch+yaml" },
    );
  }

  /** Creates a pod as the Deployment of an Egress would. */
  async createPod(egress: string, name: string): Promise<void> {
    const [namespace, instance] = egress.split("/");
    const pod: V1Pod = {
      metadata: {
        name,
        labels: {
          "app.kubernetes.io/name": "coil",
          "app.kubernetes.io/component": "egress",
          "app.kubernetes.io/instance": instance ?? "",
        },
      },
      spec: { containers: [{ name: "egress", image: IMAGE }] },
    };
    await this.plane.request(
      "POST",
      `/api/v1/namespaces/${namespace}/pods`,
      { apiVersion: "v1", kind: "Pod", ...pod },
    );
  }

  /** Creates a pod on a node that uses the Egress. */
  async createClient(egress: string, name: string): Promise<void> {
    const [namespace, instance = ""] = egress.split("/");
    const annotations = { [`egress.coil.cybozu.com/${namespace}`]: instance };
    await this.plane.request("POST", `/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, annotations },
      spec: {
        nodeName: "node1",
        containers: [{ name: "client", image: IMAGE }],
      },
    });
  }

  /** Namespaces of the subjects of a ClusterRoleBinding; what they are has been checked. */
  async subjectsOf(binding: string): Promise<readonly string[]> {
    const { subjects = [] } = await this.get<V1ClusterRoleBinding>(
      "/apis/rbac.authorization.k8s.io/v1",
      "clusterrolebindings",
      binding,
    );
    return subjects.map(({ kind, name, namespace }) =>
      kind === "ServiceAccount" && name === "coil-egress"
        ? namespace ?? ""
        : `${kind}/${name}`
    );
  }

  /** Waits for Events on an Egress, as `type reason`. */
  async awaitEvents(
    key: string,
    ...expected: readonly string[]
  ): Promise<readonly EventObject[]> {
    const [namespace, name] = key.split("/");
    return await eventually(
      `events ${expected.join()} on ${key}`,
      async () => {
        const { items } = await this.plane.request(
          "GET",
          `/api/v1/namespaces/${namespace}/events`,
        ) as { items: readonly EventObject[] };
        const own = items.filter((e) => e.involvedObject.name === name);
        const seen = own.map(({ type, reason }) => `${type} ${reason}`);
        return expected.every((e) => seen.includes(e)) && own;
      },
    );
  }

  /** What the controller has written since, as `verb resource/subresource name`; leases and Events do not count. */
  async writesSince(since: Date): Promise<readonly string[]> {
    const requests = await this.plane.auditRequests({
      since,
      user: CONTROLLER_USER,
    });
    return requests
      .filter(({ verb, resource }) =>
        ["create", "update", "patch", "delete"].includes(verb) &&
        !["leases", "events"].includes(resource)
      )
      .map(({ verb, resource, subresource, name }) =>
        `${verb} ${resource}${
          subresource === undefined ? "" : `/${subresource}`
        } ${name}`
      );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plane[Symbol.asyncDispose]();
  }
}

/** Path of an object, or of a collection when the key ends with a slash; cluster-wide without a slash. */
function pathOf(api: string, plural: string, key: string): string {
  const [namespace = "", name] = key.split("/");
  if (name === undefined) return `${api}/${plural}/${namespace}`;
  const collection = `${api}/namespaces/${namespace}/${plural}`;
  return name === "" ? collection : `${collection}/${name}`;
}

/** Path of an Egress. */
export function egressPath(key: string): string {
  return pathOf(COIL_API, "egresses", key);
}
