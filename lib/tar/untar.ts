import type { TarEntry } from "./tar.ts";

const BLOCK = 512;
const decoder = new TextDecoder();

/** Not an archive, or with something in it that is none of files, directories and links. */
export class TarError extends Error {
  override readonly name = "TarError";
}

/** GNU and pax headers of the next entry. */
interface Extra {
  path?: string;
  linkpath?: string;
}

/**
 * The entries of an uncompressed archive: ustar, pax, or GNU's long names.
 * Files' contents are views on `bytes`; owners and times are dropped.
 *
 * @throws {TarError} when it cannot be read
 */
export function readTar(bytes: Uint8Array<ArrayBuffer>): TarEntry[] {
  const entries: TarEntry[] = [];
  let extra: Extra = {};
  for (let at = 0; at + BLOCK <= bytes.length;) {
    const block = bytes.subarray(at, at + BLOCK);
    if (block.every((byte) => byte === 0)) return entries;
    checkSum(block, at);
    const sizeBytes = octal(block, 124, 12);
    const body = bytes.subarray(at + BLOCK, at + BLOCK + sizeBytes);
    if (body.length < sizeBytes) throw new TarError("the archive is cut off");
    at += BLOCK + Math.ceil(sizeBytes / BLOCK) * BLOCK;
    const type = String.fromCharCode(block[156] ?? 0);
    const said = readExtra(type, body);
    if (said !== undefined) {
      extra = { ...extra, ...said };
      continue;
    }
    const entry = readEntry(block, { type, body, extra });
    if (entry !== undefined) entries.push(entry);
    extra = {};
  }
  throw new TarError("the archive has no end");
}

/** Undefined for a header that is an entry. */
function readExtra(
  type: string,
  body: Uint8Array<ArrayBuffer>,
): Extra | undefined {
  switch (type) {
    case "L":
      return { path: text(body) };
    case "K":
      return { linkpath: text(body) };
    case "x":
      return readPax(decoder.decode(body));
    case "g": // for all that follow: comments, in practice
      return {};
    default:
      return undefined;
  }
}

function readPax(records: string): Extra {
  const extra: Extra = {};
  const bytes = new TextEncoder().encode(records);
  for (let at = 0; at < bytes.length;) {
    const length = parseInt(decoder.decode(bytes.subarray(at, at + 20)), 10);
    if (!(length > 0)) throw new TarError("a pax header has no length");
    const record = decoder.decode(bytes.subarray(at, at + length - 1));
    const [, key, value] = /^\d+ ([^=]+)=([^]*)$/.exec(record) ?? [];
    if (key === "path" && value !== undefined) extra.path = value;
    if (key === "linkpath" && value !== undefined) extra.linkpath = value;
    at += length;
  }
  return extra;
}

function readEntry(
  block: Uint8Array<ArrayBuffer>,
  { type, body, extra }: {
    readonly type: string;
    readonly body: Uint8Array<ArrayBuffer>;
    readonly extra: Extra;
  },
): TarEntry | undefined {
  const prefix = text(block.subarray(257, 262)) === "ustar" &&
      block[262] === 0 // GNU's own format has other things there
    ? text(block.subarray(345, 500))
    : "";
  const short = text(block.subarray(0, 100));
  const path = clean(extra.path ?? (prefix ? `${prefix}/${short}` : short));
  if (path === "") return undefined; // the root itself
  const mode = octal(block, 100, 8) & 0o7777;
  const target = extra.linkpath ?? text(block.subarray(157, 257));
  switch (type) {
    case "0":
    case "\0":
      return { path, mode, kind: "file", content: { bytes: body } };
    case "1":
      return { path, mode, kind: "hardlink", target: clean(target) };
    case "2":
      return { path, mode, kind: "symlink", target };
    case "5":
      return { path, mode, kind: "directory" };
    default:
      throw new TarError(`"${path}" is of type "${type}"`);
  }
}

function clean(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw new TarError(`"${path}" leads outside`);
  return parts.join("/");
}

function checkSum(block: Uint8Array<ArrayBuffer>, at: number): void {
  const sum = block.reduce(
    (total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte),
    0,
  );
  if (sum === octal(block, 148, 8)) return;
  throw new TarError(`no header at byte ${at}: its checksum is wrong`);
}

function octal(
  block: Uint8Array<ArrayBuffer>,
  at: number,
  length: number,
): number {
  const digits = text(block.subarray(at, at + length)).trim();
  if (/^[0-7]*$/.test(digits)) return parseInt(digits || "0", 8);
  throw new TarError(`"${digits}" is not an octal number`);
}

/** Up to the first NUL. */
function text(bytes: Uint8Array<ArrayBuffer>): string {
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}
