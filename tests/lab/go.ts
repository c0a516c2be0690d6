import * as path from "node:path";
import { labDir } from "./cache.ts";
import { run } from "./command.ts";

/** Directory of the Go module that has or requires all programs which the lab builds. */
export const GO_SOURCES: string = path.join(import.meta.dirname ?? ".", "go");

/** A Go that can build what the tests need is missing. */
export class GoError extends Error {
  override readonly name = "GoError";
}

/** Environment of `go build`: module and build caches are the lab's. */
export function goBuildEnv(): Record<string, string> {
  return {
    GOMODCACHE: path.join(labDir(), "gomod"),
    GOCACHE: path.join(labDir(), "gocache"),
    GOWORK: "off",
    GOFLAGS: "-buildvcs=false",
    CGO_ENABLED: "0",
  };
}

/** Where Go keeps a module's files; downloads them when they are missing. Without a version, `module` has the one that the module in `dir` requires. */
export async function goModuleDir(
  module: string,
  { dir }: { readonly dir: string },
): Promise<string> {
  const answer = await run(
    "go",
    ["mod", "download", "-json", module],
    { env: goBuildEnv(), cwd: dir },
  );
  const { Dir: found } = JSON.parse(answer) as { Dir?: string };
  if (found === undefined) throw new Error(`Cannot find ${module}: ${answer}`);
  return found;
}

/**
 * Makes sure that there is a Go for the module in `dir`, as `minimum` says ("1.25"). From 1.21 on, Go fetches the newer
 * one that a module asks for by itself.
 * @throws {GoError} when Go is missing or too old.
 */
export async function requireGo(
  dir: string,
  minimum: string,
): Promise<void> {
  const install = `install Go ${minimum} or newer (https://go.dev/dl/)`;
  const found = await goVersion(dir, install);
  if (isAtLeast(found, minimum)) return;
  throw new GoError(`Cannot use "${found}", it is too old: ${install}`);
}

async function goVersion(dir: string, install: string): Promise<string> {
  try {
    const { success, stdout, stderr } = await new Deno.Command("go", {
      args: ["env", "GOVERSION"],
      cwd: dir,
      env: { GOWORK: "off" },
    }).output();
    const decoder = new TextDecoder();
    if (success) return decoder.decode(stdout).trim();
    throw new GoError(
      `Cannot use Go: ${decoder.decode(stderr).trim()}; ${install}`,
    );
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new GoError(`Cannot find Go: ${install}`, { cause });
  }
}

/** Whether a version as Go tells it, "go1.26.8" or "go1.26rc1", is no older than "1.25". */
export function isAtLeast(found: string, minimum: string): boolean {
  // A Go from its repository: "devel go1.27-0a1b2c3 …".
  const [, major = "0", minor = "0"] = /go(\d+)\.(\d+)/.exec(found) ?? [];
  const [wantedMajor = 0, wantedMinor = 0] = minimum.split(".").map(Number);
  const [haveMajor, haveMinor] = [Number(major), Number(minor)];
  return haveMajor > wantedMajor ||
    haveMajor === wantedMajor && haveMinor >= wantedMinor;
}
