import assert from "node:assert/strict";
import {
  egressAnnotationProblem,
  egressAnnotationsOf,
  MAX_EGRESSES_OF_POD,
  parseEgressAnnotations,
  shortenEgressAnnotation,
  withDefaultEgresses,
} from "./egress_annotations.ts";
import { GATEWAY_LABELS } from "./egress_objects.ts";

const PREFIX = "egress.coil.cybozu.com/";

Deno.test("parseEgressAnnotations() reads namespaces and names, sorted", () => {
  assert.deepEqual(
    parseEgressAnnotations({
      [`${PREFIX}internet`]: "nat2,nat1",
      "example.com/other": "nat3",
      [`${PREFIX}corp`]: "vpn",
    }),
    [
      { namespace: "corp", names: ["vpn"] },
      { namespace: "internet", names: ["nat1", "nat2"] },
    ],
  );
});

Deno.test("parseEgressAnnotations() forgives blanks, empty names and repetitions", () => {
  assert.deepEqual(
    parseEgressAnnotations({ [`${PREFIX}a`]: " x , y,,x ,\ty\n" }),
    [{ namespace: "a", names: ["x", "y"] }],
  );
});

Deno.test("parseEgressAnnotations() leaves out what names nothing", () => {
  const annotations = {
    [`${PREFIX}a`]: "",
    [`${PREFIX}b`]: " , ",
    [PREFIX]: "x",
    "egress.coil.cybozu.com": "x",
  };
  assert.deepEqual(parseEgressAnnotations(annotations), []);
  assert.deepEqual(parseEgressAnnotations(undefined), []);
});

function problem(namespace: string, value: string): string | undefined {
  const annotations = { [`${PREFIX}${namespace}`]: value };
  return egressAnnotationProblem(parseEgressAnnotations(annotations));
}

const names = (count: number) =>
  Array.from({ length: count }, (_, n) => `egress-${n}`).join();

Deno.test("egressAnnotationProblem() takes what Egresses can be called", () => {
  const longest = `${"a".repeat(63)}.`.repeat(3) + "b".repeat(61);
  for (
    const value of [
      "",
      "x",
      "x, y",
      "a-b.c",
      longest,
      names(MAX_EGRESSES_OF_POD),
    ]
  ) assert.equal(problem("nat", value), undefined, value);
});

for (
  const [what, namespace, value, reason] of [
    ["capitals", "nat", "Internet", /has "Internet", which cannot be the name/],
    ["a path", "nat", "../pods", /"\.\.\/pods"/],
    ["a quote", "nat", 'a"b', /"a\\"b"/],
    ["a control character", "nat", "a\u0000b", /a\\u0000b/],
    ["one wrong among many", "nat", "good,bad_", /"bad_"/],
    ["254 characters", "nat", "a".repeat(254), /"a{64}"… \(254 characters\)/],
    ["200 KB", "nat", "a".repeat(200_000), /\(200000 characters\)/],
    ["20,000 names", "nat", names(20_000), /\(\d+ characters\)/],
    [
      "much that is blank",
      "nat",
      `a,${" ".repeat(40_000)}`,
      /40002 characters/,
    ],
    ["too many", "nat", names(65), /65 Egresses, at most 64 are allowed/],
    ["a namespace that cannot be", "nat.x", "a", /name of a namespace/],
  ] as const
) {
  Deno.test(`egressAnnotationProblem() refuses ${what}, in a few words`, () => {
    const text = problem(namespace, value) ?? "";
    assert.match(text, reason);
    assert.ok(text.length < 250, `${text.length}`);
  });
}

Deno.test("egressAnnotationProblem() counts the names of all namespaces", () => {
  const annotations = { [`${PREFIX}a`]: names(40), [`${PREFIX}b`]: names(40) };
  assert.match(
    egressAnnotationProblem(parseEgressAnnotations(annotations)) ?? "",
    /80 Egresses/,
  );
});

Deno.test("shortenEgressAnnotation() keeps what can be used, and a few words of what cannot", () => {
  const usable = Array.from(
    { length: MAX_EGRESSES_OF_POD },
    (_, n) => `${n}`.padStart(253, "a"),
  ).join(", ");
  assert.equal(shortenEgressAnnotation(usable), usable);
  assert.equal(problem("nat", usable), undefined);
  const long = "a,".repeat(100_000);
  const trimmed = shortenEgressAnnotation(long);
  assert.ok(trimmed.length < 50);
  assert.notEqual(problem("nat", trimmed), undefined);
  assert.equal(problem("nat", trimmed), problem("nat", long));
});

Deno.test("withDefaultEgresses() lets a pod's own annotation count, and gives a gateway none", () => {
  const defaults = { [`${PREFIX}a`]: "x", [`${PREFIX}b`]: "y" };
  const of = (annotations: Record<string, string>, labels = {}) =>
    parseEgressAnnotations(
      withDefaultEgresses({ metadata: { annotations, labels } }, defaults),
    ).map(({ namespace, names }) => `${namespace}/${names.join()}`);
  assert.deepEqual(of({}), ["a/x", "b/y"]);
  assert.deepEqual(of({ [`${PREFIX}a`]: "own" }), ["a/own", "b/y"]);
  assert.deepEqual(of({ [`${PREFIX}a`]: "" }), ["b/y"]);
  assert.deepEqual(of({}, GATEWAY_LABELS), []);
  assert.deepEqual(of({ [`${PREFIX}c`]: "z" }, GATEWAY_LABELS), ["c/z"]);
  const pod = { metadata: { annotations: { other: "kept" } } };
  assert.equal(withDefaultEgresses(pod, {}), pod.metadata.annotations);
  assert.equal(withDefaultEgresses({}, undefined), undefined);
  assert.deepEqual(withDefaultEgresses({}, defaults), defaults);
});

Deno.test("egressAnnotationsOf() keeps what names Egresses, and nothing long", () => {
  const long = "x".repeat(40_000);
  assert.deepEqual(
    egressAnnotationsOf({
      other: "y",
      [`${PREFIX}a`]: "x",
      [`${PREFIX}b`]: long,
    }),
    { [`${PREFIX}a`]: "x", [`${PREFIX}b`]: "(40000 characters)" },
  );
  assert.deepEqual(egressAnnotationsOf(undefined), {});
});
