import { createHash } from "node:crypto";
import * as path from "node:path";
import { TextLineStream } from "./lines.ts";
import { binDir, KUBERNETES_VERSION, labDir, lockFile } from "./cache.ts";
import { requireGo } from "./go.ts";
import { CONTROL_PLANE_PACKAGES, preparePackages } from "./packages.ts";

const SOURCES = path.join(import.meta.dirname ?? ".", "k8s");
const EXECUTABLE = "coil-control-plane";
const NAMES = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
const TAGS = "grpcnotrace,nolegacyproviders";
/** As go.mod says. */
const GO_MINIMUM = "1.25";
const PROGRESS_INTERVAL_MS = 10_000;

/** Receives one line of progress. */
export type Log = (line: string) => void;

/**
 * Installs the packages and builds the control plane that the API server tests need, when they are missing.
 *
 * Sources come from the Go module proxy; minutes when the build cache is cold, milliseconds when all is there.
 * Two processes may call it at once.
 * @throws {Error} when Go is missing or something fails, with the command's last words.
 */
export async function ensureControlPlane(
  options: { log?: Log } = {},
): Promise<void> {
  const started = performance.now();
  const log: Log = (line) => {
    const seconds = Math.round((performance.now() - started) / 1000);
    options.log?.(`[${seconds} s] ${line}`);
  };
  await Deno.mkdir(binDir(), { recursive: true });
  using _lock = await lockFile(path.join(labDir(), "build.lock"), {
    onWait: () => log("waiting for another run that prepares the lab"),
  });
  await preparePackages(CONTROL_PLANE_PACKAGES, log);
  const id = await sourcesId();
  const idFile = path.join(binDir(), `.${EXECUTABLE}.id`);
  const executable = path.join(binDir(), EXECUTABLE);
  if (await readText(idFile) !== id || !await exists(executable)) {
    await build(executable, log);
    await Deno.writeTextFile(idFile, id);
  }
  for (const name of NAMES) await link(path.join(binDir(), name));
}

async function sourcesId(): Promise<string> {
  const hash = createHash("sha256").update(TAGS).update(KUBERNETES_VERSION);
  for (const file of ["go.mod", "go.sum", "main.go", "etcd.go"]) {
    hash.update(await Deno.readFile(path.join(SOURCES, file)));
  }
  return hash.digest("hex");
}

function linkerFlags(): string {
  const minor = KUBERNETES_VERSION.split(".")[1] ?? "";
  const set = (name: string, value: string) => `-X k8s.io/${name}=${value}`;
  return [
    "-s -w",
    set("component-base/version.gitVersion", KUBERNETES_VERSION),
    set("component-base/version.gitMajor", "1"),
    set("component-base/version.gitMinor", minor),
    set("component-base/version.gitTreeState", "clean"),
    set("client-go/pkg/version.gitVersion", KUBERNETES_VERSION),
  ].join(" ");
}

async function build(executable: string, log: Log): Promise<void> {
  await requireGo(SOURCES, GO_MINIMUM);
  log(`building the control plane of Kubernetes ${KUBERNETES_VERSION}`);
  const part = `${executable}.part`;
  const child = spawnGo([
    "build",
    "-v",
    "-mod=readonly",
    "-trimpath",
    "-tags",
    TAGS,
    "-ldflags",
    linkerFlags(),
    "-o",
    part,
    ".",
  ]);
  const seen = { downloads: 0, packages: 0 };
  const tail: string[] = [];
  const timer = setInterval(
    () =>
      log(
        `${seen.downloads} modules downloaded, ${seen.packages} packages compiled`,
      ),
    PROGRESS_INTERVAL_MS,
  );
  try {
    const lines = child.stderr.pipeThrough(new TextLineStream());
    for await (const line of lines) {
      if (line.startsWith("go: downloading")) seen.downloads++;
      else seen.packages++;
      tail.push(line);
      if (tail.length > 15) tail.shift();
    }
    const status = await child.status;
    if (!status.success) {
      throw new Error(`Cannot build the control plane: ${tail.join("\n")}`);
    }
  } finally {
    clearInterval(timer);
  }
  await Deno.rename(part, executable);
  log(`built ${executable}`);
}

function spawnGo(args: string[]): Deno.ChildProcess {
  return new Deno.Command("go", {
    args,
    cwd: SOURCES,
    env: {
      GOMODCACHE: path.join(labDir(), "gomod"),
      GOCACHE: path.join(labDir(), "gocache"),
      GOWORK: "off",
      GOFLAGS: "-buildvcs=false",
      CGO_ENABLED: "0",
    },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

async function link(file: string): Promise<void> {
  try {
    if (await Deno.readLink(file) === EXECUTABLE) return;
    await Deno.remove(file);
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
  await Deno.symlink(EXECUTABLE, file);
}

async function exists(file: string): Promise<boolean> {
  return await Deno.stat(file).then(() => true, () => false);
}

async function readText(file: string): Promise<string | undefined> {
  return await Deno.readTextFile(file).catch(() => undefined);
}
