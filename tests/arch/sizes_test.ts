// Files and folders that a newcomer can take in: see docs/architecture.md.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** Most have fewer than 200. */
const MOST_LINES = 350;
/** Also of those in {@linkcode LONGER}, and of what only tests use. */
const MOST_LINES_EVER = 500;
/** Files with more, and why they are one file. */
const LONGER: Readonly<Record<string, string>> = {
  "lib/grpc/connection/server_connection.ts":
    "the states of one HTTP/2 connection, which frames of every kind change",
  "lib/kube/cache/informer.ts":
    "list, watch and what is read again share one version and one store",
  "lib/kube/client/client.ts":
    "one short method for each verb, most lines say what it takes and throws",
  "lib/podnet/pod_network.ts":
    "what lib/podnet offers for pods: one short method for each call, with its documentation",
  "roles/coild/cluster/pod_source.ts":
    "every question about this node's pods, answered from the same two caches",
};
/** Functions and methods with more have a reason. */
const MOST_LINES_OF_FUNCTION = 60;
const LONGER_FUNCTIONS: Readonly<Record<string, string>> = {};
/** As deno fmt writes them: the last line has the indent of the first. */
const FUNCTION =
  /^(?:export )?(?:async )?function\*? (\w+)[^]*?^}$|^ {2}(?!(?:if|for|while|switch) )(?:\w+ |\*)*(#?\w+)(?:<.*>)?\(.*[({]\n(?:(?: {3}.*| {2}[)}\]].+|)\n)* {2}}$/gm;
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

Deno.test(`sizes: a source file with more than ${MOST_LINES} lines has a reason`, async () => {
  const long: string[] = [];
  for (const path of files) {
    const { length } = (await Deno.readTextFile(ROOT + path)).split("\n");
    const isForTests = path.endsWith("/testing.ts");
    if (length > MOST_LINES + 1 && !isForTests) long.push(path);
    assert.ok(length <= MOST_LINES_EVER + 1, `${path}: ${length - 1}`);
  }
  assert.deepEqual(long.sort(), Object.keys(LONGER));
});

Deno.test(`sizes: a function with more than ${MOST_LINES_OF_FUNCTION} lines has a reason`, async () => {
  const long: string[] = [];
  for (const path of files.filter((path) => !path.endsWith("/testing.ts"))) {
    const text = await Deno.readTextFile(ROOT + path);
    for (const [body, name, method] of text.matchAll(FUNCTION)) {
      const { length } = body.split("\n");
      if (length > MOST_LINES_OF_FUNCTION) {
        long.push(`${path} ${name ?? method}`);
      }
    }
  }
  assert.deepEqual(long.sort(), Object.keys(LONGER_FUNCTIONS));
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
