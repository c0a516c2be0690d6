import assert from "node:assert/strict";
import { requiredEnv } from "./mod.ts";

Deno.test("requiredEnv() returns the value, and names a variable that is not set or empty", () => {
  const env = new Map([["NODE", "node1"], ["EMPTY", ""]]);
  assert.equal(requiredEnv("NODE", env), "node1");
  for (const name of ["EMPTY", "ABSENT"]) {
    assert.throws(() => requiredEnv(name, env), {
      message: `Cannot start: environment variable ${name} is not set`,
    });
  }
});
