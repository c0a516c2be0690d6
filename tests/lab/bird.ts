import * as path from "node:path";
import { PackageFetcher } from "../../deploy/host/mod.ts";
import type { Log } from "./build.ts";
import { labDir, lockFile } from "./cache.ts";
import { run } from "./command.ts";

/** A BIRD that can be run. */
export interface Bird {
  /** The daemon. */
  readonly program: string;
  /** The program that asks it. */
  readonly control: string;
  /** What both need in their environment. */
  readonly env: Record<string, string>;
}

/** What only installing it takes, and the C library, which is here. */
const NEEDLESS = ["adduser", "init-system-helpers", "libc6", "ucf"];

/**
 * Unpacks Debian's BIRD 2 into the cache when it is not there, and returns where it is. It is not installed: that
 * would start a routing daemon on this machine.
 */
export async function ensureBird(
  options: { readonly log?: Log } = {},
): Promise<Bird> {
  const log = options.log ?? (() => {});
  const directory = path.join(labDir(), "bird");
  const root = path.join(directory, "root");
  using _lock = await lockFile(path.join(labDir(), "bird.lock"), {
    onWait: () => log("waiting for another run that fetches BIRD"),
  });
  const bird: Bird = {
    program: path.join(root, "usr/sbin/bird"),
    control: path.join(root, "usr/sbin/birdc"),
    env: { LD_LIBRARY_PATH: await libraryPath(root) },
  };
  const done = path.join(directory, "done");
  if (await Deno.stat(done).then(() => true, () => false)) return bird;
  const apt = await PackageFetcher.open(path.join(directory, "apt"), { log });
  const names = await apt.closure(["bird2"], { assumed: NEEDLESS });
  for (const file of await apt.download(names)) {
    await run("dpkg-deb", ["--extract", file, root]);
  }
  await Deno.remove(path.join(directory, "apt"), { recursive: true });
  await Deno.writeTextFile(done, "");
  return bird;
}

/** Debian's directory of libraries for this machine. */
async function libraryPath(root: string): Promise<string> {
  const machine = (await run("uname", ["-m"])).trim();
  return ["usr/lib", "lib"]
    .map((directory) => path.join(root, directory, `${machine}-linux-gnu`))
    .join(":");
}
