import assert from "node:assert/strict";
import { ROOT } from "../arch/ranks.ts";
import { sources } from "../arch/sources.ts";
import { figure } from "./figures.ts";
import { missingNames, REQUIRED_NAMES, WITH_PODS } from "./names.ts";

Deno.test("missingNames() names what a whole run has lost, and nothing else", () => {
  const all = REQUIRED_NAMES.map((name) => figure(name, "ms", [1]));
  assert.deepEqual(missingNames(all), []);
  const lost = all.filter(({ name }) => name !== "plugin.rpc");
  assert.deepEqual(missingNames(lost), ["plugin.rpc was not measured"]);
});

/** What stands for parts of names where figures are made. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  label: ["ipv4", "dual"],
  "method.toLowerCase()": ["add", "del"],
  name: ["wave110", "none", "now"],
  role: WITH_PODS,
  suffix: ["", ".crowded", ".go"],
};

/** The names that a template stands for; none when nobody knows its parts. */
function expanded(template: string): string[] {
  const [whole, part = ""] = /\$\{([^}]*)\}/.exec(template) ?? [];
  if (whole === undefined) return [template];
  return (PARTS[part] ?? []).flatMap((value) =>
    expanded(template.replace(whole, value))
  );
}

Deno.test("the bench makes a figure of each required name", async () => {
  const texts = await Array.fromAsync(
    sources("tests/bench"),
    (path) => path.endsWith("/names.ts") ? "" : Deno.readTextFile(ROOT + path),
  );
  const code = texts.join("\n");
  const made = code.matchAll(/\b(?:figure|rss)\(\s*(["`])([^"`]+)\1/g)
    .flatMap(([, , name = ""]) => expanded(name));
  const names = new Set(made);
  for (const name of REQUIRED_NAMES) assert.ok(names.has(name), name);
});
