import assert from "node:assert/strict";
import { parseEgressAnnotations } from "./egress_annotations.ts";

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
