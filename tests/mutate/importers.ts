import { run } from "../../deploy/host/mod.ts";

/** A module of `deno info --json`. */
export interface ModuleInfo {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly code?: { readonly specifier?: string };
  }[];
}

/** For each file of the tree, the tests that import it, directly or not. */
export type Importers = ReadonlyMap<string, readonly string[]>;

/** Reads the imports of all these tests in the tree at `root`. */
export async function readImporters(
  root: string,
  tests: readonly string[],
): Promise<Importers> {
  const entry = `${root}/mutate_imports.ts`;
  const lines = tests.map((test) => `import "./${test}";\n`);
  await Deno.writeTextFile(entry, lines.join(""));
  const args = ["info", "--json", entry];
  const { modules } = JSON.parse(
    await run(Deno.execPath(), args, { cwd: root }),
  ) as { readonly modules: readonly ModuleInfo[] };
  return importersOf(modules, { root, tests });
}

/** The same from the modules' graph. */
export function importersOf(
  modules: readonly ModuleInfo[],
  { root, tests }: { readonly root: string; readonly tests: readonly string[] },
): Importers {
  const prefix = `file://${root}/`;
  const imports = new Map(modules.map(({ specifier, dependencies = [] }) => [
    specifier,
    dependencies.flatMap(({ code }) => code?.specifier ?? []),
  ]));
  const importers = new Map<string, string[]>();
  for (const test of tests) {
    const seen = new Set([`${prefix}${test}`]);
    for (const specifier of seen) {
      for (const other of imports.get(specifier) ?? []) seen.add(other);
    }
    for (const specifier of seen) {
      if (!specifier.startsWith(prefix)) continue;
      const file = specifier.slice(prefix.length);
      importers.set(file, [...importers.get(file) ?? [], test]);
    }
  }
  return importers;
}
