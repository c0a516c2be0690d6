import * as path from "node:path";
import type { Log } from "./build.ts";
import { labDir, tryLockFile } from "./cache.ts";
import { labCgroup, removeCgroup } from "./cluster/cgroups.ts";
import { bestEffort, deleteNetns, listNetns } from "./network.ts";
import { killRecorded } from "./process.ts";

const KEEP_FILE = "keep";

/**
 * Ends the processes of the control plane of this name and removes its links, namespaces and files; what is not there is no error.
 *
 * With `keepLogs`, or with COIL_LAB_KEEP set, the run directory stays until the next start of the same name.
 */
export async function cleanUp(
  name: string,
  options: { log: Log; keepLogs?: boolean },
): Promise<void> {
  const { log } = options;
  const runDir = path.join(labDir(), "run", name);
  await bestEffort("end processes", () => killRecorded(runDir), log);
  await bestEffort(
    "remove control groups",
    () => removeCgroup(labCgroup(name)),
    log,
  );
  const mine = new RegExp(`^coil-${name}-(cp|node[0-9]+|pod-.+|vpc-.+)$`);
  const namespaces = (await listNetns()).filter((n) => mine.test(n));
  // The machine's end of the link goes with the other one: by its name it could be another lab's by now.
  for (const netns of namespaces) {
    await bestEffort(`delete "${netns}"`, () => deleteNetns(netns), log);
  }
  if (options.keepLogs || Deno.env.has("COIL_LAB_KEEP")) return;
  await bestEffort("remove files", async () => {
    await Deno.remove(runDir, { recursive: true }).catch((err) => {
      if (!(err instanceof Deno.errors.NotFound)) throw err;
    });
  }, log);
}

/** Marks a lab that is to outlive the process which made it. */
export async function keepLab(name: string): Promise<void> {
  await Deno.writeTextFile(path.join(labDir(), "run", name, KEEP_FILE), "");
}

/** Removes the labs whose process was ended before it could, but for those that are to be kept. */
export async function sweepLabs(options: { log: Log }): Promise<void> {
  const dir = path.join(labDir(), "run");
  for (const name of await labNames(dir)) {
    const runDir = path.join(dir, name);
    const isKept = await exists(path.join(runDir, KEEP_FILE));
    if (isKept || !await exists(runDir)) continue;
    using lock = await tryLockFile(path.join(dir, `${name}.lock`));
    if (lock === undefined) continue; // somebody is at work with it
    options.log(`removing what an interrupted run left of lab "${name}"`);
    await cleanUp(name, options);
  }
}

async function labNames(dir: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const { name } of Deno.readDir(dir)) {
      if (name.endsWith(".lock")) names.push(path.basename(name, ".lock"));
    }
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
  return names;
}

async function exists(file: string): Promise<boolean> {
  return await Deno.stat(file).then(() => true, () => false);
}
