// Tables of symptoms quote what programs say. An admin searches for these
// words, so they must be the program's; … stands for what differs each time.
// docs/usage.md is compared more strictly: usage_messages_test.ts.
import assert from "node:assert/strict";
import { type Page, readPages, ROOT } from "./pages.ts";

/** What is in no text of Coil's in one piece, and who says it. */
const OF_OTHERS: Readonly<Record<string, string>> = {
  "No route to host": "the kernel",
  "Operation not permitted": "the kernel",
  "Read-only file system": "the kernel",
  'Cannot lock file "/run/coild.sock.lock": open returned EACCES':
    "lock_file.ts and errno.ts of lib/linux",
  "modprobe:": "kmod",
  "Module fou not found in directory /lib/modules/": "kmod",
  "cni plugin not initialized": "containerd",
  "disruption budget": "the API server",
  "0/3 nodes are available": "kube-scheduler",
};

async function* sources(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${dir}`)) {
    const path = `${dir}/${name}`;
    if (isDirectory) yield* sources(path);
    else if (/(?<!_test)\.(ts|c|yaml)$/.test(name)) yield path;
  }
}

const COMMENT = /\/\*[^]*?\*\/|^\s*(\/\/|#).*$/gm;

/** The texts in the sources, each in one piece: what is put in becomes …. */
async function saidByCode(): Promise<string> {
  const texts: string[] = [];
  for (const dir of ["lib", "roles", "deploy"]) {
    for await (const path of sources(dir)) {
      texts.push(await Deno.readTextFile(`${ROOT}${path}`));
    }
  }
  return texts.join("\n").replaceAll(COMMENT, "").replaceAll(
    /["`] \+\s*["`]/g,
    "",
  )
    .replaceAll(/\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g, "…")
    .replaceAll('\\"', '"');
}

/** Quotations of several words in the first column of a page's tables of symptoms or messages. */
function quotations({ text }: Page): string[] {
  return text.split(/\n{2,}/)
    .filter((block) => /^\| *(message|symptom) *\|/.test(block))
    .flatMap((table) => table.split("\n").slice(2))
    .flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)])
    .flatMap(([, quoted = ""]) => quoted.includes(" ") ? quoted : []);
}

function fragmentsOf(quoted: string): string[] {
  return quoted.split("…").map((part) => part.trim())
    .filter((part) => part !== "");
}

const SAID = await saidByCode();

Deno.test("messages that tables quote are the programs' words", async () => {
  const unused = new Set(Object.keys(OF_OTHERS));
  const pages = (await readPages())
    .filter(({ path }) => path !== "docs/usage.md");
  const found = pages.flatMap((page) =>
    quotations(page).flatMap(fragmentsOf).filter((fragment) => {
      if (unused.delete(fragment) || fragment in OF_OTHERS) return false;
      return !SAID.includes(fragment);
    }).map((fragment) => `${page.path}: ${fragment}`)
  );
  assert.deepEqual(found, []);
  assert.deepEqual([...unused], [], "no page quotes it any more");
});

/** A log record that a sentence names by its message of several words. */
const RECORD =
  /(?<=\b(?:records?|logs) (?:`[^`\n]+` and )?)`([A-Za-z][^` ]* [^`]+)`/g;

Deno.test("log records that documents name are the programs' words", async () => {
  const named = (await readPages()).flatMap(({ path, text }) =>
    [...text.matchAll(RECORD)].map(([, message = ""]) => ({ path, message }))
  );
  assert.ok(named.length > 8, `${named.length} records`);
  assert.deepEqual(named.filter(({ message }) => !SAID.includes(message)), []);
});
