// The image's first layer: a Debian of some libraries, modprobe and little else.
import { ImageError } from "../base/errors.ts";
import type { Package } from "./packages.ts";
import { sizeOf, type TarEntry, Tree } from "../../../lib/tar/mod.ts";

/** Directories at the root that are links into usr/ since Debian 12. */
const MERGED = ["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/** What stays of the packages' files. No scripts, since there is no shell. */
const KEPT: readonly RegExp[] = [
  /^usr\/lib\/[a-z0-9_]+-linux-gnu\/(?:lib|ld-)[^/]*\.so[^/]*$/,
  /^usr\/lib(?:64)?\/ld-linux[^/]*\.so[^/]*$/,
  /^usr\/s?bin\/(?:kmod|depmod|insmod|lsmod|modinfo|modprobe|rmmod)$/,
  /^usr\/lib\/modprobe\.d\//,
  /^usr\/lib\/os-release$/,
  /^etc\/(?:debian_version|os-release)$/,
  // Who may copy what.
  /^usr\/share\/doc\/[^/]+(?:\/copyright)?$/,
  /^usr\/share\/common-licenses\//,
];

/** For debuggers of libc, not for us. */
const DROPPED = /\/lib(?:c_malloc_debug|memusage|pcprofile|thread_db)\.so/;

const AUTHORITIES = "usr/share/ca-certificates/";
const BUNDLE = "etc/ssl/certs/ca-certificates.crt";

/** Mount points, and places that programs expect. */
const DIRECTORIES: Readonly<Record<string, number>> = {
  dev: 0o755,
  etc: 0o755,
  "etc/modprobe.d": 0o755,
  proc: 0o755,
  root: 0o700,
  run: 0o755,
  sys: 0o755,
  tmp: 0o1777,
  "usr/lib/modules": 0o755,
  var: 0o755,
  "var/tmp": 0o1777,
};

/** Runs all that needs no privileges; numbers as in other images without a distribution. */
export const USER = 65532;

const FILES: Readonly<Record<string, string>> = {
  "etc/passwd": `root:x:0:0:root:/root:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin
coil:x:${USER}:${USER}:coil:/:/usr/sbin/nologin
`,
  "etc/group": `root:x:0:\nnogroup:x:65534:\ncoil:x:${USER}:\n`,
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
};

/** The layer's files. Pure. */
export function planBaseLayer(packages: readonly Package[]): Tree {
  const tree = new Tree();
  const certificates: string[] = [];
  for (const { name, control, entries } of packages) {
    for (const entry of entries.map(merge)) {
      if (entry.path.startsWith(AUTHORITIES) && entry.kind === "file") {
        certificates.push(textOf(entry));
      }
      if (isKept(entry)) tree.add(withoutSetuid(entry));
    }
    // Where scanners of images without dpkg look.
    tree.addText(`var/lib/dpkg/status.d/${name}`, control);
  }
  if (certificates.length === 0) {
    throw new ImageError("Cannot find a certificate in Debian's packages");
  }
  tree.addText(BUNDLE, certificates.join(""));
  for (const [path, mode] of Object.entries(DIRECTORIES)) {
    tree.addDirectory(path, mode);
  }
  for (const [path, text] of Object.entries(FILES)) tree.addText(path, text);
  // Runtimes name network namespaces by it, and mount service accounts below it.
  tree.addLink("var/run", "/run");
  addMergedLinks(tree);
  return tree;
}

function isKept(entry: TarEntry): boolean {
  return entry.kind !== "directory" && !DROPPED.test(entry.path) &&
    KEPT.some((pattern) => pattern.test(entry.path));
}

/** `lib/x` is `usr/lib/x`: a layer must not have both a link and a directory. */
function merge(entry: TarEntry): TarEntry {
  const [top = ""] = entry.path.split("/");
  if (!MERGED.includes(top)) return entry;
  return { ...entry, path: `usr/${entry.path}` };
}

/** Debian's `libc6` brings its loader under both names; ours do, too. */
function addMergedLinks(tree: Tree): void {
  for (const name of MERGED) {
    const prefix = `usr/${name}/`;
    if (tree.entries().some(({ path }) => path.startsWith(prefix))) {
      tree.addLink(name, `usr/${name}`);
    }
  }
}

function withoutSetuid(entry: TarEntry): TarEntry {
  return { ...entry, mode: entry.mode & 0o777 };
}

function textOf(entry: TarEntry): string {
  if (entry.kind !== "file" || !("bytes" in entry.content)) return "";
  const text = new TextDecoder().decode(entry.content.bytes);
  return sizeOf(entry.content) > 0 && !text.endsWith("\n") ? `${text}\n` : text;
}
