import assert from "node:assert/strict";
import { ensureSysctl } from "./kernel.ts";

Deno.test("ensureSysctl() does without writing where the value will do", () => {
  // Nobody can write this one.
  const name = "kernel/ostype";
  ensureSysctl({ name, value: "Linux", alsoGood: [] }, {});
  ensureSysctl({ name, value: "1", alsoGood: ["0", "Linux"] }, {});
  assert.throws(
    () => ensureSysctl({ name, value: "1", alsoGood: ["0"] }, {}),
    /"kernel\/ostype" to 1: it is Linux, .* make \/proc\/sys writable/,
  );
});
