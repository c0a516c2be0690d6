import * as path from "node:path";
import type { AdminAccess } from "./admin_access.ts";

/** A service account, and the object that its token is to be bound to. */
export interface ServiceAccountRef {
  readonly namespace: string;
  readonly name: string;
  /** Name of a Node. */
  readonly node?: string;
  /** A pod of the same namespace, as a kubelet binds tokens. */
  readonly pod?: { readonly name: string; readonly uid: string };
  /** Who is to take the token; the API server without it. */
  readonly audience?: string;
}

const TOKEN_SECONDS = 3600;

/**
 * Issues a token by TokenRequest. Bound to a node, it carries the claim from which the API server makes
 * `authentication.kubernetes.io/node-name` (Kubernetes 1.33 and newer).
 */
export async function requestToken(
  access: AdminAccess,
  account: ServiceAccountRef,
): Promise<string> {
  const { namespace, name, audience } = account;
  const answer = await access.request(
    "POST",
    `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        expirationSeconds: TOKEN_SECONDS,
        boundObjectRef: boundObjectOf(account),
        audiences: audience === undefined ? undefined : [audience],
      },
    },
  );
  return parseToken(answer);
}

function boundObjectOf(account: ServiceAccountRef): unknown {
  const { node, pod } = account;
  if (pod !== undefined) return { apiVersion: "v1", kind: "Pod", ...pod };
  if (node === undefined) return undefined;
  return { apiVersion: "v1", kind: "Node", name: node };
}

/** Writes the files that a pod sees in /var/run/secrets/kubernetes.io/serviceaccount and returns their directory. */
export async function writeServiceAccountDir(
  access: AdminAccess,
  account: ServiceAccountRef,
): Promise<string> {
  const { namespace, name, node, pod } = account;
  const token = await requestToken(access, account);
  const dir = path.join(
    access.runDir,
    "service-accounts",
    [namespace, name, pod?.uid ?? node ?? "any"].join("_"),
  );
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  const files = { token, "ca.crt": access.ca, namespace };
  for (const [file, text] of Object.entries(files)) {
    await Deno.writeTextFile(path.join(dir, file), text);
  }
  return dir;
}

function parseToken(answer: unknown): string {
  const token = (answer as { status?: { token?: string } }).status?.token;
  if (token === undefined) {
    throw new Error("Cannot read the token: the answer has none");
  }
  return token;
}
