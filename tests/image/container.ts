// Runs programs of the unpacked image as a container runtime does, as far as
// the image's files go: they are the root, read-only if wanted, with a /proc,
// some devices and nothing else of this machine. Needs root.
import { writeRootfs } from "../../deploy/image/rootfs.ts";
import type { OpenImage } from "./open_image.ts";

/** How {@linkcode Container.run} runs a program. */
export interface RunOptions {
  /** `UID:GID`; the image's own without it. */
  readonly user?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Nobody may write to the image's files. */
  readonly readOnly?: boolean;
  /** Directories that are empty and writable by all, as an `emptyDir` is. */
  readonly emptyDirs?: readonly string[];
  /** Shell lines, as root and before the program, with the image's files in $ROOT. */
  readonly prepare?: string;
  /** A network of its own. */
  readonly ownNetwork?: boolean;
}

/** What a program left behind. */
export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The image's files in a directory, gone when disposed. */
export class Container implements AsyncDisposable {
  readonly root: string;
  readonly #image: OpenImage;

  private constructor(root: string, image: OpenImage) {
    this.root = root;
    this.#image = image;
  }

  static async unpack(image: OpenImage): Promise<Container> {
    const root = await Deno.makeTempDir({ prefix: "coil-image-" });
    await Deno.chmod(root, 0o755);
    await writeRootfs(root, { entries: await image.entries(), mtime: 0 });
    return new Container(root, image);
  }

  /** Runs a program of the image, found as the image's PATH says. */
  async run(
    command: readonly string[],
    options: RunOptions = {},
  ): Promise<Output> {
    const { config: { User, Env } } = this.#image.config;
    const env = Object.fromEntries(Env.map((text) => text.split(/=(.*)/s, 2)));
    const { code, stdout, stderr } = await new Deno.Command(
      "/usr/bin/unshare",
      {
        args: [
          ...["--mount", "--propagation=private", "--pid", "--fork"],
          ...[
            "--kill-child",
            ...(options.ownNetwork === true ? ["--net"] : []),
          ],
          ...["/bin/sh", "-euc", script(options), "sh", ...command],
        ],
        clearEnv: true,
        env: {
          ...env,
          ...options.env,
          ROOT: this.root,
          WHO: options.user ?? User,
        },
        stdin: "null",
      },
    ).output();
    const decoder = new TextDecoder();
    return {
      code,
      stdout: decoder.decode(stdout),
      stderr: decoder.decode(stderr),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

/** This machine's tools have full paths here, since PATH is the image's. */
function script(options: RunOptions): string {
  const { readOnly = false, emptyDirs = [], prepare = "" } = options;
  const mount = "/usr/bin/mount";
  const tmpfs = `${mount} -t tmpfs -o mode=1777,size=64m tmpfs`;
  return [
    `${mount} --bind "$ROOT" "$ROOT"`,
    `${mount} -t proc proc "$ROOT/proc"`,
    `${tmpfs} "$ROOT/dev"`,
    "for device in null zero full random urandom; do",
    '  : > "$ROOT/dev/$device"',
    `  ${mount} --bind /dev/$device "$ROOT/dev/$device"`,
    "done",
    ...emptyDirs.map((path) =>
      `/usr/bin/mkdir -p "$ROOT${path}"; ${tmpfs} "$ROOT${path}"`
    ),
    prepare,
    // Or it would serve in place of those that are asked for.
    `${mount} -o remount,ro "$ROOT/dev"`,
    readOnly ? `${mount} -o remount,bind,ro "$ROOT"` : "",
    'who="$WHO"; root="$ROOT"; unset WHO ROOT',
    'exec /usr/sbin/chroot --userspec="$who" "$root" "$@"',
  ].join("\n");
}
