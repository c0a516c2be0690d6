// Real tokens of pods on nodes, against deploy/policies on a real API server.
import { type ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";
import { COIL_API } from "./crds.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;

/** Namespace of the Egress, with the gateways' service account. */
export const NAMESPACE = "nat";

/** Whose token a request has: of a pod of this account on this node, or of nothing. */
export interface Caller {
  readonly account: "coild" | "coil-egress";
  /** Undefined: a token that is bound to nothing. */
  readonly pod?: string;
}

/** One request of somebody's. */
export interface Attempt {
  readonly method: "POST" | "PATCH" | "PUT" | "DELETE";
  /** After {@link COIL_API}. */
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
}

/** What the API server says to it. */
export interface Answer {
  readonly status: number;
  /** Empty when it was done. */
  readonly message: string;
}

const NODES = ["node1", "node2"];

/** A control plane with two nodes, and a coild and a gateway on each. */
export class PolicyLab implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly #http: Deno.HttpClient;
  readonly #tokens = new Map<string, string>();
  readonly #uids = new Map<string, string>();

  private constructor(plane: ControlPlane) {
    this.plane = plane;
    this.#http = Deno.createHttpClient({ caCerts: [plane.ca] });
  }

  /** Starts it, with the rights of deploy/base and deploy/vpc, and the policies. */
  static async start(name: string): Promise<PolicyLab> {
    const plane = await startCoilPlane({ name });
    await using undo = new AsyncDisposableStack();
    undo.use(plane);
    for (const part of ["vpc", "policies"]) {
      await plane.kubectl("apply", "-k", `${DEPLOY}${part}`);
    }
    const lab = undo.use(new PolicyLab(plane));
    await lab.#populate();
    await lab.#awaitPolicies();
    undo.move();
    return lab;
  }

  /** Sends a request with the caller's token. */
  async attempt(caller: Caller, attempt: Attempt): Promise<Answer> {
    const { method, path, body, contentType } = attempt;
    const response = await fetch(`${this.plane.url}${COIL_API}${path}`, {
      method,
      client: this.#http,
      headers: {
        authorization: `Bearer ${await this.#token(caller)}`,
        "content-type": contentType ??
          (method === "PATCH"
            ? "application/merge-patch+json"
            : "application/json"),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      message: response.ok ? "" : JSON.parse(text).message,
    };
  }

  /** Creates an AddressBlock of a node as the controller does. */
  async block(name: string, node: string): Promise<void> {
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
        finalizers: ["coil.cybozu.com"],
      },
      index,
      ipv4: `10.2.${index}.0/27`,
    });
  }

  /** Gives the account every right on Coil's resources, and returns when they are in force: what is refused then, the policies refuse. */
  async grantAll(caller: Caller): Promise<void> {
    const rbac = "rbac.authorization.k8s.io";
    const name = `all-${caller.account}`;
    const namespace = namespaceOf(caller.account);
    await this.plane.apply({
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRole",
      metadata: { name },
      rules: [{
        apiGroups: ["coil.cybozu.com"],
        resources: ["*"],
        verbs: ["*"],
      }],
    }, {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: caller.account, namespace }],
    });
    await untilAllowed(this.plane, {
      user: `system:serviceaccount:${namespace}:${caller.account}`,
      verb: "delete",
      group: "coil.cybozu.com",
      resource: "addresspools",
    });
  }

  async #populate(): Promise<void> {
    const account = { namespace: NAMESPACE, name: "coil-egress" };
    await this.plane.apply(
      { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
      { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
      ...NODES.map((name) => ({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name },
      })),
      {
        apiVersion: "coil.cybozu.com/v2",
        kind: "Egress",
        metadata: { namespace: NAMESPACE, name: "internet" },
        spec: { destinations: ["0.0.0.0/0"] },
      },
    );
    for (const node of NODES) {
      for (const account of ["coild", "coil-egress"] as const) {
        await this.#createPod(`${account}-${node}`, account, node);
      }
    }
  }

  async #createPod(name: string, account: Caller["account"], node: string) {
    const namespace = namespaceOf(account);
    const pod = await this.plane.request(
      "POST",
      `/api/v1/namespaces/${namespace}/pods`,
      {
        metadata: { name },
        spec: {
          nodeName: node,
          serviceAccountName: account,
          containers: [{ name: "c", image: "none" }],
        },
      },
    );
    const { uid } = (pod as { metadata: { uid: string } }).metadata;
    this.#uids.set(name, uid);
  }

  async #token({ account, pod }: Caller): Promise<string> {
    const key = `${account}/${pod}`;
    let token = this.#tokens.get(key);
    if (token === undefined) {
      const uid = this.#uids.get(pod ?? "");
      token = await this.plane.serviceAccountToken({
        namespace: namespaceOf(account),
        name: account,
        ...(pod === undefined || uid === undefined
          ? {}
          : { pod: { name: pod, uid } }),
      });
      this.#tokens.set(key, token);
    }
    return token;
  }

  /** The API server takes some time to see policies and roles. */
  async #awaitPolicies(): Promise<void> {
    await this.block("default-200", "node1");
    const probes: readonly [Caller, Attempt][] = [
      [{ account: "coild" }, {
        method: "DELETE",
        path: "/addressblocks/default-200?dryRun=All",
      }],
      [{ account: "coild" }, {
        method: "POST",
        path: "/blockrequests?dryRun=All",
        body: blockRequest("req-default-node1", "node1"),
      }],
      [{ account: "coild" }, {
        method: "POST",
        path: "/vpcnodes?dryRun=All",
        body: {
          apiVersion: "coil.cybozu.com/v2",
          kind: "VPCNode",
          metadata: { name: "node1" },
        },
      }],
    ];
    await this.grantAll({ account: "coil-egress" });
    await eventually("the policies to be in force", async () => {
      for (const [caller, attempt] of probes) {
        const { message } = await this.attempt(caller, attempt);
        if (!message.includes("ValidatingAdmissionPolicy")) return false;
      }
      const { message } = await this.attempt({ account: "coil-egress" }, {
        method: "DELETE",
        path: `/namespaces/${NAMESPACE}/egresses/internet?dryRun=All`,
      });
      return message.includes("ValidatingAdmissionPolicy");
    });
  }

  /** Ends everything and removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.close();
    await this.plane[Symbol.asyncDispose]();
  }
}

function namespaceOf(account: Caller["account"]): string {
  return account === "coild" ? "kube-system" : NAMESPACE;
}

/** A BlockRequest for the pool "default" unless another is given. */
export function blockRequest(
  name: string,
  nodeName: string,
  options: {
    readonly pool?: string;
    readonly owner?: string;
    /** Value of the label that says the node. */
    readonly label?: string;
    readonly finalizer?: string;
  } = {},
): unknown {
  const { pool = "default", owner, label, finalizer } = options;
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "BlockRequest",
    metadata: {
      name,
      ...(label === undefined ? {} : {
        labels: { "coil.cybozu.com/node": label },
      }),
      ...(finalizer === undefined ? {} : { finalizers: [finalizer] }),
      ...(owner === undefined ? {} : {
        ownerReferences: [
          { apiVersion: "v1", kind: "Node", name: owner, uid: "u" },
        ],
      }),
    },
    spec: { nodeName, poolName: pool },
  };
}
