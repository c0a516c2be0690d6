import { homedir } from "node:os";

const DOWNLOADS = "https://dl.deno.land/";
const PROBE_MS = 3000;

/**
 * Where `deno compile` would get its runtime, denort; undefined when it cannot.
 * Asks the network, briefly, unless a copy is at hand.
 */
export async function findRuntime(): Promise<string | undefined> {
  const given = Deno.env.get("DENORT_BIN");
  if (given) return `denort from DENORT_BIN, ${given}`;
  if (await isCached()) return `denort, cached`;
  try {
    await fetch(DOWNLOADS, {
      method: "HEAD",
      signal: AbortSignal.timeout(PROBE_MS),
    });
    return `denort, downloaded from ${DOWNLOADS}`;
  } catch {
    // The reason does not matter: deno would fail for it, too.
    return undefined;
  }
}

/** Whether `deno compile` can go on without the network. */
export async function isCached(): Promise<boolean> {
  return await Deno.stat(cachedRuntime()).catch(() => undefined) !== undefined;
}

/** Where deno keeps what it downloads for `deno compile`. */
function cachedRuntime(): string {
  const denoDir = Deno.env.get("DENO_DIR") ?? `${homedir()}/.cache/deno`;
  const { version: { deno }, build: { target } } = Deno;
  return `${denoDir}/dl/release/v${deno}/denort-${target}.zip`;
}

/** The runtime itself: that of DENORT_BIN, or the one that deno has downloaded. */
export async function readRuntime(): Promise<Uint8Array<ArrayBuffer>> {
  const given = Deno.env.get("DENORT_BIN");
  if (given) return await Deno.readFile(given);
  return await unzip(await Deno.readFile(cachedRuntime()), "denort");
}

const END_OF_DIRECTORY = 0x06054b50;
const STORED = 0;

/**
 * One file of an archive (APPNOTE.TXT of PKWARE, 4.3).
 *
 * @throws {RangeError} when it is not there
 */
export async function unzip(
  archive: Uint8Array<ArrayBuffer>,
  name: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const view = new DataView(archive.buffer, archive.byteOffset);
  let end = archive.length - 22;
  while (end > 0 && view.getUint32(end, true) !== END_OF_DIRECTORY) end--;
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const nameBytes = view.getUint16(at + 28, true);
    const nameAt = at + 46;
    const found = archive.subarray(nameAt, nameAt + nameBytes);
    if (new TextDecoder().decode(found) === name) {
      const local = view.getUint32(at + 42, true);
      const from = local + 30 + view.getUint16(local + 26, true) +
        view.getUint16(local + 28, true);
      const data = archive.slice(from, from + view.getUint32(at + 20, true));
      return view.getUint16(at + 10, true) === STORED
        ? data
        : await inflate(data);
    }
    at = nameAt + nameBytes + view.getUint16(at + 30, true) +
      view.getUint16(at + 32, true);
  }
  throw new RangeError(`Cannot unzip "${name}": the archive does not have it`);
}

async function inflate(
  data: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const inflated = new Blob([data]).stream().pipeThrough(
    new DecompressionStream("deflate-raw"),
  );
  return await new Response(inflated).bytes();
}
