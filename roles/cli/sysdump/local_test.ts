import assert from "node:assert/strict";
import { parseLocal, readLocal } from "./local.ts";

const REPORT = {
  version: "1",
  files: { "rules.txt": "all", "addresses.json": "{}" },
  missing: [{ what: "metrics.txt", why: "refused" }],
};

Deno.test("parseLocal() reads a report", () => {
  assert.deepEqual(parseLocal(JSON.stringify(REPORT)), REPORT);
});

for (
  const change of [
    { files: { "../../rules.txt": "x" } },
    { files: { "a/b.txt": "x" } },
    { files: { ".bashrc": "x" } },
    { files: { "rules.txt": 1 } },
    { files: null },
    { missing: [{ what: 1, why: "" }] },
    { missing: [null] },
    { missing: {} },
    { version: undefined },
  ]
) {
  Deno.test(`parseLocal() refuses ${JSON.stringify(change)}`, () => {
    const text = JSON.stringify({ ...REPORT, ...change });
    assert.throws(() => parseLocal(text), SyntaxError);
  });
}

Deno.test("readLocal() names what fails", async () => {
  const { missing } = await readLocal({
    component: "coil-controller",
    metricsPort: 9,
    socket: "",
  });
  assert.deepEqual(missing.map(({ what }) => what), ["metrics.txt"]);
  assert.match(missing[0]?.why ?? "", /port 9: .*refused/);
});

Deno.test("readLocal() asks a controller for its metrics alone", async () => {
  const options = { component: "coil-controller", metricsPort: 0, socket: "" };
  const { files, missing } = await readLocal(options);
  assert.deepEqual([files, missing], [{}, []]);
});
