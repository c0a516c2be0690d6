import { createHash } from "node:crypto";
import * as path from "node:path";
import type { Log } from "./build.ts";
import { KUBERNETES_VERSION, labDir } from "./cache.ts";
import { buildGoModule } from "./go.ts";

const SOURCES = path.join(import.meta.dirname ?? ".", "helm");
/** As go.mod says. */
const HELM_VERSION = "v3.20.2";
const GO_MINIMUM = "1.25";

/**
 * Builds helm from its Go module when it is missing, and returns its path.
 *
 * Its go.mod asks for the Kubernetes modules of the control plane: with that in
 * the build cache it takes a minute on two cores, and three without.
 */
export async function ensureHelm(
  options: { readonly log?: Log } = {},
): Promise<string> {
  const id = await sourcesId();
  const file = path.join(labDir(), "bin", `helm-${HELM_VERSION}-${id}`);
  await buildGoModule({
    output: file,
    title: `helm ${HELM_VERSION}`,
    sources: SOURCES,
    minimum: GO_MINIMUM,
    args: ["-ldflags", linkerFlags(), "helm.sh/helm/v3/cmd/helm"],
    log: options.log,
  });
  return file;
}

async function sourcesId(): Promise<string> {
  const hash = createHash("sha256").update(linkerFlags());
  for (const name of ["go.mod", "go.sum"]) {
    hash.update(await Deno.readFile(path.join(SOURCES, name)));
  }
  return hash.digest("hex").slice(0, 12);
}

/** As helm's own Makefile: its version, and the Kubernetes that charts are rendered for. */
function linkerFlags(): string {
  const [major = "", minor = ""] = KUBERNETES_VERSION.slice(1).split(".");
  const set = (name: string, value: string) =>
    `-X helm.sh/helm/v3/${name}=${value}`;
  return [
    "-s -w",
    set("internal/version.version", HELM_VERSION),
    set("pkg/chartutil.k8sVersionMajor", major),
    set("pkg/chartutil.k8sVersionMinor", minor),
    set("pkg/lint/rules.k8sVersionMajor", major),
    set("pkg/lint/rules.k8sVersionMinor", minor),
  ].join(" ");
}
