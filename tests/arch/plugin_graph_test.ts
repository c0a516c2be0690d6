// Plugins start for every pod: what they load is kept small.
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url).href;

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly isDynamic?: boolean;
    readonly code?: { readonly specifier: string };
  }[];
}

/** What is loaded with a role; what it may import later, and types, are not. */
async function loadedModules(role: string): Promise<string[]> {
  const entry = new URL(`roles/${role}/mod.ts`, ROOT);
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
  return [...loaded].map((specifier) => specifier.replace(ROOT, ""));
}

for (
  const [role, allowed, [least, most]] of [
    [
      "coil",
      /^(roles\/coil|lib\/(cni|cnirpc\/plugin|errors|json|names|plugin))\//,
      [20, 50],
    ],
    // It does the work itself.
    [
      "coordinator",
      /^(roles\/coordinator|lib\/(async|bytes|cni|coordinator|errors|inet|json|linux|names|netlink|plugin|podnet|probe|telemetry\/base))\//,
      [150, 200],
    ],
  ] as const
) {
  Deno.test(`the plugin ${role} loads no package, no node: module, no server`, async () => {
    const files = await loadedModules(role);
    assert.deepEqual(files.filter((file) => !allowed.test(file)), []);
    const { length } = files;
    assert.ok(length > least && length < most, `${length} modules`);
  });
}
