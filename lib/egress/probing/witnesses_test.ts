import assert from "node:assert/strict";
import { bestWitnesses, type Witness, witnessed } from "./witnesses.ts";

/** `witnessed()` of gateways by their names: capital ones answer, those before the bar are on this node. */
function of(text: string): string {
  const names = text.replace("|", "").split("");
  const [local = ""] = text.includes("|") ? text.split("|") : [];
  return witnessed(names.map((name) => ({
    name,
    isLocal: local.includes(name),
    sentMs: 2,
    answeredMs: name === name.toLowerCase() ? 1 : 2,
  }))).join("");
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

/** One of another node that was asked at 10. */
function witness(name: string, changes: Partial<Witness>): Witness {
  return { name, isLocal: false, sentMs: 10, answeredMs: 0, ...changes };
}

Deno.test("witnessed() takes no answer to an earlier probe for a proof", () => {
  const silent = witness("silent", {});
  const before = witness("before", { sentMs: 9, answeredMs: 9 });
  const after = witness("after", { sentMs: 11, answeredMs: 11 });
  assert.deepEqual(witnessed([silent, before]), []);
  assert.deepEqual(witnessed([silent, before, after]), ["silent"]);
});

Deno.test("bestWitnesses() has those that answered last, of other nodes first", () => {
  const group = [
    witness("local", { isLocal: true, answeredMs: 12 }),
    witness("never", { answeredMs: -Infinity }),
    witness("old", { answeredMs: 10 }),
    witness("new", { answeredMs: 11 }),
  ];
  assert.deepEqual(bestWitnesses(group, 9), ["new", "old", "local"]);
  assert.deepEqual(bestWitnesses(group, 1), ["new"]);
});
