import assert from "node:assert/strict";
import { codeOf, messageOf } from "./mod.ts";

Deno.test("messageOf() returns the message alone, of anything that was thrown", () => {
  const cause = new Error("inner");
  assert.equal(messageOf(new TypeError("outer", { cause })), "outer");
  assert.equal(messageOf("text"), "text");
  assert.equal(messageOf(undefined), "undefined");
});

Deno.test("codeOf() returns the name of the system's error, and of no other", async () => {
  const missing = await Deno.open("/nonexistent").catch((error) => error);
  assert.equal(codeOf(missing), "ENOENT");
  assert.equal(codeOf(Object.assign(new Error(), { code: 4 })), undefined);
  assert.equal(codeOf(new Error("outer", { cause: missing })), undefined);
  assert.equal(codeOf({ code: "ENOENT" }), undefined);
});
