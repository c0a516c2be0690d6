import assert from "node:assert/strict";
import { isAtLeast } from "../lab/go.ts";

Deno.test("isAtLeast() compares Go versions by number", () => {
  for (
    const found of [
      "go1.25",
      "go1.25.0",
      "go1.100rc1",
      "go2.0",
      "devel go1.27-0a1",
    ]
  ) {
    assert.ok(isAtLeast(found, "1.25"), found);
  }
  for (const found of ["go1.24.9", "go1.9", "go1.2", ""]) {
    assert.ok(!isAtLeast(found, "1.25"), found);
  }
});
