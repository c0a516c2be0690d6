import * as path from "node:path";
import { run } from "../command.ts";
import { digest, exists, GUEST_DIR, remove, touch, vmDir } from "./files.ts";
import type { VmPackages } from "./packages.ts";

/** Modules loaded before the command runs, and so in every snapshot; others load on demand. */
const PRELOADED = [
  ...["crc32c_generic", "virtio_pci", "virtio_console", "virtio_net"],
  ...["9pnet_virtio", "9p", "overlay"],
  ...["fou", "fou6", "ipip", "ip6_tunnel", "sit", "veth", "dummy", "bridge"],
  ...["nf_tables", "nft_masq", "nft_nat", "nft_ct", "nft_chain_nat"],
  ...["nf_conntrack", "nf_conntrack_netlink", "nft_compat", "nft_reject"],
  ...["nft_reject_inet", "nft_redir", "nft_fib_inet", "nft_limit"],
  ...["nft_objref", "nft_exthdr", "nft_numgen", "nft_hash", "inet_diag"],
  ...["tcp_diag", "udp_diag", "unix_diag", "netlink_diag"],
];

const APPLETS = [
  ...["sh", "mount", "umount", "insmod", "mkdir", "sleep", "sync", "cat", "cp"],
  ...["rm", "ln", "date", "hostname", "ip", "uname", "taskset", "printf", "ls"],
  ...["chmod", "chroot", "poweroff", "echo"],
];

/** The initramfs: busybox, the modules that are loaded first, and the guest's scripts. The caller holds the lock. */
export async function buildInitramfs(packages: VmPackages): Promise<string> {
  const scripts = await guestScripts();
  const name = digest(
    // Packages that were fetched again may have another kernel.
    await Deno.readFile(packages.kernel),
    packages.dir,
    PRELOADED.join(),
    APPLETS.join(),
    ...scripts.map((script) => script.text),
  );
  const file = path.join(vmDir(), `initramfs-${name}`);
  if (await exists(file)) {
    await touch(file);
    return file;
  }
  const root = `${file}.root`;
  await remove(root);
  for (const dir of ["bin", "m", "proc", "sys", "dev"]) {
    await Deno.mkdir(`${root}/${dir}`, { recursive: true });
  }
  await Deno.copyFile(packages.busybox, `${root}/bin/busybox`);
  for (const applet of APPLETS) {
    await Deno.symlink("busybox", `${root}/bin/${applet}`);
  }
  for (const { name, text } of scripts) {
    await Deno.writeTextFile(`${root}/${name}`, text, { mode: 0o755 });
  }
  await copyModules(packages, `${root}/m`);
  const cpio = 'cd "$1"; find . | "$2" cpio -o -H newc 2>/dev/null >"$3"';
  await run("sh", ["-ec", cpio, "sh", root, packages.busybox, `${file}.part`]);
  await Deno.rename(`${file}.part`, file);
  await remove(root);
  return file;
}

async function guestScripts(): Promise<{ name: string; text: string }[]> {
  return await Promise.all(
    ["init", "stage2"].map(async (name) => ({
      name,
      text: await Deno.readTextFile(path.join(GUEST_DIR, name)),
    })),
  );
}

/** Each once, after those that it needs; a name unknown to this kernel is built in or gone. */
async function copyModules(packages: VmPackages, to: string): Promise<void> {
  const wanted = new Set<string>();
  for (const name of PRELOADED) {
    const { stdout } = await new Deno.Command(packages.modprobe, {
      args: [
        ...["-d", packages.modules, "-S", packages.kernelVersion],
        ...["--show-depends", name],
      ],
      stderr: "null",
    }).output();
    const lines = new TextDecoder().decode(stdout).matchAll(/^insmod (\S+)/gm);
    for (const [, file = ""] of lines) wanted.add(file);
  }
  let number = 0;
  for (const file of wanted) {
    const order = String(++number).padStart(3, "0");
    await Deno.copyFile(file, `${to}/${order}-${path.basename(file)}`);
  }
}
