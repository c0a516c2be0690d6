import { createHash } from "node:crypto";
import * as path from "node:path";
import { TextLineStream } from "./lines.ts";
import { binDir, KUBERNETES_VERSION } from "./cache.ts";
import { goBuildEnv, requireGo } from "./go.ts";
import type { Log } from "./build.ts";

const SOURCES = path.join(import.meta.dirname ?? ".", "k8s");
/** The same for all, so that they share what Go's cache has. */
const TAGS = "grpcnotrace,nolegacyproviders";
/** As go.mod says. */
const GO_MINIMUM = "1.25";
const PROGRESS_INTERVAL_MS = 10_000;
const TAIL_LINES = 15;

/** An executable made of a package in `k8s/`. */
export interface GoProgram {
  /** Its file's name. */
  readonly executable: string;
  /** What it is, for messages. */
  readonly about: string;
  /** Directory of the package, in Go's form: "." or "./name". */
  readonly directory: string;
  /** Its sources. */
  readonly files: readonly string[];
  /** Links to it, by whose names it tells what to be. */
  readonly names: readonly string[];
}

/** Builds a program, unless what is there was made of the same sources, and makes its links. */
export async function ensureGoProgram(
  program: GoProgram,
  log: Log,
): Promise<void> {
  if (!await isBuilt(program)) {
    await build(program, log);
    await Deno.writeTextFile(idFile(program), await sourcesId(program));
  }
  for (const name of program.names) {
    await link(path.join(binDir(), name), program.executable);
  }
}

/** Whether there is a program that was made of these sources. */
export async function isBuilt(program: GoProgram): Promise<boolean> {
  const executable = path.join(binDir(), program.executable);
  return await readText(idFile(program)) === await sourcesId(program) &&
    await exists(executable);
}

function idFile({ executable }: GoProgram): string {
  return path.join(binDir(), `.${executable}.id`);
}

async function sourcesId(program: GoProgram): Promise<string> {
  const hash = createHash("sha256").update(TAGS).update(KUBERNETES_VERSION);
  for (const file of ["go.mod", "go.sum", ...program.files]) {
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

async function build(program: GoProgram, log: Log): Promise<void> {
  await requireGo(SOURCES, GO_MINIMUM);
  log(`building ${program.about}`);
  const executable = path.join(binDir(), program.executable);
  const part = `${executable}.part`;
  const child = spawnGo([
    ...["build", "-v", "-mod=readonly", "-trimpath", "-tags", TAGS],
    ...["-ldflags", linkerFlags(), "-o", part, program.directory],
  ]);
  const tail = await followBuild(child, log);
  const status = await child.status;
  if (!status.success) {
    throw new Error(`Cannot build ${program.about}: ${tail.join("\n")}`);
  }
  await Deno.rename(part, executable);
  log(`built ${executable}`);
}

/** Tells now and then how far Go is, and returns its last words. */
async function followBuild(
  child: Deno.ChildProcess,
  log: Log,
): Promise<readonly string[]> {
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
      if (tail.length > TAIL_LINES) tail.shift();
    }
    return tail;
  } finally {
    clearInterval(timer);
  }
}

function spawnGo(args: string[]): Deno.ChildProcess {
  return new Deno.Command("go", {
    args,
    cwd: SOURCES,
    env: goBuildEnv(),
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

async function link(file: string, target: string): Promise<void> {
  try {
    if (await Deno.readLink(file) === target) return;
    await Deno.remove(file);
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
  await Deno.symlink(target, file);
}

async function exists(file: string): Promise<boolean> {
  return await Deno.stat(file).then(() => true, () => false);
}

async function readText(file: string): Promise<string | undefined> {
  return await Deno.readTextFile(file).catch(() => undefined);
}
