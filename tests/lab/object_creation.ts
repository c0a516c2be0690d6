import * as path from "node:path";

/** Makes one request and returns the JSON answer, as {@link AdminAccess.request} does. */
export type MakeRequest = (
  method: string,
  uri: string,
  body?: unknown,
) => Promise<unknown>;

interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

interface ApiResource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** What kubectl says of itself, and asks for. */
const QUERY = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict";

/**
 * Creates objects with the request that `kubectl apply` makes for those that are not there yet. A start of kubectl
 * takes a tenth of a second of processor time, and a run of all tests would have thousands.
 */
export class ObjectCreation {
  readonly #request: MakeRequest;
  /** By API version. */
  readonly #resources = new Map<string, readonly ApiResource[]>();

  constructor(request: MakeRequest) {
    this.#request = request;
  }

  /** Returns whether the API server took it: what is there already, or is refused, is a matter for kubectl. */
  async tryCreate(object: unknown): Promise<boolean> {
    try {
      const { apiVersion, kind, metadata } = object as ApiObject;
      const resource = await this.#resource(apiVersion, kind);
      const { namespace = "default", annotations } = metadata;
      const where = resource.namespaced ? `namespaces/${namespace}` : "";
      const uri = path.join(rootOf(apiVersion), where, resource.name);
      const applied = `${JSON.stringify(object)}\n`;
      await this.#request("POST", `${uri}?${QUERY}`, {
        ...object as ApiObject,
        metadata: {
          ...metadata,
          annotations: { ...annotations, [LAST_APPLIED]: applied },
        },
      });
      return true;
    } catch {
      // kubectl says why, or does better.
      return false;
    }
  }

  async #resource(apiVersion: string, kind: string): Promise<ApiResource> {
    const find = () =>
      this.#resources.get(apiVersion)
        ?.find((resource) => resource.kind === kind);
    if (find() === undefined) {
      const list = await this.#request("GET", rootOf(apiVersion));
      const { resources } = list as { readonly resources: ApiResource[] };
      const whole = resources.filter(({ name }) => !name.includes("/"));
      this.#resources.set(apiVersion, whole);
    }
    const resource = find();
    if (resource !== undefined) return resource;
    throw new Error(`Cannot find a resource of "${kind}" in "${apiVersion}"`);
  }
}

function rootOf(apiVersion: string): string {
  return apiVersion.includes("/")
    ? `/apis/${apiVersion}`
    : `/api/${apiVersion}`;
}
