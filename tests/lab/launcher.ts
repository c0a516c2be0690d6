// What coil-installer puts on a node: the launcher as `coil`, the whole
// executable beside it.
import * as path from "node:path";
import { compileLauncher } from "../../deploy/executable/mod.ts";
import { launcherFor } from "../../roles/coil_installer/base/launcher.ts";

/** Compiled once; the same for all nodes but for the socket's path. */
let template: Promise<Uint8Array | undefined> | undefined;

/** Fills a directory of CNI plugins for the coild at a socket; returns the path of `coil`. */
export async function placePlugin(
  directory: string,
  options: { readonly executable: string; readonly socket: string },
): Promise<string> {
  const launcher = await (template ??= compileLauncher());
  if (launcher === undefined) throw new Error("Cannot go on: no C compiler");
  await Deno.mkdir(directory, { recursive: true });
  const plugin = path.join(directory, "coil");
  await Deno.writeFile(plugin, launcherFor(launcher, options.socket), {
    mode: 0o755,
  });
  await Deno.symlink(
    options.executable,
    path.join(directory, "coil-executable"),
  );
  return plugin;
}
