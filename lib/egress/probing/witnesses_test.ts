import assert from "node:assert/strict";
import { witnessed } from "./witnesses.ts";

/** `witnessed()` of gateways by their names: capital ones answer, those before the bar are on this node. */
function of(text: string): string {
  const names = text.replace("|", "").split("");
  const [local = ""] = text.includes("|") ? text.split("|") : [];
  return witnessed({
    gateways: names,
    answering: new Set(names.filter((name) => name !== name.toLowerCase())),
    local: new Set(local),
  }).join("");
}

Deno.test("witnessed() has who is silent while another gateway of the group answers", () => {
  const cases = ["", "a", "A", "ab", "aB", "AB", "abC", "aBC"];
  assert.deepEqual(
    cases.map(of),
    ["", "", "", "", "a", "", "ab", "a"],
  );
});

Deno.test("witnessed() believes a gateway of this node only where there is no other", () => {
  const cases = ["A|b", "a|B", "A|bc", "A|bC", "a|bC", "AB|c", "aB|", "aB|c"];
  assert.deepEqual(
    cases.map(of),
    ["b", "a", "", "b", "ab", "c", "a", "c"],
  );
});
