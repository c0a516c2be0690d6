/**
 * Where commands of the documents are run.
 *
 * @module
 */
import * as path from "node:path";
import { ROOT } from "../arch/pages.ts";
import { GO_TOOL_ENV } from "../lab/go_env.ts";
import { ensureHelm } from "../lab/helm.ts";
import { binDir, type ControlPlane, run } from "../lab/mod.ts";
import { placeProgram } from "../lab/program_file.ts";
import { coilCommand } from "./coild_lab.ts";

/** What many commands speak of; Namespace "internet" comes before. */
export const NAMED_OBJECTS = `apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: default}
spec: {subnets: [{ipv4: 10.100.0.0/24}]}
---
apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {name: nat, namespace: internet}
spec: {destinations: [0.0.0.0/0]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: coil-egress-leader, namespace: kube-system}`;

/**
 * kubectl gives the API server 32 s for its schema by default: too little on a busy machine. Its 10 s for a TLS
 * handshake cannot be changed: a command may still fail with "TLS handshake timeout", which tests/lab/admin_access.ts
 * alone tries again.
 */
const REQUEST_TIMEOUT = "140s";

/** Makes a directory with what the documents take for granted: the repository as "coil", and the programs. Returns what runs a script there. */
export async function workplace(
  plane: ControlPlane,
): Promise<(script: string) => Promise<string>> {
  const directory = path.join(plane.runDir, "guide");
  await Deno.mkdir(path.join(directory, "bin"), { recursive: true });
  await Deno.symlink(ROOT, path.join(directory, "coil"));
  await Deno.symlink(`${ROOT}deploy`, path.join(directory, "deploy"));
  const bin = path.join(directory, "bin");
  await Deno.symlink(await ensureHelm(), path.join(bin, "helm"));
  const kubectl = path.join(binDir(), "kubectl");
  const programs = {
    kubectl: `exec ${kubectl} --request-timeout=${REQUEST_TIMEOUT} "$@"`,
    coil: `exec ${coilCommand().join(" ")} "$@"`,
  };
  for (const [name, command] of Object.entries(programs)) {
    const text = `#!/bin/sh\n${command}\n`;
    await placeProgram(
      path.join(bin, name),
      (made) => Deno.writeTextFile(made, text),
    );
  }
  const env = {
    ...GO_TOOL_ENV,
    PATH: `${directory}/bin:${Deno.env.get("PATH")}`,
    KUBECONFIG: plane.kubeconfig,
    KUBECACHEDIR: path.join(directory, "kubectl-cache"),
    HELM_CACHE_HOME: path.join(directory, "helm"),
    HELM_CONFIG_HOME: path.join(directory, "helm"),
    HELM_DATA_HOME: path.join(directory, "helm"),
    // An editor that changes nothing.
    KUBE_EDITOR: "true",
  };
  return (script) =>
    run("bash", ["-euo", "pipefail", "-c", script], { cwd: directory, env });
}
