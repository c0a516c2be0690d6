import assert from "node:assert/strict";
import fc from "fast-check";
import {
  afterProbe,
  avoided,
  type GatewayHealth,
  type HealthLimits,
  newHealth,
} from "./health.ts";

const LIMITS: HealthLimits = {
  holdMs: 1_000,
  maxHoldMs: 60_000,
  calmMs: 600_000,
};
const PERIOD_MS = 250;
const MISSES = 3;
/** Long after the machine's start. */
const START_MS = 10_000_000;

/** Probes from then on, one each period, of a gateway that is known: `+` is answered, `-` is not. */
function probed(answers: string, limits = LIMITS): GatewayHealth {
  const first = { isAnswered: true, nowMs: START_MS, misses: MISSES };
  let health = afterProbe(newHealth(), first, limits);
  [...answers].forEach((answer, i) => {
    health = afterProbe(health, {
      isAnswered: answer === "+",
      nowMs: START_MS + (i + 1) * PERIOD_MS,
      misses: MISSES,
    }, limits);
  });
  return health;
}

Deno.test("afterProbe() loses a gateway after three misses in a row, and holds it off when it answers", () => {
  const kinds = ["", "-", "--", "--+", "---", "----", "---+"]
    .map((answers) => probed(answers).kind);
  assert.deepEqual(kinds, [
    ...["healthy", "doubted", "doubted", "healthy"],
    ...["lost", "lost", "held"],
  ]);
  const again = ["---+--", "---+--+--", "---+---"]
    .map((answers) => probed(answers).kind);
  assert.deepEqual(again, ["held", "held", "lost"]);
  assert.equal(probed(`---${"+".repeat(4)}`).kind, "held");
  assert.equal(probed(`---${"+".repeat(5)}`).kind, "healthy");
});

Deno.test("afterProbe() holds a gateway that flaps off for longer each time, until it was calm", () => {
  const holdMs = (answers: string) => {
    const health = probed(answers);
    assert.ok(health.kind === "held", health.kind);
    return health.untilMs - START_MS - answers.length * PERIOD_MS;
  };
  assert.deepEqual(
    [1, 2, 3, 7, 20].map((losses) => holdMs("---+".repeat(losses))),
    [1_000, 2_000, 4_000, 60_000, 60_000],
  );
  const calm = "+".repeat(9 + LIMITS.calmMs / PERIOD_MS);
  assert.equal(holdMs(`---+---${calm}---+`), 1_000);
  assert.equal(holdMs(`---${"+".repeat(9)}---+`), 2_000, "it was not calm");
});

Deno.test("afterProbe() never loses a gateway of which at most two probes in a row are missed", () => {
  const answers = fc.array(fc.constantFrom("+", "-+", "--+"))
    .map((parts) => parts.join(""));
  fc.assert(fc.property(answers, (answers) => {
    assert.ok(["healthy", "doubted"].includes(probed(answers).kind));
  }));
});

Deno.test("afterProbe() takes a gateway that has never answered for no lost one", () => {
  let health = newHealth();
  for (let nowMs = 1; nowMs <= 100; nowMs++) {
    health = afterProbe(
      health,
      { isAnswered: false, nowMs, misses: MISSES },
      LIMITS,
    );
  }
  assert.deepEqual(health, { kind: "unknown", misses: 100 });
});

const HEALTH: fc.Arbitrary<GatewayHealth> = fc.constantFrom(
  newHealth(),
  ...["+", "--", "---", "---+", "---+++++"].map((answers) => probed(answers)),
);
const GATEWAYS = fc.dictionary(fc.constantFrom("a", "b", "c", "d"), HEALTH)
  .map((record) => new Map(Object.entries(record)));

Deno.test("avoided() has all lost gateways, and none that may work unless it is held off and another may", () => {
  fc.assert(fc.property(GATEWAYS, (gateways) => {
    const result = avoided(gateways);
    const namesOf = (...kinds: GatewayHealth["kind"][]) =>
      [...gateways].filter(([, { kind }]) => kinds.includes(kind))
        .map(([name]) => name);
    for (const name of namesOf("lost")) assert.ok(result.has(name), name);
    for (const name of namesOf("doubted", "healthy", "unknown")) {
      assert.ok(!result.has(name), name);
    }
    const held = namesOf("held");
    const hasOther = held.length + namesOf("lost").length < gateways.size;
    assert.ok(held.every((name) => result.has(name) === hasOther));
  }));
});
