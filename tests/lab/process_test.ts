import assert from "node:assert/strict";
import { getPriority } from "node:os";

const MODULE = new URL("process.ts", import.meta.url).href;
const AUTOGROUP = "/proc/self/autogroup";

/** Starts a process of a lab from a process that is nicer than this one, and returns what it wrote. */
async function wordsOf(
  script: string,
  { runDir, adjustment }: {
    readonly runDir: string;
    readonly adjustment: number;
  },
): Promise<string> {
  const spec = { id: "sh", runDir, command: "sh", args: ["-ec", script] };
  const program = `
import { spawnProcess } from ${JSON.stringify(MODULE)};
await (await spawnProcess(${JSON.stringify(spec)})).exited;`;
  const { success } = await new Deno.Command("nice", {
    args: [
      ...[`--adjustment=${adjustment}`, Deno.execPath()],
      ...["eval", "--no-check", "--ext=ts", program],
    ],
    stdin: "null",
  }).output();
  assert.ok(success);
  return await Deno.readTextFile(`${runDir}/logs/sh.log`);
}

Deno.test("spawnProcess() makes a process as nice as its starter, and its session too where sessions are scheduled as groups", async () => {
  const hasGroups = await Deno.stat(AUTOGROUP).then(() => true, () => false);
  const runDir = await Deno.makeTempDir();
  try {
    const script = `nice; ${hasGroups ? `cut -d" " -f3 ${AUTOGROUP}` : ":"}`;
    const words = await wordsOf(script, { runDir, adjustment: 7 });
    const niceness = Math.min(getPriority() + 7, 19);
    const expected = hasGroups ? [niceness, niceness] : [niceness];
    assert.deepEqual(words.trim().split("\n").map(Number), expected);
  } finally {
    await Deno.remove(runDir, { recursive: true });
  }
});
