// kubectl explain shows which conditions an object may have: their names are in its CRD.
import assert from "node:assert/strict";
import { parse } from "yaml";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** A constant for a condition, with the kind of its object in the comment. */
const CONSTANT =
  /\/\*\* Condition of an? (\w+)[^\n]* \*\/\n(?:export )?const \w+ = "(\w+)";/g;

/** The description of the conditions of each kind. */
async function descriptions(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const { name } of Deno.readDir(`${ROOT}crds`)) {
    if (!name.endsWith(".yaml")) continue;
    const { spec } = parse(await Deno.readTextFile(`${ROOT}crds/${name}`));
    const { status } = spec.versions[0].schema.openAPIV3Schema.properties;
    const { description = "" } = status?.properties?.conditions ?? {};
    found.set(spec.names.kind, description);
  }
  return found;
}

Deno.test("crds: the conditions' description has each condition that lib/api names", async () => {
  const known = await descriptions();
  const missing: string[] = [];
  let count = 0;
  for await (const path of sources("lib/api")) {
    const text = await Deno.readTextFile(ROOT + path);
    for (const [, kind = "", condition = ""] of text.matchAll(CONSTANT)) {
      count++;
      const names = new RegExp(`\\b${condition}[:,]`);
      if (!names.test(known.get(kind) ?? "")) {
        missing.push(`${kind}: ${condition}`);
      }
    }
  }
  assert.ok(count >= 15, `only ${count} conditions were found`);
  assert.deepEqual(missing, []);
});
