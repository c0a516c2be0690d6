import assert from "node:assert/strict";
import fc from "fast-check";
import { Address } from "../../inet/mod.ts";
import { COORDINATOR_MARK, COORDINATOR_MARK_MASK } from "../../names/mod.ts";
import { choiceRules, choiceSets, gatewayMaps, gatewayMark } from "./choice.ts";

/** Two addresses whose marks are the same. */
const SAME_MARK = ["10.64.17.46", "10.64.127.222"];

Deno.test("gatewayMark() is the same for an address in every version, and no link's index", () => {
  // Connections keep their marks while coild is updated.
  assert.equal(gatewayMark(Address.parse("10.1.9.9")), 0xf623f7a3);
  assert.equal(gatewayMark(Address.parse("fd02::99")), 0xb660892a);
  fc.assert(fc.property(fc.nat(0xffffffff), (value) => {
    const mark = gatewayMark(Address.of("ipv4", BigInt(value)));
    assert.ok(mark >= 0x80000000 && mark <= 0xffffffff);
  }));
});

Deno.test("gatewayMark() is nothing that the coordinator's rule takes for a connection from the host", () => {
  let alike = 0;
  for (let i = 0n; i < 1000n; i++) {
    const mark = gatewayMark(Address.of("ipv4", 0x0a410000n + i));
    if ((mark & COORDINATOR_MARK) !== 0) alike++;
    const seen = (mark & COORDINATOR_MARK_MASK) >>> 0;
    assert.notEqual(seen, COORDINATOR_MARK);
  }
  assert.ok(alike > 400, `${alike} have its bit`);
});

Deno.test("choiceRules() give each ready gateway the same share of new connections", () => {
  const marks = fc.uniqueArray(fc.integer({ min: 2 ** 31, max: 2 ** 32 - 1 }), {
    maxLength: 20,
  });
  fc.assert(fc.property(marks, (ready) => {
    let left = 1;
    const shares = new Map<number, number>();
    const rules = choiceRules({
      tunnel: "fou4_0a440c31",
      ready,
      all: [],
      lost: [],
      keepsLost: false,
    });
    for (const { statements } of rules) {
      const picked = statements.find(({ kind }) => kind === "setCtMark");
      if (picked?.kind !== "setCtMark" || picked.mark === 0) continue;
      const chance = statements.find(({ kind }) => kind === "random");
      const part = chance?.kind === "random" ? chance.below / 2 ** 32 : 1;
      shares.set(picked.mark, left * part);
      left *= 1 - part;
    }
    assert.deepEqual([...shares.keys()], ready);
    for (const share of shares.values()) {
      assert.ok(Math.abs(share - 1 / ready.length) < 1e-6, `${share}`);
    }
  }));
});

Deno.test("choiceSets() has marks of ready gateways, of all, and of lost ones", () => {
  const all = ["fd02::99", "fd02::9a"].map((each) => Address.parse(each));
  const sets = choiceSets({
    tunnel: "fou6_0a3cb378",
    ready: [7],
    all,
    lost: [9],
    keepsLost: false,
  });
  assert.deepEqual(sets.map(({ name, elements }) => [name, elements.flat()]), [
    ["ready_fou6_0a3cb378", [7]],
    ["gateways_fou6_0a3cb378", all.map(gatewayMark)],
    ["lost_fou6_0a3cb378", [9]],
  ]);
});

Deno.test("gatewayMaps() have each gateway of a family once, of however many Egresses", () => {
  const [one, two, six] = ["10.1.9.9", "10.1.9.10", "fd02::99"].map((a) =>
    Address.parse(a)
  );
  assert.ok(one && two && six);
  const choice = { ready: [], lost: [], keepsLost: false };
  const choices = [
    { ...choice, tunnel: "fou4_0a440c31", all: [one, two] },
    { ...choice, tunnel: "fou4_0a440c32", all: [two] },
    { ...choice, tunnel: "fou6_0a3cb378", all: [six] },
  ];
  const [marks, addresses] = gatewayMaps(choices, "ipv4");
  const pairs = [[one, gatewayMark(one)], [two, gatewayMark(two)]];
  assert.deepEqual(marks?.elements, pairs);
  assert.deepEqual(
    new Set(addresses?.elements.map(([mark, address]) => `${address} ${mark}`)),
    new Set(pairs.map(([address, mark]) => `${address} ${mark}`)),
  );
  const v6 = gatewayMaps(choices, "ipv6").map(({ elements }) => elements);
  assert.deepEqual(v6, [[[six, gatewayMark(six)]], [[gatewayMark(six), six]]]);
});

Deno.test("gatewayMaps() give what has the mark of two gateways to the first", () => {
  const [first, second] = SAME_MARK.map((a) => Address.parse(a));
  assert.ok(first && second);
  assert.equal(gatewayMark(first), gatewayMark(second));
  const [marks, addresses] = gatewayMaps([{
    tunnel: "fou4_0a440c31",
    ready: [],
    all: [first, second],
    lost: [],
    keepsLost: false,
  }], "ipv4");
  assert.equal(marks?.elements.length, 2);
  assert.deepEqual(addresses?.elements, [[gatewayMark(first), first]]);
});
