// POSIX tar archives: ustar headers, and pax headers for what does not fit
// (pax(1), "ustar Interchange Format" and "pax Extended Header").

/** Where a file's contents are. */
export type Content =
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly file: string; readonly sizeBytes: number };

/** One file, directory or link of an archive. Paths are relative, without `.` and `..`. */
export type TarEntry =
  & { readonly path: string; readonly mode: number }
  & (
    | { readonly kind: "file"; readonly content: Content }
    | { readonly kind: "directory" }
    | { readonly kind: "symlink"; readonly target: string }
    | { readonly kind: "hardlink"; readonly target: string }
  );

const BLOCK = 512;
const MAX_NAME = 100;
const MAX_PREFIX = 155;
/** Eleven octal digits. */
const MAX_SIZE = 0o77777777777;
const TYPES = { file: "0", hardlink: "1", symlink: "2", directory: "5" };

const encoder = new TextEncoder();

/**
 * The bytes of an archive of these entries, in their order. Every one belongs
 * to user and group 0 and was changed at `mtime`, seconds since 1970.
 */
export async function* writeTar(
  entries: Iterable<TarEntry> | AsyncIterable<TarEntry>,
  options: { readonly mtime: number },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for await (const entry of entries) {
    const sizeBytes = entry.kind === "file" ? sizeOf(entry.content) : 0;
    yield* headers(entry, { ...options, sizeBytes });
    if (entry.kind !== "file") continue;
    yield* contentOf(entry.content);
    yield new Uint8Array(padding(sizeBytes));
  }
  yield new Uint8Array(2 * BLOCK);
}

/** How many bytes a file has. */
export function sizeOf(content: Content): number {
  return "bytes" in content ? content.bytes.length : content.sizeBytes;
}

async function* contentOf(
  content: Content,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  if ("bytes" in content) {
    yield content.bytes;
    return;
  }
  let seen = 0;
  using file = await Deno.open(content.file);
  for (;;) {
    const chunk = new Uint8Array(1 << 20);
    const read = await file.read(chunk);
    if (read === null) break;
    seen += read;
    yield chunk.subarray(0, read);
  }
  if (seen === content.sizeBytes) return;
  throw new Error(
    `Cannot archive "${content.file}": it had ${content.sizeBytes} bytes and now has ${seen}`,
  );
}

interface HeaderOptions {
  readonly mtime: number;
  readonly sizeBytes: number;
}

function* headers(
  entry: TarEntry,
  options: HeaderOptions,
): Generator<Uint8Array<ArrayBuffer>> {
  const path = entry.kind === "directory" ? `${entry.path}/` : entry.path;
  const target = "target" in entry ? entry.target : "";
  const name = split(path);
  const records: Record<string, string> = {};
  if (name === undefined) records["path"] = path;
  if (!fits(target, MAX_NAME)) records["linkpath"] = target;
  if (options.sizeBytes > MAX_SIZE) records["size"] = `${options.sizeBytes}`;
  if (Object.keys(records).length > 0) yield* paxHeader(records, options);
  yield header({
    ...options,
    name: name ?? { prefix: "", name: "pax" },
    target: "linkpath" in records ? "" : target,
    type: TYPES[entry.kind],
    mode: entry.mode,
    sizeBytes: Math.min(options.sizeBytes, MAX_SIZE),
  });
}

/** Values that a plain header has no room for, each as "length key=value\n". */
function* paxHeader(
  records: Readonly<Record<string, string>>,
  options: { readonly mtime: number },
): Generator<Uint8Array<ArrayBuffer>> {
  const body = encoder.encode(
    Object.entries(records).map(([key, value]) => paxRecord(key, value))
      .join(""),
  );
  yield header({
    ...options,
    name: { prefix: "", name: "PaxHeaders/entry" },
    target: "",
    type: "x",
    mode: 0o644,
    sizeBytes: body.length,
  });
  yield body;
  yield new Uint8Array(padding(body.length));
}

/** The length counts its own digits. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const size = encoder.encode(rest).length;
  let length = size + 1;
  while (`${length}`.length + size !== length) length++;
  return `${length}${rest}`;
}

interface Header {
  readonly name: Name;
  readonly target: string;
  readonly type: string;
  readonly mode: number;
  readonly mtime: number;
  readonly sizeBytes: number;
}

interface Name {
  readonly prefix: string;
  readonly name: string;
}

function header(fields: Header): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(encoder.encode(text), at);
  const octal = (at: number, value: number, digits: number) =>
    put(at, value.toString(8).padStart(digits, "0"));
  put(0, fields.name.name);
  octal(100, fields.mode, 7);
  octal(108, 0, 7); // user
  octal(116, 0, 7); // group
  octal(124, fields.sizeBytes, 11);
  octal(136, fields.mtime, 11);
  put(148, " ".repeat(8)); // the checksum counts as blanks
  put(156, fields.type);
  put(157, fields.target);
  put(257, "ustar\0" + "00");
  octal(329, 0, 7); // device numbers
  octal(337, 0, 7);
  put(345, fields.name.prefix);
  const sum = block.reduce((a, b) => a + b, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}

/** A path as a header holds it, cut at a slash when it is long; undefined when it cannot. */
function split(path: string): Name | undefined {
  if (!isAscii(path)) return undefined;
  if (path.length <= MAX_NAME) return { prefix: "", name: path };
  const cut = path.indexOf("/", path.length - MAX_NAME - 1);
  if (cut <= 0 || cut > MAX_PREFIX || cut === path.length - 1) return undefined;
  return { prefix: path.slice(0, cut), name: path.slice(cut + 1) };
}

function fits(text: string, max: number): boolean {
  return isAscii(text) && text.length <= max;
}

function isAscii(text: string): boolean {
  return !/[^ -~]/.test(text);
}

function padding(sizeBytes: number): number {
  return (BLOCK - sizeBytes % BLOCK) % BLOCK;
}
