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

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly isDynamic?: boolean;
    readonly code?: { readonly specifier: string };
  }[];
}

/** What is loaded with it; what it may import later is not. */
async function loadedModules(): Promise<string[]> {
  const entry = new URL("./mod.ts", import.meta.url);
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entry.pathname],
    stderr: "null",
  }).output();
  assert.ok(success, "deno info failed");
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
    modules: readonly Module[];
  };
  const loaded = new Set([entry.href]);
  // A set's iteration has what is added in it.
  for (const specifier of loaded) {
    const module = modules.find((found) => found.specifier === specifier);
    for (const { isDynamic, code } of module?.dependencies ?? []) {
      if (!isDynamic && code !== undefined) loaded.add(code.specifier);
    }
  }
  return [...loaded];
}

Deno.test("the plugin loads no package, no node: module, no server", async () => {
  const modules = await loadedModules();
  const files = modules.map((specifier) => specifier.replace(ROOT, ""));
  const strangers = files.filter((file) =>
    !ALLOWED.some((folder) => file.startsWith(folder))
  );
  assert.deepEqual(strangers, []);
  assert.ok(files.length > 20 && files.length < 50, `${files.length} modules`);
});
