// The way from the virtual machine to the control plane beside it.
import { type ConnectionSource, KubeClient } from "../../lib/kube/mod.ts";
import { AdminAccess } from "../lab/admin_access.ts";
import { sharedPki } from "../lab/pki.ts";
import { ACCESS_VARIABLE, type HostAccess } from "./host_lab.ts";

/** An administrator's access, as JSON requests and as the library's client. */
export interface VmAccess extends AsyncDisposable {
  readonly admin: AdminAccess;
  readonly client: KubeClient;
  /** Tells a program in a pod where the API server is. */
  readonly inClusterEnv: Readonly<Record<string, string>>;
  /** Directory of logs, sockets and tokens. */
  readonly runDir: string;
}

/** Opens the access that the runner of the suite has prepared. */
export async function openAccess(): Promise<VmAccess> {
  const file = Deno.env.get(ACCESS_VARIABLE);
  if (file === undefined) {
    throw new Error(
      `Cannot reach a control plane: ${ACCESS_VARIABLE} is not set; run "deno task test vm --filter ..."`,
    );
  }
  const host = JSON.parse(await Deno.readTextFile(file)) as HostAccess;
  const runDir = await Deno.makeTempDir({ prefix: "e2e-" });
  const pki = await sharedPki();
  const admin = new AdminAccess({ ...host, runDir, pki });
  const client = KubeClient.from(sourceOf(host), { fieldManager: "e2e" });
  const { hostname, port } = new URL(host.url);
  return {
    admin,
    client,
    runDir,
    inClusterEnv: {
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
    },
    async [Symbol.asyncDispose](): Promise<void> {
      admin.close();
      client[Symbol.dispose]();
      await Deno.remove(runDir, { recursive: true });
    },
  };
}

function sourceOf(host: HostAccess): ConnectionSource {
  const connection = {
    server: host.url,
    tls: { caCerts: [host.ca] },
    headers: { authorization: `Bearer ${host.adminToken}` },
  };
  return {
    server: host.url,
    current: () => Promise.resolve(connection),
    refresh: () => Promise.resolve(),
  };
}
