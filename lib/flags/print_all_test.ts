import assert from "node:assert/strict";
import { printAll } from "./print_all.ts";

Deno.test("printAll() waits for a reader whose pipe is full and does not block", () => {
  const text = "x".repeat(10);
  let [written, refusals] = ["", 0];
  const stream = {
    writeSync(data: Uint8Array): number {
      if (refusals < 2) {
        refusals++;
        throw new Deno.errors.WouldBlock("os error 11");
      }
      refusals = 0;
      written += new TextDecoder().decode(data.subarray(0, 3));
      return Math.min(3, data.length);
    },
  };
  assert.equal(printAll(stream, text), true);
  assert.equal(written, text);
});

Deno.test("printAll() does not hide other faults", () => {
  const stream = {
    writeSync: (): number => {
      throw new Deno.errors.BadResource("closed");
    },
  };
  assert.throws(() => printAll(stream, "x"), Deno.errors.BadResource);
});

Deno.test("printAll() returns false when its reader is gone", () => {
  const stream = {
    writeSync: (): number => {
      throw new Deno.errors.BrokenPipe("os error 32");
    },
  };
  assert.equal(printAll(stream, "x"), false);
});
