// A task refuses a wrong command line in two lines, as the program's roles do.
import assert from "node:assert/strict";
import { ROOT } from "../arch/ranks.ts";

const CASES = [
  [
    "demo --keep --down",
    "Cannot do more than one of --egress, --coordinator, --vpc, --keep, --down",
  ],
  ["demo --x", "Unknown option '--x'"],
  ["bench --only x", 'There is no part "x"'],
  ["test x", 'There is no suite "x"'],
  ["mutate", "Cannot tell what to change"],
  ["build --x", "Unknown option '--x'"],
  ["page --x", "Unknown option '--x'"],
  ["image --out=a --rootfs=b", "Cannot write both --out and --rootfs"],
] as const;

for (const [words, reason] of CASES) {
  Deno.test(`task ${words} says why, and where its help is`, async () => {
    const args = ["task", "--quiet", ...words.split(" ")];
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args,
      cwd: ROOT,
    }).output();
    const decoder = new TextDecoder();
    assert.equal(code, 2);
    assert.equal(decoder.decode(stdout), "");
    const [first = "", ...rest] = decoder.decode(stderr).split("\n");
    assert.ok(first.startsWith(`Error: ${reason}`), first);
    const [task] = words.split(" ");
    assert.deepEqual(rest, [`See "deno task ${task} --help".`, ""]);
  });
}
