/** How a kubeconfig's user shows who it is. */
export type KubeconfigUser =
  | { readonly token: string }
  | { readonly cert: string; readonly key: string };

/** Text of a kubeconfig with one cluster and one user; JSON, which YAML readers read. */
export function kubeconfigText(
  server: string,
  options: { caFile: string; user: KubeconfigUser },
): string {
  const { user } = options;
  const credentials = "token" in user
    ? { token: user.token }
    : { "client-certificate": user.cert, "client-key": user.key };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{
      name: "lab",
      cluster: { server, "certificate-authority": options.caFile },
    }],
    users: [{ name: "user", user: credentials }],
    contexts: [{ name: "lab", context: { cluster: "lab", user: "user" } }],
    "current-context": "lab",
  };
  return JSON.stringify(config, undefined, 2) + "\n";
}
