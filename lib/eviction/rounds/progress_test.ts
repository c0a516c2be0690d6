import assert from "node:assert/strict";
import { Progress, progressBar } from "./progress.ts";

Deno.test("Progress draws a bar at a terminal, and lines elsewhere", () => {
  for (const isInteractive of [true, false]) {
    let text = "";
    const progress = new Progress({
      isInteractive,
      err: (part) => void (text += part),
    }, { total: 4, done: 1 });
    progress.show("a");
    progress.done("b");
    progress.end();
    assert.equal(
      text,
      isInteractive
        ? "\r\x1b[K[######                  ] 1/4 a\r\x1b[K[2/4] b\n"
        : "[2/4] b\n",
    );
  }
  assert.equal(progressBar(0, 0), `[${"#".repeat(24)}] 0/0`);
  assert.equal(progressBar(9, 3), `[${"#".repeat(24)}] 9/3`);
});
