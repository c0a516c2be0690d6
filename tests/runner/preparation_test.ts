import assert from "node:assert/strict";
import { Preparation } from "./preparation.ts";
import { eventually } from "../lab/mod.ts";

/** A preparation of suites "a" and "b" by a shell script. */
function start(script: string): Preparation {
  return Preparation.start(["a", "b"], ["sh", "-c", script]);
}

const ignore = () => {};

Deno.test("a suite is ready when what prepares it says so, and hears what was said before", async () => {
  const preparation = start(`
    echo '{"name":"a","line":"building"}'
    echo '{"name":"b","line":"not of a"}'
    echo '{"name":"a","obstacle":""}'
    echo '{"name":"b","line":"of b"}'
    echo '{"name":"b","obstacle":"no Go"}'`);
  const lines: string[] = [];
  assert.equal(await preparation.ready("a", (line) => lines.push(line)), "");
  assert.deepEqual(lines, ["building"]);
  assert.equal(
    await preparation.ready("b", (line) => lines.push(line)),
    "no Go",
  );
  assert.deepEqual(lines.slice(1), ["not of a", "of b"]);
  await preparation.end();
});

Deno.test("a suite cannot run when what prepares it has ended without a word of it", async () => {
  const preparation = start(`echo '{"name":"a","obstacle":""}'; exit 3`);
  assert.equal(await preparation.ready("a", ignore), "");
  assert.equal(
    await preparation.ready("b", ignore),
    "what prepares it ended before, with code 3",
  );
  await preparation.end();
});

Deno.test("a suite that nobody prepares has what it needs", async () => {
  assert.equal(await Preparation.start([]).ready("a", ignore), "");
});

Deno.test("what prepares suites leaves the processors to others", async () => {
  const preparation = start(
    `printf '{"name":"a","line":"%s"}\\n{"name":"a","obstacle":""}\\n' "$(chrt -p 0 | head -n 1)"`,
  );
  const lines: string[] = [];
  await preparation.ready("a", (line) => lines.push(line));
  await preparation.end();
  assert.match(lines.join(), /SCHED_IDLE/);
});

Deno.test("ending a preparation ends its children", async () => {
  const preparation = start(
    `sleep 1000 & printf '{"name":"a","line":"%s"}\\n{"name":"a","obstacle":""}\\n' $!; wait`,
  );
  const lines: string[] = [];
  await preparation.ready("a", (line) => lines.push(line));
  await preparation.end();
  assert.match(await preparation.ready("b", ignore), /SIGTERM/);
  const process = `/proc/${lines[0]}`;
  const isThere = () => Deno.stat(process).then(() => true, () => false);
  await eventually("its child's end", async () => !await isThere());
});
