import * as path from "node:path";
import type { ControlPlane } from "./control_plane.ts";

/** A service account, and the Node that its token is to be bound to. */
export interface ServiceAccountRef {
  readonly namespace: string;
  readonly name: string;
  readonly node?: string;
}

const TOKEN_SECONDS = 3600;

/**
 * Issues a token by TokenRequest. Bound to a node, it carries the claim from which the API server makes
 * `authentication.kubernetes.io/node-name` (Kubernetes 1.33 and newer).
 */
export async function requestToken(
  plane: ControlPlane,
  account: ServiceAccountRef,
): Promise<string> {
  const { namespace, name, node } = account;
  const boundObjectRef = node === undefined
    ? undefined
    : { apiVersion: "v1", kind: "Node", name: node };
  const answer = await plane.request(
    "POST",
    `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: TOKEN_SECONDS, boundObjectRef },
    },
  );
  return parseToken(answer);
}

/** Writes the files that a pod sees in /var/run/secrets/kubernetes.io/serviceaccount and returns their directory. */
export async function writeServiceAccountDir(
  plane: ControlPlane,
  account: ServiceAccountRef,
): Promise<string> {
  const { namespace, name, node } = account;
  const token = await requestToken(plane, account);
  const dir = path.join(
    plane.runDir,
    "service-accounts",
    [namespace, name, node ?? "any"].join("_"),
  );
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  const files = { token, "ca.crt": plane.ca, namespace };
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
