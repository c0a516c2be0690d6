import assert from "node:assert/strict";
import { parseFacts, parseOutcomes } from "./mod.ts";

Deno.test("parseOutcomes() reads what a probe wrote, and keeps what could harm a terminal out", () => {
  const written = [
    { state: "answered", by: "p1\x1b[2J", source: "10.0.0.1" },
    { state: "failed", why: "too large", detail: "x".repeat(600), size: 1500 },
  ];
  assert.deepEqual(parseOutcomes(JSON.stringify(written), 2), [
    { state: "answered", by: "p1 [2J", source: "10.0.0.1" },
    { state: "failed", why: "too large", detail: "x".repeat(500), size: 1500 },
  ]);
});

for (
  const text of [
    "{}",
    "[]",
    "[null]",
    '[{"state":"ok"}]',
    '[{"state":"failed","why":"__proto__"}]',
  ]
) {
  Deno.test(`parseOutcomes() refuses ${text}`, () => {
    assert.throws(() => parseOutcomes(text, 1), SyntaxError);
  });
}

Deno.test("parseFacts() reads what a node wrote", () => {
  const facts = {
    forwards: ["ipv4"],
    addresses: {
      "10.0.0.1": {
        podLink: "veth1",
        way: { link: "veth1", mtu: 1500, gateway: undefined, isDefault: false },
      },
      "10.0.0.2": { podLink: undefined, way: undefined },
    },
  };
  assert.deepEqual(parseFacts(JSON.stringify(facts)), facts);
  const hostile = { forwards: [], addresses: { a: { podLink: "\x1b[2J" } } };
  assert.deepEqual(
    parseFacts(JSON.stringify(hostile)).addresses,
    { a: { podLink: undefined, way: undefined } },
  );
  for (const text of ["[]", "null", '{"forwards":[]}', '{"addresses":{}}']) {
    assert.throws(() => parseFacts(text), SyntaxError, text);
  }
});
