import assert from "node:assert/strict";
import {
  choosePools,
  poolNamesOf,
  shortenPoolAnnotation,
} from "./pool_choice.ts";

for (
  const [annotation, expected] of [
    [undefined, ["default"]],
    ["blue", ["blue"]],
    ["blue,green", ["blue", "green"]],
    [" blue , ,green,blue,", ["blue", "green"]],
    ["", [""]],
    [" , ", [" , "]],
    ["a,b,c,d,e,f,g,h,i", ["a", "b", "c", "d", "e", "f", "g", "h"]],
  ] as const
) {
  Deno.test(`poolNamesOf(${JSON.stringify(annotation)})`, () => {
    assert.deepEqual(poolNamesOf(annotation), expected);
  });
}

Deno.test("shortenPoolAnnotation() keeps the names that count, and of one that is too long more than a name has", () => {
  const names = [..."abcdefgh"].map((letter) => letter.repeat(63));
  assert.equal(
    shortenPoolAnnotation(` ${names.join(`,${" ".repeat(5_000)}`)},i`),
    names.join(),
  );
  const long = "x".repeat(200_000);
  assert.equal(shortenPoolAnnotation(`${long},b`), `${"x".repeat(64)},b`);
  assert.equal(shortenPoolAnnotation(" ".repeat(200_000)), " ".repeat(64));
});

const POOL = "coil.cybozu.com/pool";
const ALLOWED = "coil.cybozu.com/pod-pools";

for (
  const [what, pod, namespace, expected] of [
    ["names none", {}, { [POOL]: "a", [ALLOWED]: "b" }, "a by namespace"],
    [
      "names one, which no list allows",
      { [POOL]: "b" },
      { [POOL]: "a" },
      "a by namespace",
    ],
    [
      "names one, of a namespace without annotations",
      { [POOL]: "b" },
      undefined,
      "default by default",
    ],
    [
      "names one that is allowed",
      { [POOL]: "b" },
      { [ALLOWED]: "c, b" },
      "b by pod",
    ],
    [
      "names two that are allowed",
      { [POOL]: "c,b" },
      { [ALLOWED]: "b,c" },
      "c,b by pod",
    ],
    [
      "names one that is not allowed",
      { [POOL]: "d,b" },
      { [ALLOWED]: "b, c" },
      "no d: b,c",
    ],
    ["names its namespace's, which is not in the list", { [POOL]: "a" }, {
      [POOL]: "a",
      [ALLOWED]: "b",
    }, "no a: b"],
    [
      "names one, where the list is empty",
      { [POOL]: "b" },
      { [ALLOWED]: "" },
      "no b: ",
    ],
    ["names nothing", { [POOL]: "" }, { [ALLOWED]: "b" }, "no : b"],
  ] as const
) {
  Deno.test(`choosePools() of a pod that ${what}`, () => {
    const choice = choosePools(pod, namespace);
    assert.equal(
      choice.kind === "chosen"
        ? `${choice.pools.join()} by ${choice.from}`
        : `no ${choice.pools.join()}: ${choice.allowed.join()}`,
      expected,
    );
  });
}
