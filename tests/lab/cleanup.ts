import * as path from "node:path";
import type { Log } from "./build.ts";
import { labDir } from "./cache.ts";
import {
  bestEffort,
  deleteHostLink,
  deleteNetns,
  listNetns,
} from "./network.ts";
import { killRecorded } from "./process.ts";

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
  const hostLink = await Deno.readTextFile(path.join(runDir, "host-link"))
    .catch(() => undefined);
  if (hostLink !== undefined) {
    await bestEffort("delete the link", () => deleteHostLink(hostLink), log);
  }
  const mine = new RegExp(`^coil-${name}-(cp|node[0-9]+)$`);
  for (const netns of (await listNetns()).filter((n) => mine.test(n))) {
    await bestEffort(`delete "${netns}"`, () => deleteNetns(netns), log);
  }
  if (options.keepLogs || Deno.env.has("COIL_LAB_KEEP")) return;
  await bestEffort("remove files", async () => {
    await Deno.remove(runDir, { recursive: true }).catch((err) => {
      if (!(err instanceof Deno.errors.NotFound)) throw err;
    });
  }, log);
}
