import * as path from "node:path";
import { TextLineStream } from "../../../deploy/host/mod.ts";
import type { Log } from "../build.ts";
import { labDir, lockFile } from "../cache.ts";
import { run } from "../command.ts";
import { exists, readText, remove } from "../files.ts";

const REQUIREMENTS = new URL("requirements.txt", import.meta.url).pathname;

/** The Debian package that installs it. */
export const MOTO_PACKAGES: Readonly<Record<string, string>> = {
  "python3-pip": "pip3",
};

function packagesDir(): string {
  return path.join(labDir(), "moto");
}

/** Installs moto, another program that answers as EC2 does, from PyPI when it is missing. */
export async function ensureMoto(
  { log }: { readonly log: Log },
): Promise<void> {
  const target = packagesDir();
  await Deno.mkdir(labDir(), { recursive: true });
  using _lock = await lockFile(`${target}.lock`);
  const wanted = await Deno.readTextFile(REQUIREMENTS);
  const record = path.join(target, "requirements.txt");
  if (await readText(record) === wanted) return;
  log("installing moto");
  const part = `${target}.part`;
  await remove(part);
  // Into a directory of its own: nothing of the machine's Python changes.
  await run("pip3", [
    ...["install", "--quiet", "--no-deps", "--disable-pip-version-check"],
    ...["--root-user-action=ignore", "--target", part, "-r", REQUIREMENTS],
  ]);
  if (await exists(target)) await remove(target);
  await Deno.rename(part, target);
  await Deno.writeTextFile(record, wanted);
}

/** A server of moto on the loopback device, without anything in it. */
export class Moto implements AsyncDisposable {
  readonly url: string;
  readonly #child: Deno.ChildProcess;
  /** Its log was read to the end. */
  readonly #drained: Promise<void>;

  private constructor(
    url: string,
    parts: {
      readonly child: Deno.ChildProcess;
      readonly drained: Promise<void>;
    },
  ) {
    this.url = url;
    this.#child = parts.child;
    this.#drained = parts.drained;
  }

  /** Starts one, and returns when it listens. {@linkcode ensureMoto} has to come before. */
  static async start(): Promise<Moto> {
    const child = new Deno.Command("python3", {
      args: ["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
      env: { PYTHONPATH: packagesDir(), PYTHONUNBUFFERED: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const lines = child.stderr.pipeThrough(new TextLineStream());
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const read = async () => {
      let last = "";
      for await (last of lines) {
        const [, url] = /Running on (http:\S+)/.exec(last) ?? [];
        if (url !== undefined) resolve(url);
      }
      reject(new Error(`Cannot start moto: ${last}`));
    };
    const drained = read();
    return new Moto(await promise, { child, drained });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#child.status;
    await this.#drained;
  }
}
