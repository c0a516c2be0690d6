import { createHash } from "node:crypto";
import * as path from "node:path";
import type { Log } from "./build.ts";
import { KUBERNETES_VERSION, labDir, lockFile } from "./cache.ts";
import { run } from "./command.ts";
import { requireGo } from "./go.ts";

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
  using _lock = await lockFile(path.join(labDir(), "build.lock"), {
    onWait: () => options.log?.("waiting for another run that builds"),
  });
  if (await Deno.stat(file).then(() => true, () => false)) return file;
  await requireGo(SOURCES, GO_MINIMUM);
  const started = performance.now();
  options.log?.(`building helm ${HELM_VERSION}`);
  await run("go", [
    ...["build", "-C", SOURCES, "-mod=readonly", "-trimpath"],
    ...["-ldflags", linkerFlags(), "-o", `${file}.part`],
    "helm.sh/helm/v3/cmd/helm",
  ], {
    env: {
      GOMODCACHE: path.join(labDir(), "gomod"),
      GOCACHE: path.join(labDir(), "gocache"),
      GOWORK: "off",
      GOFLAGS: "-buildvcs=false",
      CGO_ENABLED: "0",
    },
  });
  await Deno.rename(`${file}.part`, file);
  const seconds = Math.round((performance.now() - started) / 1000);
  options.log?.(`built ${file} (${seconds} s)`);
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
