// Official builds of etcd, kube-apiserver and kubectl: the archives that
// controller-runtime's setup-envtest takes, from Kubernetes' own releases.
import { createHash } from "node:crypto";
import * as path from "node:path";
import { run } from "../../deploy/host/mod.ts";
import { type Clock, systemClock } from "../../lib/async/mod.ts";

/** An archive and what is known about it beforehand. */
export interface EnvtestArchive {
  readonly url: string;
  /** Of the archive, in hex; undefined when this repository has none for this machine. */
  readonly sha512: string | undefined;
}

/** How long {@link fetchEnvtest} waits. */
export interface EnvtestTimeouts {
  /** For the answer, and then for each piece of it. */
  readonly silenceMs: number;
  /** For all of it. */
  readonly totalMs: number;
}

/** The programs of an archive. */
export const ENVTEST_PROGRAMS: readonly string[] = [
  "etcd",
  "kube-apiserver",
  "kubectl",
];

/** Kubernetes of the archive. A minor release has one archive, mostly of its first patch. */
export const ENVTEST_VERSION = "v1.35.0";

/**
 * What is trusted: hashes in this repository, not those of an index from where the archives come from. They are those
 * of https://github.com/kubernetes-sigs/controller-tools/blob/main/envtest-releases.yaml.
 */
const SHA512: Readonly<Record<typeof Deno.build.arch, string>> = {
  x86_64:
    "130369c16f076e724d089189afaede960316f5f5dea6cf57be7a4fc6f09c77342893192509790e4056e116e232dff832ed863f5bd55dcb55d38f3ab834828a11",
  aarch64:
    "e53e2b88398f5b9503e3f074d82a2dcb090c708b34940848607ce658138a5d4a25962e042ab683ccc026a8a6c90c0be7f658e42dde0887369d73c3b68e2fc86c",
};
const RELEASES =
  "https://github.com/kubernetes-sigs/controller-tools/releases/download";

/** Two and a half minutes for 52 MB: what is slower than that is hardly quicker than a build. */
const TIMEOUTS: EnvtestTimeouts = { silenceMs: 5_000, totalMs: 150_000 };
/** Far more than any archive has. */
const MAX_BYTES = 512 * 2 ** 20;

/** The archive cannot be had, or is not what it should be. Its message says why. */
export class EnvtestError extends Error {
  override readonly name = "EnvtestError";
}

/** The archive for this machine. */
export function envtestArchive(): EnvtestArchive {
  const { arch } = Deno.build;
  const machine = arch === "x86_64" ? "amd64" : "arm64";
  const file = `envtest-${ENVTEST_VERSION}-linux-${machine}.tar.gz`;
  return {
    url: `${RELEASES}/envtest-${ENVTEST_VERSION}/${file}`,
    sha512: SHA512[arch],
  };
}

/**
 * Directory of the archive's programs, below the one that is given; downloads them when they are missing. Undefined
 * when they cannot be had; the notice has the reason.
 */
export async function officialPrograms(
  bin: string,
  { archive, log, notice, timeouts = TIMEOUTS }: {
    readonly archive: EnvtestArchive;
    readonly log: (line: string) => void;
    readonly notice: (line: string) => void;
    readonly timeouts?: EnvtestTimeouts;
  },
): Promise<string | undefined> {
  const id = (archive.sha512 ?? "").slice(0, 12);
  const directory = path.join(bin, `envtest-${ENVTEST_VERSION}-${id}`);
  if (await Deno.stat(directory).catch(() => undefined)) return directory;
  try {
    log(`downloading official binaries of Kubernetes ${ENVTEST_VERSION}`);
    await fetchEnvtest(directory, { archive, timeouts });
    log(`downloaded ${archive.url}: its hash is right`);
    return directory;
  } catch (error) {
    if (!(error instanceof EnvtestError)) throw error;
    notice(`Cannot use official binaries: ${error.message}`);
    return undefined;
  }
}

/**
 * Downloads the archive, compares its hash, and makes the directory with its programs; a failure leaves nothing.
 * @throws {EnvtestError} when it cannot be had within the time, or is another one than expected.
 */
export async function fetchEnvtest(
  directory: string,
  options: {
    readonly archive: EnvtestArchive;
    readonly timeouts?: EnvtestTimeouts;
    /** Another clock than the machine's. */
    readonly clock?: Clock;
  },
): Promise<void> {
  const { archive, timeouts = TIMEOUTS, clock = systemClock } = options;
  const { url, sha512 } = archive;
  if (sha512 === undefined) {
    throw new EnvtestError(`no hash is known for "${url}"`);
  }
  const part = `${directory}.part`;
  await remove(part);
  await Deno.mkdir(part, { recursive: true });
  try {
    const file = path.join(part, "archive.tar.gz");
    const found = await download(url, { file, timeouts, clock });
    if (found !== sha512) {
      throw new EnvtestError(
        `"${url}" has SHA-512 ${found}, not ${sha512}: it is damaged or another file`,
      );
    }
    await unpack(file, part);
    await Deno.remove(file);
    await Deno.rename(part, directory);
  } finally {
    await remove(part);
  }
}

/** Writes the file, and returns its hash. */
async function download(
  url: string,
  to: {
    readonly file: string;
    readonly timeouts: EnvtestTimeouts;
    readonly clock: Clock;
  },
): Promise<string> {
  using limit = new Limit(to.timeouts, to.clock);
  try {
    const response = await fetch(url, { signal: limit.signal });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      throw new EnvtestError(`"${url}" answered status ${response.status}`);
    }
    const hash = createHash("sha512");
    let size = 0;
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        limit.heard();
        size += bytes.length;
        if (size > MAX_BYTES) {
          throw new EnvtestError(`"${url}" has more than ${MAX_BYTES} bytes`);
        }
        hash.update(bytes);
        controller.enqueue(bytes);
      },
    });
    const out = await Deno.create(to.file);
    await response.body.pipeThrough(counted).pipeTo(out.writable);
    return hash.digest("hex");
  } catch (error) {
    if (error instanceof EnvtestError) throw error;
    const reason = limit.signal.aborted ? limit.signal.reason : error;
    const text = textOf(reason).replace(` for url (${url})`, "");
    throw new EnvtestError(`"${url}" cannot be read: ${text}`, {
      cause: error,
    });
  }
}

/** Ends what is silent, or takes too long. */
class Limit implements Disposable {
  readonly #controller = new AbortController();
  readonly #timeouts: EnvtestTimeouts;
  readonly #clock: Clock;
  readonly #total: Disposable;
  #silence: Disposable;

  constructor(timeouts: EnvtestTimeouts, clock: Clock) {
    this.#timeouts = timeouts;
    this.#clock = clock;
    const { totalMs } = timeouts;
    this.#total = this.#end(totalMs, `not complete after ${totalMs} ms`);
    this.#silence = this.#waitForMore();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** More has come. */
  heard(): void {
    this.#silence[Symbol.dispose]();
    this.#silence = this.#waitForMore();
  }

  [Symbol.dispose](): void {
    this.#silence[Symbol.dispose]();
    this.#total[Symbol.dispose]();
  }

  #waitForMore(): Disposable {
    const { silenceMs } = this.#timeouts;
    return this.#end(silenceMs, `no data for ${silenceMs} ms`);
  }

  #end(afterMs: number, why: string): Disposable {
    const end = () => this.#controller.abort(new Error(why));
    return this.#clock.after(afterMs, end);
  }
}

/** The programs alone, from any directory of the archive. */
async function unpack(file: string, directory: string): Promise<void> {
  try {
    await run("tar", [
      ...["-xzf", file, "-C", directory, "--no-same-owner"],
      ...["--transform=s,.*/,,", "--wildcards", "--no-anchored"],
      ...ENVTEST_PROGRAMS.map((name) => `*/${name}`),
    ]);
  } catch (error) {
    throw new EnvtestError(`it cannot be unpacked: ${textOf(error)}`, {
      cause: error,
    });
  }
}

async function remove(directory: string): Promise<void> {
  await Deno.remove(directory, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** With its causes: fetch() says why it failed in the cause of its error. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, cause } = error;
  return cause instanceof Error ? `${message}: ${textOf(cause)}` : message;
}
