// Another program of kube-system: it reads a ConfigMap and renews a Lease, each
// ten times a second, also when the API server is slow.
import type { ControlPlane } from "../../lab/mod.ts";
import { sleep } from "../../lab/mod.ts";
import type { Asked } from "./waits.ts";

const EVERY_MS = 100;
const PATIENCE_MS = 60_000;
const NAME = "bystander";
const CORE = "/api/v1/namespaces/kube-system";
const CONFIG = `${CORE}/configmaps/${NAME}`;
const LEASE =
  `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${NAME}`;

interface LeaseObject {
  readonly spec: object;
}

/** Asks until it is disposed of. */
export class Bystander implements AsyncDisposable {
  readonly #plane: ControlPlane;
  readonly #token: string;
  readonly #http: Deno.HttpClient;
  readonly #asked: Asked[] = [];
  readonly #loops: Promise<unknown>;
  #isOver = false;

  private constructor(plane: ControlPlane, token: string) {
    this.#plane = plane;
    this.#token = token;
    this.#http = Deno.createHttpClient({ caCerts: [plane.ca] });
    this.#loops = Promise.all([
      this.#repeat(() => this.#ask("get", "GET", CONFIG)),
      this.#repeat(() => this.#renew()),
    ]);
  }

  static async start(plane: ControlPlane): Promise<Bystander> {
    const metadata = { name: NAME, namespace: "kube-system" };
    const roles = "rbac.authorization.k8s.io";
    await plane.apply(
      { apiVersion: "v1", kind: "ServiceAccount", metadata },
      { apiVersion: "v1", kind: "ConfigMap", metadata, data: { a: "b" } },
      {
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata,
        spec: { holderIdentity: NAME },
      },
      {
        apiVersion: `${roles}/v1`,
        kind: "Role",
        metadata,
        rules: [
          { apiGroups: [""], resources: ["configmaps"], verbs: ["get"] },
          {
            apiGroups: ["coordination.k8s.io"],
            resources: ["leases"],
            verbs: ["get", "update"],
          },
        ],
      },
      {
        apiVersion: `${roles}/v1`,
        kind: "RoleBinding",
        metadata,
        roleRef: { apiGroup: roles, kind: "Role", name: NAME },
        subjects: [{ kind: "ServiceAccount", ...metadata }],
      },
    );
    return new Bystander(plane, await plane.serviceAccountToken(metadata));
  }

  /** What it has asked so far and what became of it. */
  get asked(): readonly Asked[] {
    return this.#asked;
  }

  async #repeat(act: () => Promise<unknown>): Promise<void> {
    while (!this.#isOver) {
      const dueMs = performance.now() + EVERY_MS;
      await act();
      await sleep(Math.max(0, dueMs - performance.now()));
    }
  }

  #lease: LeaseObject | undefined;

  /** As a leader does: with what the last answer said. */
  async #renew(): Promise<void> {
    const known = this.#lease ?? await this.#ask("renew", "GET", LEASE);
    const { spec } = known as LeaseObject;
    const renewTime = new Date().toISOString().replace("Z", "000Z");
    this.#lease = spec && await this.#ask("renew", "PUT", LEASE, {
      ...known,
      spec: { ...spec, renewTime },
    }) as LeaseObject;
  }

  async #ask(
    what: Asked["what"],
    method: string,
    path: string,
    body?: object,
  ): Promise<object> {
    const atMs = Date.now();
    const startMs = performance.now();
    let status = 0;
    let answer: object = {};
    try {
      const response = await fetch(this.#plane.url + path, {
        method,
        client: this.#http,
        headers: {
          authorization: `Bearer ${this.#token}`,
          "content-type": "application/json",
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      const text = await response.text();
      if (response.ok) answer = JSON.parse(text);
      status = response.status;
    } catch {
      // The API server is away.
    }
    this.#asked.push({ what, atMs, ms: performance.now() - startMs, status });
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await this.#loops;
    this.#http.close();
  }
}
