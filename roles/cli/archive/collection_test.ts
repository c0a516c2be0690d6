import assert from "node:assert/strict";
import { Collection } from "./collection.ts";
import { Redactor } from "./redact.ts";

/** Takes files of up to 24 characters. */
class SmallArchive {
  readonly files: Record<string, string> = {};

  async add(name: string, text: string): Promise<boolean> {
    if (text.length > 24) return false;
    this.files[name] = text;
    return true;
  }

  async finish(name: string, text: string): Promise<void> {
    this.files[name] = text;
  }
}

const AT = new Date("2026-06-01T10:00:00Z");

function collect(
  signal: AbortSignal,
  redactor?: Redactor,
): { archive: SmallArchive; collection: Collection } {
  const archive = new SmallArchive();
  const options = { archive, redactor, signal, startedAt: AT };
  return { archive, collection: new Collection(options) };
}

Deno.test("a collection cleans and redacts files, their paths, and what it says is missing", async () => {
  const redactor = new Redactor();
  redactor.learn("n1");
  const { archive, collection } = collect(
    new AbortController().signal,
    redactor,
  );
  await collection.add("nodes/n1/a.log", "n1 token=x");
  await collection.add("nodes/n1/b.log", "n1 ".repeat(4));
  await collection.attempt("Node n1", () => {
    throw new Error("n1 is\x1b[2J\naway, token=abc");
  });
  assert.equal(await collection.attempt("x", async () => 7), 7);
  await collection.finish(AT);
  assert.equal(archive.files["nodes/name-1/a.log"], "name-1 token=[removed]");
  assert.deepEqual(collection.missing, [
    {
      what: "nodes/name-1/b.log",
      why: "the archive has no room for it (--max-bytes)",
    },
    { what: "Node name-1", why: "name-1 is [2J away, token=[removed]" },
  ]);
  assert.match(archive.files["SUMMARY.txt"] ?? "", /^Missing: 2$/m);
});

Deno.test("when the time is over a collection reads nothing more, and when it is interrupted it ends", async () => {
  const stop = new AbortController();
  const { collection } = collect(stop.signal);
  stop.abort(new DOMException("over", "TimeoutError"));
  let isRead = false;
  const unread = async () => isRead = true;
  assert.equal(await collection.attempt("pods", unread), undefined);
  assert.deepEqual(collection.missing, [
    { what: "pods", why: "there was no time left (--timeout)" },
  ]);
  const cut = new AbortController();
  cut.abort(new Error("Interrupted"));
  await assert.rejects(
    collect(cut.signal).collection.attempt("pods", unread),
    /^Error: Interrupted$/,
  );
  assert.ok(!isRead);
});
