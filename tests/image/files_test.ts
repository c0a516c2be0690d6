// What is in the image, and whether its documents say so.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { PROGRAM_DIR, ROLE_LINKS } from "../../deploy/image/mod.ts";
import { sizeOf } from "../../lib/tar/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { ROOT, theImage } from "./testing.ts";

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

Deno.test("image: every document and layer has the digest and the size that is said of it", async () => {
  const { image, open } = await theImage();
  assert.equal(open.text("oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  assert.equal(open.descriptor.digest, image.digest);
  const { config, layers } = open.manifest;
  const all = [open.descriptor, config, ...layers];
  for (const descriptor of all) {
    const bytes = open.blob(descriptor);
    assert.equal(digestOf(bytes), descriptor.digest);
    assert.equal(bytes.length, descriptor.size);
  }
  const blobs = [...open.files.keys()].filter((path) => /^blobs/.test(path));
  assert.equal(blobs.length, all.length, "no blob that nobody names");
  const diffIds: string[] = [];
  for (const layer of layers) diffIds.push(digestOf(await open.layer(layer)));
  assert.deepEqual(open.config.rootfs.diff_ids, diffIds);
});

Deno.test("image: containerd and docker find its name", async () => {
  const { image, open } = await theImage();
  assert.equal(image.reference, `docker.io/library/coil:${VERSION}`);
  assert.deepEqual(open.descriptor.annotations, {
    "io.containerd.image.name": image.reference,
    "org.opencontainers.image.ref.name": VERSION,
  });
  const blob = (digest: string) => `blobs/${digest.replace(":", "/")}`;
  assert.deepEqual(open.docker, [{
    Config: blob(open.manifest.config.digest),
    RepoTags: [`coil:${VERSION}`],
    Layers: open.manifest.layers.map(({ digest }) => blob(digest)),
  }]);
});

Deno.test("image: a container that says nothing runs as a user without rights", async () => {
  const { open } = await theImage();
  const { architecture, os, created, config } = open.config;
  assert.equal(os, "linux");
  assert.equal(architecture, Deno.build.arch === "x86_64" ? "amd64" : "arm64");
  assert.equal(created, "1970-01-01T00:00:00Z");
  assert.match(config.User, /^[1-9]\d*:[1-9]\d*$/);
  assert.equal(config.Labels["org.opencontainers.image.version"], VERSION);
  assert.equal(config.Labels["org.opencontainers.image.title"], "Coil");
});

Deno.test("image: it has a link of every name that main.ts knows, and no other", async () => {
  const { open } = await theImage();
  const source = await Deno.readTextFile(`${ROOT}main.ts`);
  const imported = source.matchAll(/^ {2}"(co[a-z-]*)": \(\) =>/gm);
  const announced = /NOT_YET[^=]*= \[([^\]]*)\]/.exec(source)?.[1] ?? "";
  const names = [
    ...[...imported].flatMap(([, name]) => name ?? []),
    ...[...announced.matchAll(/"([a-z-]+)"/g)].flatMap(([, n]) => n ?? []),
  ];
  assert.ok(names.includes("coild") && names.includes("coil-egress"));
  assert.deepEqual([...ROLE_LINKS].sort(), names.sort());
  const links = (await open.entries())
    .filter(({ path }) => path.startsWith(`${PROGRAM_DIR}/`))
    .flatMap((e) => e.kind === "symlink" ? [[e.path, e.target]] : []);
  assert.deepEqual(
    links,
    names.map((name) => [`${PROGRAM_DIR}/${name}`, "coil"]),
  );
});

Deno.test("image: /var/run is /run, as runtimes expect", async () => {
  const { open } = await theImage();
  const run = (await open.entries()).find(({ path }) => path === "var/run");
  assert.ok(run?.kind === "symlink");
  assert.equal(run.target, "/run");
});

Deno.test("image: nothing in it is setuid or writable by others, and there is no shell", async () => {
  const { open } = await theImage();
  for (const { path, mode, kind } of await open.entries()) {
    if (kind === "symlink") continue;
    assert.equal(mode & 0o6000, 0, `${path} is setuid or setgid`);
    if (["tmp", "var/tmp"].includes(path)) assert.equal(mode, 0o1777);
    else assert.equal(mode & 0o022, 0, `${path} is writable by others`);
    assert.doesNotMatch(path, /bin\/(?:ba|da)?sh$/);
  }
});

Deno.test("image: it lists what it is made of", async () => {
  const { open } = await theImage();
  const sbom: { packages: readonly { name: string }[] } = JSON.parse(
    await open.textOf("usr/share/doc/coil/sbom.spdx.json"),
  );
  const names = sbom.packages.map(({ name }) => name);
  for (const name of ["coil", "deno", "kmod", "libc6", "prom-client"]) {
    assert.ok(names.includes(name), name);
  }
  const entries = await open.entries();
  const debian = entries.filter(({ path }) => /status\.d\//.test(path))
    .map(({ path }) => path.split("/").at(-1) ?? "");
  assert.deepEqual(debian.filter((name) => !names.includes(name)), []);
});

Deno.test("image: every program that a role starts is in it", async () => {
  const { open } = await theImage();
  const paths = (await open.entries()).map(({ path }) => path);
  const started = new Set<string>();
  for await (const file of sources(["lib", "roles", "main.ts"])) {
    const text = await Deno.readTextFile(`${ROOT}${file}`);
    assert.doesNotMatch(text, /node:child_process/, file);
    for (const [, name] of text.matchAll(/Deno\.Command\(\s*"([^"]+)"/g)) {
      if (name !== undefined) started.add(name);
    }
  }
  assert.ok(started.has("modprobe"));
  for (const name of started) {
    assert.ok(paths.some((path) => path.endsWith(`bin/${name}`)), name);
  }
});

async function* sources(paths: readonly string[]): AsyncGenerator<string> {
  for (const path of paths) {
    if (path.endsWith(".ts")) {
      if (!/_test\.ts$|testing/.test(path)) yield path;
      continue;
    }
    for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${path}`)) {
      if (isDirectory || name.endsWith(".ts")) {
        yield* sources([`${path}/${name}`]);
      }
    }
  }
}

Deno.test("image: it is small beside its executable", async () => {
  const { image, open } = await theImage();
  let programBytes = 0;
  let otherBytes = 0;
  for (const entry of await open.entries()) {
    if (entry.kind !== "file") continue;
    const size = sizeOf(entry.content);
    if (entry.path === `${PROGRAM_DIR}/coil`) programBytes = size;
    else otherBytes += size;
  }
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  Deno.stdout.writeSync(new TextEncoder().encode(
    `image: ${mb(image.sizeBytes)}; unpacked: executable ${
      mb(programBytes)
    }, all else ${mb(otherBytes)}\n`,
  ));
  assert.ok(programBytes > 10e6);
  assert.ok(otherBytes < 25e6);
});
