import assert from "node:assert/strict";
import { figure } from "./figures.ts";
import { missingNames, REQUIRED_NAMES } from "./names.ts";

Deno.test("missingNames() names what a whole run has lost, and nothing else", () => {
  const all = REQUIRED_NAMES.map((name) => figure(name, "ms", [1]));
  assert.deepEqual(missingNames(all), []);
  const lost = all.filter(({ name }) => name !== "plugin.rpc");
  assert.deepEqual(missingNames(lost), ["plugin.rpc was not measured"]);
});
