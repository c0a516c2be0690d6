import * as path from "node:path";
import { PackageFetcher } from "../../../deploy/host/mod.ts";
import type { Log } from "../build.ts";
import { run } from "../command.ts";
import { exists } from "../files.ts";

/** The kernel's source is Debian's newest for its release 13: those of release 12 cannot run programs fast enough. */
const RELEASE = "trixie-backports";

/** Debian's source of the kernel, and what loads its modules. */
export interface VmPackages {
  /** The tree. */
  readonly source: string;
  /** A script, since the program brings its libraries; it names this directory. */
  readonly depmod: string;
}

/** Fetches both into the directory and unpacks them; installs nothing. */
export async function fetchPackages(
  dir: string,
  log: Log,
): Promise<VmPackages> {
  const apt = await PackageFetcher.open(path.join(dir, "apt"), {
    log,
    release: RELEASE,
  });
  const name = await apt.resolve("linux-source", /^linux-source-\d/);
  const [source = "", ...tools] = await apt.download([
    ...[name, "kmod", "libkmod2"],
  ]);
  log("unpacking");
  for (const deb of tools) await run("dpkg", ["-x", deb, `${dir}/tools`]);
  await run("dpkg", ["-x", source, `${dir}/deb`]);
  const tree = path.join(dir, "source");
  await Deno.mkdir(tree);
  await run("tar", [
    ...["-x", "--strip-components=1", "-C", tree],
    ...["-f", `${dir}/deb/usr/src/${name}.tar.xz`],
  ]);
  await Deno.remove(`${dir}/deb`, { recursive: true });
  await Deno.remove(`${dir}/apt`, { recursive: true });
  return { source: tree, depmod: await writeScripts(dir) };
}

/** Writes `modprobe` and `depmod` into the directory and returns the latter. modprobe is the guest's, where this directory has the same path and the kernel calls without environment. */
async function writeScripts(dir: string): Promise<string> {
  const tools = `${dir}/tools`;
  const own = `${tools}/bin/kmod`;
  const kmod = await exists(own) ? own : `${tools}/usr/bin/kmod`;
  const libraries = ["usr/lib", "lib"].map((lib) =>
    `${tools}/${lib}/x86_64-linux-gnu`
  ).join(":");
  await Deno.mkdir(`${dir}/applets`);
  for (const name of ["modprobe", "depmod"]) {
    const applet = `${dir}/applets/${name}`;
    await Deno.symlink(kmod, applet);
    await Deno.writeTextFile(
      `${dir}/${name}`,
      `#!/bin/sh\nLD_LIBRARY_PATH='${libraries}' exec '${applet}' "$@"\n`,
      { mode: 0o755 },
    );
  }
  return `${dir}/depmod`;
}
