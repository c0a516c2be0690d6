import assert from "node:assert/strict";
import { ImageError } from "../base/errors.ts";
import { parseReference } from "./reference.ts";

const READ: readonly (readonly [text: string, full: string, short: string])[] =
  [
    ["coil", "docker.io/library/coil:latest", "coil:latest"],
    ["coil:0.1.0", "docker.io/library/coil:0.1.0", "coil:0.1.0"],
    ["me/coil:x", "docker.io/me/coil:x", "me/coil:x"],
    ["docker.io/library/coil:1", "docker.io/library/coil:1", "coil:1"],
    ["ghcr.io/me/coil:1", "ghcr.io/me/coil:1", "ghcr.io/me/coil:1"],
    ["localhost/coil:1", "localhost/coil:1", "localhost/coil:1"],
    [
      "localhost:5000/coil",
      "localhost:5000/coil:latest",
      "localhost:5000/coil:latest",
    ],
    [
      "reg:5000/a/b__c-d:T_1.2-x",
      "reg:5000/a/b__c-d:T_1.2-x",
      "reg:5000/a/b__c-d:T_1.2-x",
    ],
  ];

for (const [text, full, familiar] of READ) {
  Deno.test(`parseReference() reads "${text}"`, () => {
    const reference = parseReference(text);
    assert.equal(reference.full, full);
    assert.equal(reference.familiar, familiar);
    assert.equal(reference.full.split(":").at(-1), reference.tag);
  });
}

for (
  const text of [
    "",
    ":1",
    "Coil",
    "coil:",
    "coil:-x",
    "coil:a:b",
    "a//b",
    "/coil",
    "coil/",
    "co il",
    `coil:${"x".repeat(129)}`,
    `coil@sha256:${"0".repeat(64)}`,
  ]
) {
  Deno.test(`parseReference() refuses "${text.slice(0, 40)}"`, () => {
    assert.throws(() => parseReference(text), ImageError);
  });
}
