import assert from "node:assert/strict";
import { fieldsOf, tryParseJson, tryParseJsonObject } from "./mod.ts";

Deno.test("tryParseJsonObject() returns objects alone, and fieldsOf() nothing of others", () => {
  assert.deepEqual(tryParseJsonObject('{"a":1}'), { a: 1 });
  assert.deepEqual(fieldsOf({ a: 1 }), { a: 1 });
  for (const text of ["null", "[1]", '"a"', "1", "true", "", "{", '{"a":1']) {
    assert.equal(tryParseJsonObject(text), undefined, text);
    assert.deepEqual(fieldsOf(tryParseJson(text)), {}, text);
  }
});

Deno.test("tryParseJson() returns every value of JSON", () => {
  assert.deepEqual(tryParseJson("[1]"), [1]);
  assert.equal(tryParseJson("null"), null);
  assert.equal(tryParseJson("no"), undefined);
});
