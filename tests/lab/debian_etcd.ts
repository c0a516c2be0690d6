import * as path from "node:path";
import {
  lockFile,
  type Log,
  PackageFetcher,
  run,
} from "../../deploy/host/mod.ts";
import { labDir } from "./cache.ts";

const PACKAGE = "etcd-server";

/** Where {@link ensureDebianEtcd} puts it. */
export function debianEtcd(): string {
  return path.join(labDir(), PACKAGE, "usr", "bin", "etcd");
}

/**
 * Downloads Debian's etcd, without installing it: an older release than the lab's own, with all of etcd's flags. What is
 * there already is kept.
 */
export async function ensureDebianEtcd({ log }: { log: Log }): Promise<void> {
  const target = path.join(labDir(), PACKAGE);
  await Deno.mkdir(labDir(), { recursive: true });
  using _lock = await lockFile(`${target}.lock`);
  if (await exists(debianEtcd())) return;
  const fetcher = await PackageFetcher.open(`${target}-apt`, { log });
  const [deb = ""] = await fetcher.download([PACKAGE]);
  const part = `${target}.part`;
  await Deno.remove(part, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  await run("dpkg-deb", ["-x", deb, part]);
  await Deno.rename(part, target);
}

async function exists(file: string): Promise<boolean> {
  return await Deno.stat(file).then(() => true, () => false);
}
