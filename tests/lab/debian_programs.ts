import * as path from "node:path";
import {
  lockFile,
  type Log,
  PackageFetcher,
  run,
} from "../../deploy/host/mod.ts";
import { labDir } from "./cache.ts";
import { exists, remove } from "./files.ts";

/** etcd: an older release than the lab's own, with all of etcd's flags. */
export function debianEtcd(): string {
  return fileOf("etcd-server", "etcd");
}

/** The program that checks and tests rules of Prometheus. */
export function promtool(): string {
  return fileOf("prometheus", "promtool");
}

/** Prometheus. */
export function prometheus(): string {
  return fileOf("prometheus", "prometheus");
}

function fileOf(name: string, program: string): string {
  return path.join(labDir(), name, "usr", "bin", program);
}

/** Downloads the packages of these programs, without installing them. What is there already is kept. */
export async function ensureDebianPrograms(
  { log }: { readonly log: Log },
): Promise<void> {
  await ensurePackage("etcd-server", log);
  await ensurePackage("prometheus", log);
}

async function ensurePackage(name: string, log: Log): Promise<void> {
  const target = path.join(labDir(), name);
  await Deno.mkdir(labDir(), { recursive: true });
  using _lock = await lockFile(`${target}.lock`);
  if (await exists(target)) return;
  const fetcher = await PackageFetcher.open(`${target}-apt`, { log });
  const [deb = ""] = await fetcher.download([name]);
  const part = `${target}.part`;
  await remove(part);
  await run("dpkg-deb", ["-x", deb, part]);
  await Deno.rename(part, target);
}
