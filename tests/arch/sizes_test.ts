// Files and folders that a newcomer can take in: see docs/architecture.md.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** Most have fewer than 200. */
const MOST_LINES = 500;
/** A folder with more is cut into rooms. */
const MOST_FILES = 15;

/** Names that say nothing about the content. */
const NO_NAMES =
  /\/(utils?|helpers?|common|misc|models|types|manager)(\/|\.ts$)/;

const files: string[] = [];
for (const dir of ["deploy", "lib", "roles"]) {
  for await (const path of sources(dir)) {
    if (!path.includes("/gen/")) files.push(path);
  }
}

Deno.test(`sizes: no source file has more than ${MOST_LINES} lines`, async () => {
  const long: string[] = [];
  for (const path of files) {
    const { length } = (await Deno.readTextFile(ROOT + path)).split("\n");
    if (length > MOST_LINES + 1) long.push(`${path}: ${length - 1}`);
  }
  assert.deepEqual(long, []);
});

Deno.test(`sizes: no folder has more than ${MOST_FILES} source files`, () => {
  const folders = Object.groupBy(
    files,
    (path) => path.slice(0, path.lastIndexOf("/")),
  );
  const full = Object.entries(folders)
    .filter(([, inside = []]) => inside.length > MOST_FILES)
    .map(([folder, inside = []]) => `${folder}: ${inside.length}`);
  assert.deepEqual(full, []);
});

Deno.test("sizes: the name of each file and folder says what is in it", () => {
  assert.deepEqual(files.filter((path) => NO_NAMES.test(path)), []);
});
