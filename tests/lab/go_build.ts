import { createHash } from "node:crypto";
import * as path from "node:path";
import type { Log } from "./build.ts";
import { binDir, KUBERNETES_VERSION } from "./cache.ts";
import { exists, readText, remove } from "./files.ts";
import { GO_SOURCES, goBuildEnv, goModuleDir, requireGo } from "./go.ts";
import { followBuild } from "./progress.ts";

/** The same for all, so that they share what Go's cache has: without what needs C libraries, or that nobody looks at here. */
const TAGS =
  "grpcnotrace,nolegacyproviders,no_btrfs,no_zfs,no_devmapper,no_tracing";
/** As go.mod says. */
const GO_MINIMUM = "1.26";
const HELM = "helm.sh/helm/v3";
const CONTAINERD = "github.com/containerd/containerd/v2";

/** A module that is built by itself. */
interface OwnModule {
  /** `PATH@VERSION`. */
  readonly name: string;
  readonly goMinimum: string;
}

/** Programs made of packages that the module `tests/lab/go` has or requires, or of those of a module that does not fit beside what it requires. */
export interface GoProgram {
  /** In {@link binDir}: a file, or a directory of one for each package where it ends in a slash. */
  readonly output: string;
  /** What it is, for messages. */
  readonly about: string;
  readonly packages: readonly string[];
  /** In whose directory they are built; absent: `tests/lab/go`. */
  readonly module?: OwnModule;
  /** Links in {@link binDir} and where they lead. Of an executable with several programs, the link's name says which one runs. */
  readonly links?: Readonly<Record<string, string>>;
}

/** Where a program is, or its directory. */
export function goProgramFile({ output }: GoProgram): string {
  return path.join(binDir(), output).replace(/\/$/, "");
}

/** Builds a program, unless what is there was made of the same sources, and makes its links. The caller holds the lock. */
export async function ensureGoProgram(
  program: GoProgram,
  log: Log,
): Promise<void> {
  if (!await isBuilt(program)) {
    await build(program, log);
    await Deno.writeTextFile(idFile(program), await sourcesId(program));
  }
  for (const [name, target] of Object.entries(program.links ?? {})) {
    await link(path.join(binDir(), name), target);
  }
}

/** Whether there is a program that was made of these sources. */
export async function isBuilt(program: GoProgram): Promise<boolean> {
  return await readText(idFile(program)) === await sourcesId(program) &&
    await exists(goProgramFile(program));
}

function idFile(program: GoProgram): string {
  const file = goProgramFile(program);
  return path.join(path.dirname(file), `.${path.basename(file)}.id`);
}

async function sourcesId({ module, packages }: GoProgram): Promise<string> {
  const hash = createHash("sha256").update(TAGS).update(await linkerFlags());
  hash.update(packages.join());
  if (module !== undefined) return hash.update(module.name).digest("hex");
  for (const dir of [".", ...packages.filter((p) => p.startsWith("./"))]) {
    for (const file of await filesOf(path.join(GO_SOURCES, dir))) {
      hash.update(await Deno.readFile(file));
    }
  }
  return hash.digest("hex");
}

async function filesOf(directory: string): Promise<readonly string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  return entries.filter((entry) => entry.isFile)
    .map(({ name }) => path.join(directory, name)).sort();
}

/** What programs say of their versions, and helm of the Kubernetes that it renders charts for. */
async function linkerFlags(): Promise<string> {
  const modules = await Deno.readTextFile(path.join(GO_SOURCES, "go.mod"));
  const versionOf = (module: string) =>
    modules.split(`\t${module} `)[1]?.split(/\s/)[0] ?? "";
  const [major = "", minor = ""] = KUBERNETES_VERSION.slice(1).split(".");
  const set = (name: string, value: string) => `-X ${name}=${value}`;
  return [
    "-s -w",
    set("k8s.io/component-base/version.gitVersion", KUBERNETES_VERSION),
    set("k8s.io/component-base/version.gitMajor", major),
    set("k8s.io/component-base/version.gitMinor", minor),
    set("k8s.io/component-base/version.gitTreeState", "clean"),
    set("k8s.io/client-go/pkg/version.gitVersion", KUBERNETES_VERSION),
    set(`${HELM}/internal/version.version`, versionOf(HELM)),
    set(`${HELM}/pkg/chartutil.k8sVersionMajor`, major),
    set(`${HELM}/pkg/chartutil.k8sVersionMinor`, minor),
    set(`${HELM}/pkg/lint/rules.k8sVersionMajor`, major),
    set(`${HELM}/pkg/lint/rules.k8sVersionMinor`, minor),
    set(`${CONTAINERD}/version.Version`, versionOf(CONTAINERD)),
  ].join(" ");
}

async function build(program: GoProgram, log: Log): Promise<void> {
  const { about, module, output, packages } = program;
  if (module === undefined) await requireGo(GO_SOURCES, GO_MINIMUM);
  else await requireGo(binDir(), module.goMinimum);
  log(`building ${about}`);
  const cwd = module === undefined
    ? GO_SOURCES
    : await goModuleDir(module.name, { dir: binDir() });
  const file = goProgramFile(program);
  const part = `${file}.part`;
  await remove(part);
  const child = spawnGo(cwd, [
    ...["build", "-v", "-mod=readonly", "-trimpath", "-tags", TAGS],
    ...["-ldflags", await linkerFlags()],
    ...["-o", output.endsWith("/") ? `${part}/` : part, ...packages],
  ]);
  const seen = { downloads: 0, packages: 0 };
  const lastWords = await followBuild(child.stderr, {
    onLine: (line) => {
      if (line.startsWith("go: downloading")) seen.downloads++;
      else seen.packages++;
    },
    describe: () =>
      `${seen.downloads} modules downloaded, ${seen.packages} packages compiled`,
    log,
  });
  const status = await child.status;
  if (!status.success) {
    throw new Error(`Cannot build ${about}: ${lastWords}`);
  }
  await remove(file);
  await Deno.rename(part, file);
  log(`built ${file}`);
}

function spawnGo(cwd: string, args: string[]): Deno.ChildProcess {
  return new Deno.Command("go", {
    args,
    cwd,
    env: goBuildEnv(),
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

/** A program that starts now finds the former link or this one. */
async function link(file: string, target: string): Promise<void> {
  const found = await Deno.readLink(file).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  if (found === target) return;
  const part = `${file}.part`;
  await remove(part);
  await Deno.symlink(target, part);
  await Deno.rename(part, file);
}
