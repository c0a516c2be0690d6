import * as path from "node:path";
import { tryLockFile } from "../cache.ts";
import { exists, remove } from "./files.ts";

const PREFIX = "coil-vm-";

/** The directory of one machine, removed when disposed. Its path is short, as paths of sockets have to be. */
export interface MachineDir extends AsyncDisposable {
  readonly path: string;
}

/** Makes the directory of a machine, and removes those of machines whose process was killed. */
export async function machineDir(): Promise<MachineDir> {
  const dir = await Deno.makeTempDir({ prefix: PREFIX });
  const lock = await tryLockFile(path.join(dir, "lock"));
  await sweep(path.dirname(dir));
  for (const name of ["job", "none"]) await Deno.mkdir(path.join(dir, name));
  return {
    path: dir,
    async [Symbol.asyncDispose](): Promise<void> {
      await remove(dir);
      lock?.[Symbol.dispose]();
    },
  };
}

async function sweep(parent: string): Promise<void> {
  for await (const { name } of Deno.readDir(parent)) {
    const dir = path.join(parent, name);
    // Another process may just have made its directory, and no lock yet.
    if (!name.startsWith(PREFIX) || !await exists(path.join(dir, "lock"))) {
      continue;
    }
    using lock = await tryLockFile(path.join(dir, "lock"));
    if (lock !== undefined) await remove(dir);
  }
}
