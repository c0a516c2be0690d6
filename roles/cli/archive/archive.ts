import * as path from "node:path";
import { CommandError } from "../../../lib/command/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { type TarEntry, writeTar } from "../../../lib/tar/mod.ts";

export interface ArchiveOptions {
  /** When its files were made. */
  readonly now: Date;
  /** The most that is taken in all, before compression. */
  readonly maxBytes: number;
}

const encoder = new TextEncoder();

/**
 * A tar.gz file that is there when it is whole, and not before. Only its owner
 * may read it. What is not finished is removed by the disposal.
 */
export class Archive implements AsyncDisposable {
  readonly #file: string;
  readonly #part: string;
  readonly #root: string;
  readonly #entries: WritableStreamDefaultWriter<TarEntry>;
  readonly #written: Promise<void>;
  #freeBytes: number;
  #count = 0;
  #isWhole = false;

  private constructor(
    file: string,
    part: string,
    { now, maxBytes }: ArchiveOptions,
  ) {
    this.#file = file;
    this.#part = part;
    this.#root = path.basename(file).replace(/\.tar\.gz$|\.tgz$/, "");
    this.#freeBytes = maxBytes;
    const { readable, writable } = new TransformStream<TarEntry, TarEntry>();
    this.#entries = writable.getWriter();
    const mtime = Math.floor(now.getTime() / 1_000);
    this.#written = write(part, writeTar(readable, { mtime }));
    // add() and finish() say what went wrong.
    this.#written.catch(() => {});
    this.#entries.closed.catch(() => {});
  }

  /** @throws {CommandError} when there is such a file, or there can be none */
  static async create(
    file: string,
    options: ArchiveOptions,
  ): Promise<Archive> {
    if (await exists(file)) {
      throw new CommandError(
        `Cannot write "${file}": it exists; remove it, or choose another file with -o`,
      );
    }
    try {
      // Only the owner may read what this makes.
      const part = await Deno.makeTempFile({
        dir: path.dirname(file),
        prefix: `.${path.basename(file)}.`,
      });
      return new Archive(file, part, options);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotFound)) {
        throw cannotWrite(file, cause);
      }
      throw new CommandError(
        `Cannot write "${file}": its directory does not exist`,
        { cause },
      );
    }
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a file; false when there is no room for it. */
  async add(name: string, text: string): Promise<boolean> {
    const bytes = encoder.encode(text);
    if (bytes.length > this.#freeBytes) return false;
    this.#freeBytes -= bytes.length;
    await this.#put(name, bytes);
    return true;
  }

  /** Adds a last file, for which there is always room, and gives the archive its name. */
  async finish(name: string, text: string): Promise<void> {
    await this.#put(name, encoder.encode(text));
    try {
      await this.#entries.close();
      await this.#written;
      await Deno.rename(this.#part, this.#file);
    } catch (cause) {
      throw cannotWrite(this.#file, cause);
    }
    this.#isWhole = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isWhole) return;
    await this.#entries.abort().catch(() => {});
    await this.#written.catch(() => {});
    await Deno.remove(this.#part);
  }

  async #put(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#count++;
    const entry: TarEntry = {
      path: `${this.#root}/${name}`,
      mode: 0o600,
      kind: "file",
      content: { bytes },
    };
    try {
      await this.#entries.write(entry);
    } catch {
      // Why is known to the other end.
      await this.#written.catch((cause) => {
        throw cannotWrite(this.#file, cause);
      });
    }
  }
}

async function write(
  part: string,
  tar: AsyncIterable<Uint8Array<ArrayBuffer>>,
): Promise<void> {
  const file = await Deno.open(part, { write: true });
  await ReadableStream.from(tar)
    .pipeThrough(new CompressionStream("gzip"))
    .pipeTo(file.writable);
}

async function exists(file: string): Promise<boolean> {
  try {
    await Deno.lstat(file);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw cannotWrite(file, error);
  }
}

function cannotWrite(file: string, cause: unknown): CommandError {
  return new CommandError(`Cannot write "${file}": ${messageOf(cause)}`, {
    cause,
  });
}
