import * as path from "node:path";
import { binDir } from "./cache.ts";
import { CommandError, run } from "./command.ts";
import { GO_TOOL_ENV } from "./go_env.ts";
import { kubeconfigText, type KubeconfigUser } from "./kubeconfig.ts";
import { ObjectCreation } from "./object_creation.ts";
import { issueCertificate, type SharedPki } from "./pki.ts";
import { eventually } from "./wait.ts";

/** As the API server itself waits: the rules of a pool of 200 subnets take it seconds, on a busy machine more than ten. */
const REQUEST_TIMEOUT_MS = 60_000;

/** kubectl gives the API server 32 s for its schema, before it sends an object, and 10 s for a TLS handshake, before it sends a request; on a busy machine that was too little. A handshake that the API server itself waits for, as with a webhook, is part of a request that was sent. */
const UNSENT =
  /failed to download openapi|Unable to connect to the server: .*TLS handshake timeout/;
const UNSENT_TRIES = 4;

function isUnsent(error: unknown): boolean {
  return error instanceof CommandError && UNSENT.test(error.message);
}

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** A list of CustomResourceDefinitions, as far as it matters here. */
interface Definitions {
  readonly items: readonly {
    readonly spec: {
      readonly group: string;
      readonly names: { readonly plural: string };
      readonly versions: readonly {
        readonly name: string;
        readonly served: boolean;
      }[];
    };
    readonly status?: {
      readonly conditions?: readonly {
        readonly type: string;
        readonly status: string;
      }[];
    };
  }[];
}

function isEstablished({ status }: Definitions["items"][number]): boolean {
  const { conditions = [] } = status ?? {};
  return conditions.some(({ type, status }) =>
    type === "Established" && status === "True"
  );
}

/** What {@link AdminAccess} needs to know. */
export interface AdminAccessOptions {
  readonly url: string;
  readonly ca: string;
  readonly adminToken: string;
  readonly runDir: string;
  readonly pki: SharedPki;
  /** Directory of kubectl; that of the built programs without it. */
  readonly programs?: string;
}

/** Access to an API server as an administrator and, by kubeconfigs, as anybody. */
export class AdminAccess {
  /** URL of the API server. */
  readonly url: string;
  /** Certificate of the authority, PEM. */
  readonly ca: string;
  /** File with {@link ControlPlane.ca}. */
  readonly caFile: string;
  /** Bearer token of a member of system:masters. */
  readonly adminToken: string;
  /** File of the kubeconfig of a member of system:masters. */
  readonly kubeconfig: string;
  /** Directory of data, logs and pids; removed at the end, unless COIL_LAB_KEEP is set. */
  readonly runDir: string;
  /** Directory of kubectl and, where they run on this machine, of the control plane's programs. */
  readonly programs: string;
  readonly #pki: SharedPki;
  readonly #creation: ObjectCreation;
  #client: Deno.HttpClient;
  #users = 0;

  constructor(options: AdminAccessOptions) {
    this.url = options.url;
    this.ca = options.ca;
    this.caFile = options.pki.caCert;
    this.adminToken = options.adminToken;
    this.runDir = options.runDir;
    this.kubeconfig = path.join(options.runDir, "admin.kubeconfig");
    this.programs = options.programs ?? binDir();
    this.#pki = options.pki;
    this.#creation = new ObjectCreation((...request) =>
      this.request(...request)
    );
    this.#client = Deno.createHttpClient({ caCerts: [options.ca] });
  }

  /** Runs kubectl as admin and returns its stdout. */
  async kubectl(...args: string[]): Promise<string> {
    return await this.kubectlStdin(args, undefined);
  }

  /** Creates a namespace. */
  async createNamespace(name: string): Promise<void> {
    await this.apply({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
    });
  }

  /** Creates or updates the objects as kubectl apply does. */
  async apply(...objects: readonly unknown[]): Promise<void> {
    const left: unknown[] = [];
    for (const object of objects) {
      if (!await this.#creation.tryCreate(object)) left.push(object);
    }
    if (left.length === 0) return;
    const stdin = left.map((object) => JSON.stringify(object)).join("\n---\n");
    await this.kubectlStdin(["apply", "-f", "-"], stdin);
  }

  /** Waits until the API server serves the resources of all definitions, and says so to clients that look for them. */
  async definitionsEstablished(): Promise<void> {
    await eventually("all definitions to be Established", async () => {
      const { items } = await this.request("GET", DEFINITIONS) as Definitions;
      if (items.length === 0 || !items.every(isEstablished)) return false;
      const found = await Promise.all(items.map((item) => this.#isFound(item)));
      return found.every(Boolean);
    });
  }

  async #isFound({ spec }: Definitions["items"][number]): Promise<boolean> {
    const { group, names, versions } = spec;
    for (const { name: version } of versions.filter(({ served }) => served)) {
      const path = `/apis/${group}/${version}`;
      const { resources } = await this.request("GET", path) as {
        readonly resources: readonly { readonly name: string }[];
      };
      if (!resources.some(({ name }) => name === names.plural)) return false;
    }
    return true;
  }

  /** Runs kubectl as admin with a text on stdin. */
  async kubectlStdin(
    args: readonly string[],
    stdin: string | undefined,
  ): Promise<string> {
    const options = {
      env: {
        ...GO_TOOL_ENV,
        KUBECONFIG: this.kubeconfig,
        KUBECACHEDIR: path.join(this.runDir, "kubectl-cache"),
      },
      ...(stdin === undefined ? {} : { stdin }),
    };
    for (let tries = 1;; tries++) {
      try {
        return await run(path.join(this.programs, "kubectl"), args, options);
      } catch (error) {
        if (tries === UNSENT_TRIES || !isUnsent(error)) throw error;
      }
    }
  }

  /**
   * Makes one request as admin and returns the JSON answer.
   * @throws {Error} when the answer's status is not 2xx; the message has the body.
   */
  async request(
    method: string,
    uri: string,
    body?: unknown,
    options: { contentType?: string } = {},
  ): Promise<unknown> {
    const response = await fetch(this.url + uri, {
      method,
      client: this.#client,
      headers: {
        authorization: `Bearer ${this.adminToken}`,
        "content-type": options.contentType ?? "application/json",
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(
        `Cannot ${method} "${uri}": status ${response.status}: ${text}`,
      );
    }
    return text.startsWith("{") ? JSON.parse(text) : text;
  }

  /** Has {@link AdminAccess.request} believe these authorities, PEM; kubeconfigs name the first one's file. */
  trust(...authorities: readonly string[]): void {
    this.#client.close();
    this.#client = Deno.createHttpClient({ caCerts: [...authorities] });
  }

  /** Writes a kubeconfig for a user, by a client certificate or a token, and returns the file's path. */
  async kubeconfigFor(
    who: { user: string; groups?: readonly string[] } | { token: string },
  ): Promise<string> {
    const base = path.join(this.runDir, `user-${++this.#users}`);
    const user = "token" in who
      ? who
      : await issueCertificate(this.#pki, base, who);
    await this.writeKubeconfig(`${base}.kubeconfig`, user);
    return `${base}.kubeconfig`;
  }

  /** Writes a kubeconfig for this API server. */
  async writeKubeconfig(file: string, user: KubeconfigUser): Promise<void> {
    const { caFile } = this;
    const text = kubeconfigText(this.url, { caFile, user });
    await Deno.writeTextFile(file, text);
  }

  /** Ends the connections. */
  close(): void {
    this.#client.close();
  }
}
