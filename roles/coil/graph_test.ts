// The plugin starts for every pod: what it loads is kept small.
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url).href;
const ALLOWED = [
  "lib/cni/",
  "lib/cnirpc/launcher/",
  "lib/names/",
  "lib/plugin/",
  "roles/coil/",
];

async function loadedModules(): Promise<string[]> {
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", new URL("./mod.ts", import.meta.url).pathname],
    stderr: "null",
  }).output();
  assert.ok(success, "deno info failed");
  const { modules } = JSON.parse(new TextDecoder().decode(stdout));
  return modules.map((module: { specifier: string }) => module.specifier);
}

Deno.test("the plugin loads no package, no node: module, no server", async () => {
  const modules = await loadedModules();
  const files = modules.map((specifier) => specifier.replace(ROOT, ""));
  const strangers = files.filter((file) =>
    !ALLOWED.some((folder) => file.startsWith(folder))
  );
  assert.deepEqual(strangers, []);
  assert.ok(files.length < 50, `${files.length} modules`);
});
