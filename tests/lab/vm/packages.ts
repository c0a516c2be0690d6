import * as path from "node:path";
import { PackageFetcher } from "../../../deploy/host/mod.ts";
import type { Log } from "../build.ts";
import { run } from "../command.ts";
import { digest, exists, remove, touch, vmDir } from "./files.ts";

/** Change it when what {@link fetchPackages} unpacks changes. */
const RECIPE = "1";

/** Debian's kernel, its modules, QEMU and the few programs of the initramfs, unpacked. */
export interface VmPackages {
  /** Directory that holds it all. */
  readonly dir: string;
  readonly kernelVersion: string;
  readonly kernel: string;
  /** Directory with `lib/modules/<kernelVersion>`. */
  readonly modules: string;
  readonly busybox: string;
  /** Scripts, since the programs bring their libraries; they name this directory. */
  readonly modprobe: string;
  readonly depmod: string;
  readonly qemu: string;
}

/** Parts of the kernel's module tree that a network test can need. */
const MODULE_DIRS = [
  ...["lib", "crypto", "arch", "net", "security"],
  ...["fs/9p", "fs/netfs", "fs/fscache", "fs/overlayfs", "fs/fuse"],
  ...["drivers/virtio", "drivers/char/hw_random", "drivers/block"],
  ...["drivers/net", "drivers/char/virtio_console.ko"],
  "drivers/char/virtio_console.ko.xz",
];
const UNUSED_DIRS = [
  ...["wireless", "ethernet", "can", "usb", "wan", "hamradio", "fddi"].map(
    (name) => `drivers/net/${name}`,
  ),
  ...["bluetooth", "mac80211", "wireless", "can", "ax25", "rxrpc", "atm"].map(
    (name) => `net/${name}`,
  ),
  ...["tipc", "ceph", "nfc"].map((name) => `net/${name}`),
];

/** Fetches and unpacks, once per machine and recipe; installs nothing. The caller holds the lock. */
export async function fetchPackages(log: Log): Promise<VmPackages> {
  const release = await Deno.readTextFile("/etc/os-release");
  const name = `packages-${digest(RECIPE, release)}`;
  const dir = path.join(vmDir(), name);
  // QEMU does not start when the machine has lost a library that it had.
  const isUsable = await exists(path.join(dir, "complete")) &&
    await run(path.join(dir, "qemu.sh"), ["--version"])
      .then(() => true, () => false);
  if (!isUsable) {
    await remove(dir);
    await unpackAll(dir, log);
    await run(path.join(dir, "qemu.sh"), ["--version"]);
    await Deno.writeTextFile(path.join(dir, "complete"), "");
  }
  await touch(dir);
  return await describe(dir);
}

async function describe(dir: string): Promise<VmPackages> {
  const version = await Deno.readTextFile(path.join(dir, "kernel-version"));
  const usr = await exists(`${dir}/tools/bin/busybox`) ? "" : "/usr";
  return {
    dir,
    kernelVersion: version,
    kernel: path.join(dir, "vmlinuz"),
    modules: path.join(dir, "modules"),
    busybox: `${dir}/tools${usr}/bin/busybox`,
    modprobe: path.join(dir, "modprobe"),
    depmod: path.join(dir, "depmod"),
    qemu: path.join(dir, "qemu.sh"),
  };
}

async function unpackAll(dir: string, log: Log): Promise<void> {
  await Deno.mkdir(dir, { recursive: true });
  const apt = await PackageFetcher.open(path.join(dir, "apt"), {
    log,
    backports: true,
  });
  const image = await apt.resolve("linux-image-amd64", /^linux-image-\d/);
  const version = image.replace(/^linux-image-/, "").replace(/-unsigned$/, "");
  await Deno.writeTextFile(path.join(dir, "kernel-version"), version);
  const [kernel = "", ...tools] = await apt.download(
    [image, "kmod", "libkmod2", "busybox-static"],
  );
  const qemu = await apt.downloadMissing("qemu-system-x86");
  log("unpacking");
  for (const deb of tools) await run("dpkg", ["-x", deb, `${dir}/tools`]);
  for (const deb of qemu) await run("dpkg", ["-x", deb, `${dir}/qemu`]);
  await run("dpkg", ["-x", kernel, `${dir}/image`]);
  await writeScripts(dir);
  await unpackKernel(await describe(dir), `${dir}/image`);
  await remove(`${dir}/image`);
  await remove(`${dir}/apt`);
}

/** The kernel, and modules without their compression, which is slow in an emulated CPU. */
async function unpackKernel(
  packages: VmPackages,
  image: string,
): Promise<void> {
  const { kernelVersion, modules, busybox } = packages;
  await Deno.copyFile(
    `${image}/boot/vmlinuz-${kernelVersion}`,
    packages.kernel,
  );
  const inLib = `${image}/lib/modules/${kernelVersion}`;
  const from = await exists(inLib)
    ? inLib
    : `${image}/usr/lib/modules/${kernelVersion}`;
  const to = `${modules}/lib/modules/${kernelVersion}`;
  for (const part of MODULE_DIRS) {
    if (!await exists(`${from}/kernel/${part}`)) continue;
    await Deno.mkdir(path.dirname(`${to}/kernel/${part}`), { recursive: true });
    const target = path.dirname(`${to}/kernel/${part}`);
    await run("cp", ["-r", `${from}/kernel/${part}`, `${target}/`]);
  }
  for (const part of UNUSED_DIRS) await remove(`${to}/kernel/${part}`);
  await run("sh", [
    "-ec",
    'find "$1" -name "*.ko.xz" -print0 | xargs -0 -r -n 50 -P "$(nproc)" "$2" unxz',
    ...["sh", to, busybox],
  ]);
  for (const file of ["builtin", "builtin.modinfo", "order"]) {
    await Deno.copyFile(`${from}/modules.${file}`, `${to}/modules.${file}`);
  }
  await run(packages.depmod, ["-b", modules, kernelVersion]);
}

/** modprobe serves the guest as well, where this directory has the same path and the kernel calls without environment. */
async function writeScripts(dir: string): Promise<void> {
  const kmod = await exists(`${dir}/tools/bin/kmod`)
    ? `${dir}/tools/bin/kmod`
    : `${dir}/tools/usr/bin/kmod`;
  await Deno.mkdir(`${dir}/applets`);
  for (const name of ["modprobe", "depmod"]) {
    await Deno.symlink(kmod, `${dir}/applets/${name}`);
    await script(`${dir}/${name}`, {
      libraries: librariesBelow(`${dir}/tools`),
      command: [`${dir}/applets/${name}`],
    });
  }
  const own = `${dir}/qemu/usr/bin/qemu-system-x86_64`;
  const share = `${dir}/qemu/usr/share`;
  await script(
    `${dir}/qemu.sh`,
    await exists(own)
      ? {
        libraries: librariesBelow(`${dir}/qemu`),
        command: [own, "-L", `${share}/qemu`, "-L", `${share}/seabios`],
      }
      : { libraries: "", command: ["qemu-system-x86_64"] },
  );
}

function librariesBelow(dir: string): string {
  return ["usr/lib", "lib"].map((lib) => `${dir}/${lib}/x86_64-linux-gnu`)
    .join(":");
}

async function script(
  file: string,
  what: { readonly libraries: string; readonly command: readonly string[] },
): Promise<void> {
  const { libraries, command } = what;
  const words = command.map((word) => `'${word}'`).join(" ");
  await Deno.writeTextFile(
    file,
    `#!/bin/sh\nLD_LIBRARY_PATH='${libraries}' exec ${words} "$@"\n`,
    { mode: 0o755 },
  );
}
