import * as path from "node:path";
import type { Log } from "../build.ts";
import { run } from "../command.ts";
import { BUILD_PACKAGES, NET_PACKAGES, preparePackages } from "../packages.ts";
import { exists, remove } from "../files.ts";
import { digest, GUEST_DIR, removeUnused, touch, vmDir } from "./files.ts";
import { followMake } from "./make.ts";
import { fetchPackages } from "./packages.ts";

/** Change it when what is built of the same configuration changes. */
const RECIPE = "1";

/** What the kernel and a machine need of the host. */
const PACKAGES = {
  ...BUILD_PACKAGES,
  ...NET_PACKAGES,
  make: "make",
  flex: "flex",
  bison: "bison",
  bc: "bc",
  "xz-utils": "xz",
};

/** A Linux that is a program. */
export interface VmKernel {
  readonly program: string;
  /** Directory of its modules. */
  readonly modules: string;
  readonly modprobe: string;
}

/** Builds it when that has not been done yet. The caller holds the lock. */
export async function ensureKernel(log: Log): Promise<VmKernel> {
  await preparePackages(PACKAGES, log);
  const config = await Deno.readTextFile(
    path.join(GUEST_DIR, "..", "kernel.config"),
  );
  const release = await Deno.readTextFile("/etc/os-release");
  const dir = path.join(
    vmDir(),
    `kernel-${digest(RECIPE, config, release)}`,
  );
  if (!await exists(`${dir}/complete`)) {
    await remove(dir);
    await Deno.mkdir(dir, { recursive: true });
    await build(dir, { config, log });
    await Deno.writeTextFile(`${dir}/complete`, "");
    await removeUnused(vmDir(), "kernel-");
  }
  await touch(dir);
  const version = await Deno.readTextFile(`${dir}/version`);
  return {
    program: `${dir}/linux`,
    modules: `${dir}/lib/modules/${version}`,
    modprobe: `${dir}/modprobe`,
  };
}

async function build(
  dir: string,
  { config, log }: { readonly config: string; readonly log: Log },
): Promise<void> {
  const { source, depmod } = await fetchPackages(dir, log);
  const make = async (...args: string[]) =>
    await run("make", ["-s", "ARCH=um", ...args], { cwd: source });
  await make("tinyconfig");
  await Deno.writeTextFile(`${source}/.config`, config, { append: true });
  await make("olddefconfig");
  await tellLost(`${source}/.config`, { config, log });
  await followMake({
    about: "the kernel of the virtual machine",
    args: ["ARCH=um", `-j${navigator.hardwareConcurrency}`, "linux", "modules"],
    cwd: source,
    log,
  });
  const version = (await make("kernelrelease")).trim();
  await make(`INSTALL_MOD_PATH=${dir}`, "DEPMOD=true", "modules_install");
  await run(depmod, ["-b", dir, version]);
  await remove(`${dir}/lib/modules/${version}/build`);
  await run("strip", ["-o", `${dir}/linux`, `${source}/linux`]);
  await Deno.writeTextFile(`${dir}/version`, version);
  await remove(source);
}

/** What the configuration asks for and this version of the kernel does not know, or no longer as an option. */
async function tellLost(
  file: string,
  { config, log }: { readonly config: string; readonly log: Log },
): Promise<void> {
  const got = new Set((await Deno.readTextFile(file)).split("\n"));
  const lost = config.split("\n").filter((line) =>
    /^CONFIG_\w+=[ym]$/.test(line) && !got.has(line)
  );
  if (lost.length > 0) log(`the kernel has no ${lost.join(", ")}`);
}
