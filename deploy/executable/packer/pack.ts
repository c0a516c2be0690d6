// Joins a deno executable, the stub and bundled modules into one ELF file.
import { concatenate } from "../../../lib/bytes/mod.ts";
import { Elf, ElfError, Segment } from "../elf/elf.ts";
import { compileFlat, type FlatImage } from "../elf/flat.ts";
import { addFront } from "../elf/front.ts";
import { DAEMON_V8_FLAGS, READER_V8_FLAGS } from "../modules/v8_flags.ts";

// Without the last, deno reads and analyses, before it starts the entry module,
// every chunk that a literal import() anywhere in the program might want.
const RUN: readonly string[] = [
  "run",
  "-A",
  "--no-config",
  "--no-lock",
  "--no-npm",
  "--no-remote",
  "--cached-only",
  "--unstable-lazy-dynamic-imports",
];

// A process of some milliseconds gains from compiling everything at once, since
// the compiled code is cached, and from not waking threads. A daemon would lose.
const PLUGIN_RUN: readonly string[] = [
  ...RUN,
  "--v8-flags=--no-lazy,--no-sparkplug,--single-threaded",
];
const DAEMON_RUN: readonly string[] = [...RUN, DAEMON_V8_FLAGS];
const READER_RUN: readonly string[] = [...RUN, READER_V8_FLAGS];

// Without the second, deno puts a `node` that is really this program on $PATH.
const ENV: readonly string[] = [
  "DENO_NO_UPDATE_CHECK=1",
  "DENO_DISABLE_NODE_SHIM=1",
];

const STUB = new URL("stub.c", import.meta.url).pathname;
/** Where the hash is in `struct header`. */
const HASH_AT = 112;
/** stub.c keeps paths in buffers of 4096 bytes. */
const MAX_NAME_BYTES = 1024;

const encoder = new TextEncoder();

export interface PackOptions {
  /** A deno executable: dynamic, for x86-64 or aarch64 Linux. */
  readonly deno: string;
  /** Every file below this directory is packed. */
  readonly directory: string;
  /** The main module, relative to the directory. */
  readonly entry: string;
  /** Answers a runtime's calls before the rest starts. */
  readonly front?: FlatImage | undefined;
  /** The file to write. */
  readonly output: string;
}

/** Packs; the same inputs give the same bytes. */
export async function pack(options: PackOptions): Promise<void> {
  const deno = new Elf(await Deno.readFile(options.deno));
  deno.header(Segment.INTERP); // or ld.so would not prepare it for the stub
  const files = await readFiles(options.directory, options.entry);
  const stub = await compileFlat(STUB);
  const { bytes, table } = layOut(stub.bytes, files);
  const place = deno.placeBehind();
  // Deno is part of the hash since its caches, too, live in the directory.
  const hash = await sha256(concatenate([deno.bytes, bytes]));
  const numbers = [place.vaddr, deno.entry, deno.environSlot(), ...table];
  writeHeader(bytes, numbers, hash);
  const notes = deno.headers.findLast(({ type }) => type === Segment.NOTE);
  if (notes === undefined) {
    throw new ElfError("no program header of notes to replace");
  }
  deno.entry = place.vaddr + stub.entry;
  const packed = deno.append(bytes, { ...place, instead: notes });
  const { front } = options;
  await Deno.writeFile(
    options.output,
    front === undefined ? packed : addFront(packed, front),
    { mode: 0o755 },
  );
}

/** All files by name, the entry module first. */
async function readFiles(
  directory: string,
  entry: string,
): Promise<Map<string, Uint8Array>> {
  const names = (await listFiles(directory)).filter((name) => name !== entry);
  const files = new Map<string, Uint8Array>();
  for (const name of [entry, ...names.sort()]) {
    files.set(name, await Deno.readFile(`${directory}/${name}`));
  }
  // Settles the type of the modules, also where a package.json lies further up.
  if (!files.has("package.json")) {
    files.set("package.json", encoder.encode('{"type":"module"}\n'));
  }
  return files;
}

async function listFiles(directory: string, prefix = ""): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(directory)) {
    const name = prefix + entry.name;
    if (entry.isDirectory) {
      names.push(...await listFiles(`${directory}/${entry.name}`, `${name}/`));
      continue;
    }
    const isUsable = entry.isFile && !entry.name.startsWith(".new") &&
      encoder.encode(name).length <= MAX_NAME_BYTES;
    if (!isUsable) throw new ElfError(`Cannot pack file "${name}"`);
    names.push(name);
  }
  return names;
}

/**
 * The stub, all it reads at every start, then the files' contents: pages that
 * are not read cost nothing.
 */
function layOut(
  stub: Uint8Array,
  files: ReadonlyMap<string, Uint8Array>,
): { bytes: Uint8Array<ArrayBuffer>; table: bigint[] } {
  const blob = new Blob();
  blob.add(stub);
  const records = new BigUint64Array(files.size * 3);
  const table = [blob.add(new Uint8Array(records.buffer)), files.size];
  for (const strings of [DAEMON_RUN, PLUGIN_RUN, READER_RUN, ENV]) {
    table.push(blob.addStrings(strings), strings.length);
  }
  const names = [...files.keys()].map((name) => blob.addStrings([name]));
  [...files.values()].forEach((data, i) => {
    const record = [names[i] ?? 0, blob.add(data), data.length];
    records.set(record.map(BigInt), i * 3);
  });
  return { bytes: concatenate(blob.parts), table: table.map(BigInt) };
}

/** Bytes with known offsets. */
class Blob {
  readonly parts: Uint8Array[] = [];
  #size = 0;

  /** Appends bytes, aligned to 16; returns where they are. */
  add(bytes: Uint8Array): number {
    const at = this.#size;
    const padding = (16 - bytes.length % 16) % 16;
    this.parts.push(bytes, new Uint8Array(padding));
    this.#size += bytes.length + padding;
    return at;
  }

  addStrings(strings: readonly string[]): number {
    return this.add(encoder.encode(strings.map((s) => `${s}\0`).join("")));
  }
}

/** Fills `struct header`: after the magic, its numbers in order, the hash. */
function writeHeader(
  image: Uint8Array<ArrayBuffer>,
  numbers: readonly bigint[],
  hash: string,
): void {
  const view = new DataView(image.buffer);
  numbers.forEach((number, i) => view.setBigUint64(8 + 8 * i, number, true));
  image.set(encoder.encode(hash), HASH_AT);
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return new Uint8Array(digest).subarray(0, 16).toHex();
}
