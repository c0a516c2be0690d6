import assert from "node:assert/strict";
import { messageOf } from "./mod.ts";

Deno.test("messageOf() returns the message alone, of anything that was thrown", () => {
  const cause = new Error("inner");
  assert.equal(messageOf(new TypeError("outer", { cause })), "outer");
  assert.equal(messageOf("text"), "text");
  assert.equal(messageOf(undefined), "undefined");
});
