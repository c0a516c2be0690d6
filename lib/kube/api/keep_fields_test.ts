import assert from "node:assert/strict";
import { keepFields } from "./keep_fields.ts";

Deno.test("keepFields() keeps fields that are named and set", () => {
  const metadata = { name: "a", uid: undefined, labels: {} };
  assert.deepEqual(keepFields(metadata, "name", "uid"), { name: "a" });
  assert.deepEqual(keepFields<typeof metadata, "uid">(undefined, "uid"), {});
});
