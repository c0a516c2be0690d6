// One image for all tests of a file, since sources may change in the meantime; and
// `task image` as a person runs it.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { cacheDir } from "../../deploy/host/mod.ts";
import { buildImage, type Image } from "../../deploy/image/mod.ts";
import { readTar } from "../../lib/tar/mod.ts";
import { OpenImage } from "./open_image.ts";

export const ROOT: string = new URL("../../", import.meta.url).pathname;

interface Built {
  readonly executable: string;
  readonly image: Image;
  readonly open: OpenImage;
}

let built: Promise<Built> | undefined;

/** The image, as `task image` makes it, and what is in it. */
export function theImage(): Promise<Built> {
  return built ??= build();
}

async function build(): Promise<Built> {
  const executable = await buildExecutable();
  const image = await buildImage({ executable });
  return { executable, image, open: await OpenImage.read(image.path) };
}

/** A directory, gone when disposed. */
export async function temporaryDirectory(): Promise<
  { readonly path: string } & AsyncDisposable
> {
  const path = await Deno.makeTempDir({ prefix: "coil-image-" });
  return {
    path,
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

/** How {@linkcode imageTask} runs. */
export interface TaskOptions {
  /** The clone to run (default: this one). */
  readonly root?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** A cache of its own, with the packages of the usual one. */
  readonly cache?: string;
  /** An empty cache. */
  readonly withoutPackages?: boolean;
  /** Shell lines: before the cache is filled, before and after the program. */
  readonly mount?: string;
  readonly before?: string;
  readonly after?: string;
  /** In namespaces of its own: mounts that nobody else sees, or no network. */
  readonly own?: "mounts" | "network";
}

const UNSHARE = {
  mounts: ["unshare", "--mount", "--propagation=private"],
  network: ["unshare", "--net"],
};

/** Runs `task image` to its end. */
export async function imageTask(
  args: readonly string[],
  options: TaskOptions = {},
): Promise<{ readonly code: number; stdout: string; stderr: string }> {
  const { root = ROOT, cache, env = {}, own } = options;
  const { PATH, ...rest } = env;
  const [program = "", ...others] = [
    ...(own === undefined ? [] : UNSHARE[own]),
    ...["/bin/sh", "-euc", script(options), "sh"],
    ...(PATH === undefined ? [] : [`PATH=${PATH}`]),
    ...[Deno.execPath(), "run", "-A", `${root}/deploy/image/image.ts`, ...args],
  ];
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: others,
    env: {
      ...rest,
      NO_COLOR: "1",
      FROM: cacheDir(),
      COIL_CACHE: cache ?? cacheDir(),
    },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

function script(options: TaskOptions): string {
  const { cache, before = "", after = "", mount = "" } = options;
  const fill = cache === undefined || options.withoutPackages === true
    ? ""
    : `mkdir -p "$COIL_CACHE/image"
ln -s "$FROM"/image/packages-*[0-9a-f] "$COIL_CACHE/image/"`;
  return `${mount}
${fill}
${before}
status=0
env "$@" || status=$?
${after}
exit $status`;
}

/** Compares a directory with the image's files: their names, kinds, modes, contents and times. */
export async function assertFilesOf(
  open: OpenImage,
  rootfs: string,
): Promise<void> {
  const { stdout } = await new Deno.Command("tar", {
    args: ["-C", rootfs, "--sort=name", "-cf", "-", "."],
  }).output();
  const found = readTar(stdout).sort((a, b) => a.path < b.path ? -1 : 1);
  const wanted = await open.entries();
  assert.deepEqual(
    found.map(({ path, mode, kind }) => [path, mode, kind]),
    wanted.map(({ path, mode, kind }) => [path, mode, kind]),
  );
  wanted.forEach((entry, i) => {
    const other = found[i];
    if (entry.kind === "symlink" || other?.kind === "symlink") {
      assert.deepEqual(other, entry);
    }
    if (entry.kind !== "file" || other?.kind !== "file") return;
    assert.ok("bytes" in entry.content && "bytes" in other.content);
    const { bytes } = other.content;
    assert.ok(entry.content.bytes.every((b, k) => b === bytes[k]), entry.path);
  });
  for (const { path } of wanted) {
    const { mtime } = await Deno.lstat(`${rootfs}/${path}`);
    assert.equal(mtime?.getTime(), 0, path);
  }
}
