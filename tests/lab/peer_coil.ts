import { createHash } from "node:crypto";
import * as path from "node:path";
import type { Log } from "./build.ts";
import { labDir } from "./cache.ts";
import { run } from "./command.ts";
import { buildGoModule, goBuildEnv } from "./go.ts";

const SOURCES = path.join(import.meta.dirname ?? ".", "peer");
const MODULE = "github.com/cybozu-go/coil/v2";
const GO_MINIMUM = "1.26";
const PROGRAMS = ["coil", "coild", "coil-ipam-controller"] as const;

/** Coil v2 as upstream releases it. */
export interface PeerCoil {
  /** Directory of its programs: `coil`, `coild`, `coil-ipam-controller`. */
  readonly binDir: string;
  /** Directory of its manifests: `crd`, `rbac` and others. */
  readonly configDir: string;
}

/** Builds upstream's Coil v2 (Go) from its module when it is missing. */
export async function ensurePeerCoil(
  options: { readonly log?: Log } = {},
): Promise<PeerCoil> {
  const binDir = path.join(labDir(), "bin", `peer-coil-${await sourcesId()}`);
  await buildGoModule({
    output: `${binDir}/`,
    title: "Coil v2 (Go)",
    sources: SOURCES,
    minimum: GO_MINIMUM,
    args: ["-ldflags", "-s -w", ...PROGRAMS.map((p) => `${MODULE}/cmd/${p}`)],
    log: options.log,
  });
  return { binDir, configDir: path.join(await moduleDir(), "config") };
}

/** Where Go keeps the module's files; downloads them when they are missing. */
async function moduleDir(): Promise<string> {
  const answer = await run(
    "go",
    ["mod", "download", "-json", MODULE],
    { env: goBuildEnv(), cwd: SOURCES },
  );
  const { Dir: dir } = JSON.parse(answer) as { Dir?: string };
  if (dir === undefined) throw new Error(`Cannot find ${MODULE}: ${answer}`);
  return dir;
}

async function sourcesId(): Promise<string> {
  const hash = createHash("sha256");
  for (const name of ["go.mod", "go.sum"]) {
    hash.update(await Deno.readFile(path.join(SOURCES, name)));
  }
  return hash.digest("hex").slice(0, 12);
}
