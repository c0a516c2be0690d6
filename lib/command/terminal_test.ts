import assert from "node:assert/strict";
import { isYes } from "./mod.ts";

Deno.test("isYes() takes yes for yes, and nothing else", () => {
  for (const yes of ["y", "Y", "yes\n", " YES "]) assert.ok(isYes(yes), yes);
  for (const no of ["", "\n", "n", "yeah", "y n"]) assert.ok(!isYes(no), no);
});
