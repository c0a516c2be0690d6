import assert from "node:assert/strict";
import { planBaseLayer } from "./base_layer.ts";
import { ImageError } from "../base/errors.ts";
import type { Package } from "./packages.ts";
import type { TarEntry } from "../../../lib/tar/mod.ts";

const file = (path: string, text = "x", mode = 0o644): TarEntry => ({
  path,
  mode,
  kind: "file",
  content: { bytes: new TextEncoder().encode(text) },
});
const directory = (path: string): TarEntry => ({
  path,
  mode: 0o755,
  kind: "directory",
});
const link = (path: string, target: string): TarEntry => ({
  path,
  mode: 0o777,
  kind: "symlink",
  target,
});

/** Two authorities, the first without an end of line. */
const AUTHORITIES: Package = {
  name: "ca-certificates",
  control: "Package: ca-certificates\n",
  entries: [
    file("usr/sbin/update-ca-certificates", "#!/bin/sh\n", 0o755),
    file("usr/share/ca-certificates/mozilla/A.crt", "A"),
    file("usr/share/ca-certificates/mozilla/B.crt", "B\n"),
  ],
};

function plan(...entries: TarEntry[]): ReadonlyMap<string, TarEntry> {
  const tree = planBaseLayer([
    { name: "some", control: "Package: some\n", entries },
    AUTHORITIES,
  ]);
  return new Map(tree.entries().map((entry) => [entry.path, entry]));
}

function textAt(files: ReadonlyMap<string, TarEntry>, path: string): string {
  const entry = files.get(path);
  assert.ok(entry?.kind === "file" && "bytes" in entry.content, path);
  return new TextDecoder().decode(entry.content.bytes);
}

Deno.test("planBaseLayer() puts what Debian has at the root into usr, behind links", () => {
  const files = plan(
    directory("lib"),
    directory("lib64"),
    file("lib/x86_64-linux-gnu/libc.so.6"),
    link("lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/ld.so"),
    link("sbin/modprobe", "/bin/kmod"),
    file("usr/bin/kmod", "k", 0o755),
  );
  assert.equal(files.get("usr/lib/x86_64-linux-gnu/libc.so.6")?.kind, "file");
  assert.equal(files.get("usr/sbin/modprobe")?.kind, "symlink");
  for (const name of ["bin", "lib", "lib64", "sbin"]) {
    assert.deepEqual(files.get(name), link(name, `usr/${name}`));
  }
  assert.equal(files.get("lib32"), undefined);
});

Deno.test("planBaseLayer() takes the links of newer releases for what they are", () => {
  const files = plan(link("lib", "usr/lib"), directory("usr/lib"));
  assert.deepEqual(files.get("lib"), link("lib", "usr/lib"));
  assert.equal(files.get("usr/lib")?.kind, "directory");
});

Deno.test("planBaseLayer() keeps libraries and modprobe, no scripts, no manuals", () => {
  const files = plan(
    file("usr/bin/ldd", "#!/bin/bash\n", 0o755),
    file("usr/lib/x86_64-linux-gnu/gconv/BIG5.so"),
    file("usr/lib/aarch64-linux-gnu/libm.so.6"),
    file("usr/lib/x86_64-linux-gnu/libmemusage.so"),
    file("usr/share/man/man8/modprobe.8.gz"),
    file("usr/share/doc/kmod/copyright", "who"),
    file("usr/share/doc/kmod/changelog.gz"),
  );
  for (
    const gone of [
      "usr/bin/ldd",
      "usr/lib/x86_64-linux-gnu/gconv/BIG5.so",
      "usr/lib/x86_64-linux-gnu/libmemusage.so",
      "usr/sbin/update-ca-certificates",
      "usr/share/man/man8/modprobe.8.gz",
      "usr/share/doc/kmod/changelog.gz",
    ]
  ) assert.equal(files.get(gone), undefined, gone);
  assert.ok(files.has("usr/lib/aarch64-linux-gnu/libm.so.6"));
  assert.equal(textAt(files, "usr/share/doc/kmod/copyright"), "who");
});

Deno.test("planBaseLayer() makes one file of the authorities", () => {
  const files = plan();
  assert.equal(textAt(files, "etc/ssl/certs/ca-certificates.crt"), "A\nB\n");
  assert.throws(() => planBaseLayer([]), ImageError);
});

Deno.test("planBaseLayer() has /var/run, where runtimes name network namespaces", () => {
  assert.deepEqual(plan().get("var/run"), link("var/run", "/run"));
});

Deno.test("planBaseLayer() keeps what scanners ask for", () => {
  const files = plan();
  assert.equal(
    textAt(files, "var/lib/dpkg/status.d/some"),
    "Package: some\n",
  );
});

Deno.test("planBaseLayer() drops setuid bits, and parents come before what is in them", () => {
  const files = plan(file("usr/bin/kmod", "k", 0o6755));
  assert.equal(files.get("usr/bin/kmod")?.mode, 0o755);
  const seen = new Set<string>();
  for (const path of files.keys()) {
    const parent = path.split("/").slice(0, -1).join("/");
    assert.ok(parent === "" || seen.has(parent), path);
    seen.add(path);
  }
});
