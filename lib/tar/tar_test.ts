import assert from "node:assert/strict";
import fc from "fast-check";
import { type TarEntry, writeTar } from "./tar.ts";
import { readTar, TarError } from "./untar.ts";

const encoder = new TextEncoder();

/** GNU tar, which reads and writes all that others do. */
async function tar(
  args: readonly string[],
  options: { readonly stdin?: Uint8Array<ArrayBuffer>; readonly cwd?: string },
): Promise<Uint8Array<ArrayBuffer>> {
  const { stdin = new Uint8Array(), cwd } = options;
  const child = new Deno.Command("tar", {
    args: [...args],
    env: { TZ: "UTC", LC_ALL: "C" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    ...(cwd === undefined ? {} : { cwd }),
  }).spawn();
  const output = child.output();
  await new Blob([stdin]).stream().pipeTo(child.stdin);
  const { success, stdout, stderr } = await output;
  assert.ok(success, new TextDecoder().decode(stderr));
  return stdout;
}

async function bytesOf(
  entries: readonly TarEntry[],
  mtime: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const stream = ReadableStream.from(writeTar(entries, { mtime }));
  return await new Response(stream).bytes();
}

const LETTERS = [..."abcdefghijXYZ0189 _-+=~@#é水🐙"];

/** Also longer than what a header has room for. */
const component = fc.oneof(
  fc.string({ unit: fc.constantFrom(...LETTERS), minLength: 1, maxLength: 12 }),
  fc.string({
    unit: fc.constantFrom(...LETTERS),
    minLength: 90,
    maxLength: 160,
  }),
).map((text) => text.trim() || "x");
const path = fc.array(component, { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join("/"));
/** Objects as literals make them. */
const PLAIN = { noNullPrototype: true };
const mode = fc.integer({ min: 0, max: 0o7777 });
const entry: fc.Arbitrary<TarEntry> = fc.oneof(
  fc.record({ path, mode, kind: fc.constant("directory" as const) }, PLAIN),
  fc.record({
    path,
    mode,
    kind: fc.constant("file" as const),
    content: fc.uint8Array({ maxLength: 1100 }).map((bytes) => ({
      bytes: new Uint8Array(bytes),
    })),
  }, PLAIN),
  fc.record({
    path,
    mode,
    kind: fc.constantFrom("symlink" as const, "hardlink" as const),
    target: path,
  }, PLAIN),
);
const archive = fc.record({
  entries: fc.uniqueArray(entry, {
    selector: (each) => each.path,
    maxLength: 12,
  }),
  mtime: fc.integer({ min: 0, max: 0o77777777777 }),
});

const KIND = { file: "-", directory: "d", symlink: "l", hardlink: "h" };

/** As `ls -l` has it. */
function modeText(bits: number): string {
  const three = (shift: number, special: string) => {
    const isSpecial = (bits & (0o1000 << (shift / 3))) !== 0;
    const x = (bits >> shift & 1) === 1;
    return (bits >> shift & 4 ? "r" : "-") + (bits >> shift & 2 ? "w" : "-") +
      (isSpecial ? (x ? special : special.toUpperCase()) : x ? "x" : "-");
  };
  return three(6, "s") + three(3, "s") + three(0, "t");
}

function listing(each: TarEntry, mtime: number): string {
  const size = each.kind === "file" && "bytes" in each.content
    ? each.content.bytes.length
    : 0;
  const time = new Date(mtime * 1000).toISOString().slice(0, 19)
    .replace("T", " ");
  const name = each.kind === "directory" ? `${each.path}/` : each.path;
  const target = each.kind === "symlink"
    ? ` -> ${each.target}`
    : each.kind === "hardlink"
    ? ` link to ${each.target}`
    : "";
  return `${KIND[each.kind]}${
    modeText(each.mode)
  } 0/0 ${size} ${time} ${name}${target}`;
}

Deno.test("writeTar() writes what tar lists", async () => {
  await fc.assert(
    fc.asyncProperty(archive, async ({ entries, mtime }) => {
      const listed = new TextDecoder().decode(
        await tar(
          ["--list", "-vf", "-", "--full-time", "--quoting-style=literal"],
          { stdin: await bytesOf(entries, mtime) },
        ),
      );
      const lines = listed.split("\n").filter((line) => line !== "")
        .map((line) => line.replace(/^(\S+ \S+) +/, "$1 "));
      assert.deepEqual(lines, entries.map((each) => listing(each, mtime)));
    }),
    { numRuns: 60 },
  );
});

Deno.test("readTar() reads what writeTar() writes", async () => {
  await fc.assert(
    fc.asyncProperty(archive, async ({ entries, mtime }) => {
      assert.deepEqual(readTar(await bytesOf(entries, mtime)), entries);
    }),
  );
});

for (const format of ["gnu", "oldgnu", "pax", "ustar"]) {
  Deno.test(`readTar() reads ${format} archives of tar`, async () => {
    const directory = await Deno.makeTempDir();
    try {
      // As long as ustar allows.
      const long = `${"d".repeat(97)}/${"f".repeat(90)}`;
      await Deno.mkdir(`${directory}/${"d".repeat(97)}`);
      await Deno.writeTextFile(`${directory}/${long}`, "long\n");
      await Deno.symlink(`../${"t".repeat(90)}`, `${directory}/symlink`);
      await Deno.writeTextFile(`${directory}/e`, "");
      await Deno.link(`${directory}/e`, `${directory}/other`);
      const bytes = await tar(
        ["-cf", "-", `--format=${format}`, "--sort=name", "."],
        { cwd: directory },
      );
      assert.deepEqual(
        readTar(bytes).map((each) => [each.kind, each.path]),
        [
          ["directory", "d".repeat(97)],
          ["file", long],
          ["file", "e"],
          ["hardlink", "other"],
          ["symlink", "symlink"],
        ],
      );
      const [, file, , , link] = readTar(bytes);
      assert.ok(file?.kind === "file" && "bytes" in file.content);
      assert.deepEqual(file.content.bytes, encoder.encode("long\n"));
      assert.ok(link?.kind === "symlink");
      assert.equal(link.target, `../${"t".repeat(90)}`);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });
}

Deno.test("readTar() refuses what is no archive, and paths that lead outside", async () => {
  const file: TarEntry = {
    path: "a",
    mode: 0o644,
    kind: "file",
    content: { bytes: encoder.encode("x".repeat(600)) },
  };
  const good = await bytesOf([file], 0);
  assert.throws(() => readTar(good.subarray(0, 800)), TarError);
  assert.throws(() => readTar(good.subarray(0, 1536)), /has no end/);
  assert.throws(() => readTar(new Uint8Array(1024).fill(0x31)), /checksum/);
  const outside = await bytesOf([{ ...file, path: "../a" }], 0);
  assert.throws(() => readTar(outside), /"\.\.\/a" leads outside/);
});

Deno.test("writeTar() notices that a file has changed", async () => {
  const name = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(name, "four");
    const content = { file: name, sizeBytes: 5 };
    await assert.rejects(
      bytesOf([{ path: "a", mode: 0o644, kind: "file", content }], 0),
      /it had 5 bytes and now has 4/,
    );
  } finally {
    await Deno.remove(name);
  }
});
