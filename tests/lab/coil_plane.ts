/**
 * Control planes that have Coil's resources and rights from their start.
 *
 * @module
 */
import { createHash } from "node:crypto";
import * as path from "node:path";
import { removeUnused } from "../../deploy/host/mod.ts";
import { KUBERNETES_VERSION, labDir, lockFile } from "./cache.ts";
import { run } from "./command.ts";
import { copyData } from "./components.ts";
import { ControlPlane, type ControlPlaneOptions } from "./control_plane.ts";
import { exists, remove } from "./files.ts";
import type { LabFamily } from "./network.ts";
import type { LabProcess } from "./process.ts";
import { eventually } from "./wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const CRDS = `${ROOT}crds`;
const BASE = `${ROOT}deploy/base`;
/** What decides what the data is. */
const SOURCES = [
  CRDS,
  BASE,
  // etcd's version.
  `${ROOT}tests/lab/go/go.mod`,
  `${ROOT}tests/lab/components.ts`,
  `${ROOT}tests/lab/control_plane.ts`,
  `${ROOT}tests/lab/coil_plane.ts`,
];
const COIL_API = "/apis/coil.cybozu.com/v2";
const UNUSED_MS = 7 * 86_400_000;
/** The API server withdraws its address, and ends its watches. */
const END_MS = 60_000;

/** How {@linkcode startCoilPlane} starts a control plane. */
export type CoilPlaneOptions = Omit<ControlPlaneOptions, "data">;

/**
 * Starts a control plane that has what is in `crds/` and `deploy/base`, and returns when it serves Coil's resources.
 *
 * To install that takes 0.8 s of processor time, so it is done once for each change, and etcd begins with a copy of
 * the data: not that of other programs, which may be of another release.
 */
export async function startCoilPlane(
  options: CoilPlaneOptions,
): Promise<ControlPlane> {
  const data = options.programs === undefined
    ? await ensureData(options)
    : undefined;
  await using undo = new AsyncDisposableStack();
  const plane = undo.use(await ControlPlane.start({ ...options, data }));
  if (data === undefined) await install(plane);
  await plane.definitionsEstablished();
  await eventually("the storage of Coil's resources", () => isServed(plane));
  undo.move();
  return plane;
}

async function install(plane: ControlPlane): Promise<void> {
  await plane.kubectl("apply", "-f", CRDS);
  await plane.kubectl("apply", "-k", BASE);
  await plane.definitionsEstablished();
}

/** Makes the data to begin with, unless the cache has it, and returns its directory. */
async function ensureData(
  { families = ["ipv4", "ipv6"], log = () => {} }: CoilPlaneOptions,
): Promise<string> {
  const all = path.join(labDir(), "coil-data");
  const directory = path.join(all, await keyOf(families));
  using _lock = await lockFile(path.join(labDir(), "coil-data.lock"), {
    onWait: () => log("waiting for another run that installs Coil's resources"),
  });
  if (!await exists(directory)) {
    await make(directory, { name: "data", families, log });
    await removeUnused(all, UNUSED_MS);
  }
  const now = new Date();
  await Deno.utime(directory, now, now);
  return directory;
}

async function make(
  directory: string,
  options: ControlPlaneOptions,
): Promise<void> {
  await using plane = await ControlPlane.start(options);
  await install(plane);
  await end(plane.apiServer);
  await end(plane.etcd);
  const part = `${directory}.part`;
  await remove(part);
  await Deno.mkdir(path.dirname(directory), { recursive: true });
  await copyData(plane.dataDir, part);
  // What has the name is whole, after a failure of power too.
  await run("sync", ["--file-system", part]);
  await Deno.rename(part, directory);
}

async function end(process: LabProcess | undefined): Promise<void> {
  const status = await process?.stop({ graceMs: END_MS });
  if (status?.success) return;
  throw new Error(`Cannot end "${process?.logFile}": ${status?.signal}`);
}

/** Another for other definitions, rights, flags of the API server, versions or families. */
async function keyOf(families: readonly LabFamily[]): Promise<string> {
  const hash = createHash("sha256").update(KUBERNETES_VERSION);
  hash.update(families.join());
  for (const source of SOURCES) {
    for (const file of await filesOf(source)) {
      hash.update(path.basename(file)).update(await Deno.readFile(file));
    }
  }
  return hash.digest("hex").slice(0, 12);
}

async function filesOf(source: string): Promise<readonly string[]> {
  if ((await Deno.stat(source)).isFile) return [source];
  const entries = await Array.fromAsync(Deno.readDir(source));
  return entries.map(({ name }) => path.join(source, name)).sort();
}

/** For a moment after its start the API server answers that their storage is initializing. */
async function isServed(plane: ControlPlane): Promise<boolean> {
  const { resources } = await plane.request("GET", COIL_API) as {
    readonly resources: readonly { readonly name: string }[];
  };
  for (const { name } of resources) {
    if (name.includes("/")) continue;
    await plane.request("GET", `${COIL_API}/${name}`);
  }
  return true;
}
