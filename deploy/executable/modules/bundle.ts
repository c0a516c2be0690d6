const ROOT = new URL("../../../", import.meta.url).pathname;

/** `deno bundle` failed, or wrote what this file does not understand. */
export class BundleError extends Error {
  override readonly name = "BundleError";
}

/** Bundles main.ts with all it imports into `directory`, one chunk per role and some that they share. */
export async function bundle(directory: string): Promise<void> {
  await bundleProgram("main.ts", directory);
  await settleNames(directory, "main.js");
}

/** Bundles another program as main.ts is bundled, for what is to be compared with it. */
export async function bundleProgram(
  entry: string,
  directory: string,
): Promise<void> {
  await runBundle(entry, directory);
  await delayRequire(directory);
}

async function runBundle(
  entry: string,
  directory: string,
): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--platform=deno",
      "--minify",
      "--code-splitting",
      `--outdir=${directory}`,
      entry,
    ],
    cwd: ROOT,
    stdout: "piped",
    stderr: "piped",
  }).output();
  if (success) return;
  const decoder = new TextDecoder();
  const said = decoder.decode(stdout) + decoder.decode(stderr);
  throw new BundleError(`Cannot bundle "${entry}": deno says\n${said}`);
}

async function rewrite(
  path: string,
  change: (text: string) => string,
): Promise<void> {
  const before = await Deno.readTextFile(path);
  const after = change(before);
  if (after !== before) await Deno.writeTextFile(path, after);
}

/**
 * `deno bundle` puts into the chunk that all others import
 *
 *     import{createRequire as A}from"node:module";var B=A(import.meta.url);
 *
 * for the sake of CommonJS packages. Loading node:module costs every start
 * some 20 ms, needed or not.
 */
const EAGER =
  /import\s*\{\s*createRequire as (\w+)\s*\}\s*from\s*"node:module";\s*(?:var|let|const) (\w+)\s*=\s*\1\(import\.meta\.url\);/g;

/** Makes B a function that loads node:module when it is first called. */
async function delayRequire(directory: string): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    if (!name.endsWith(".js")) continue;
    await rewrite(`${directory}/${name}`, (text) => {
      const lazy = text.replaceAll(
        EAGER,
        (_match, _import, require: string) => lazyRequire(require),
      );
      if (/createRequire as \w*deno_internal/.test(lazy)) {
        throw new BundleError(
          `Cannot delay require() in "${name}": this deno writes it differently`,
        );
      }
      return lazy;
    });
  }
}

function lazyRequire(name: string): string {
  return `var ${name}=(()=>{let r;const f=()=>r??=globalThis.process` +
    `.getBuiltinModule("module").createRequire(import.meta.url);` +
    `return new Proxy(function(){},{apply:(t,s,a)=>f()(...a),` +
    `get:(t,k)=>f()[k]})})();`;
}

/** Another file of the bundle, in an import of a minified one. */
const IMPORTED = /"\.\/([\w-]+\.js)"/g;

/**
 * Numbers the files in the order in which they are imported. The names that
 * `deno bundle` gives hold a hash of paths: from the program's directory to
 * those of the packages, so another clone would give another executable.
 */
async function settleNames(directory: string, entry: string): Promise<void> {
  const texts = await readTexts(directory);
  const names = new Map<string, string>();
  const number = (name: string) => {
    const text = texts.get(name);
    if (text === undefined || names.has(name)) return;
    names.set(name, name === entry ? entry : `${names.size}.js`);
    for (const [, imported] of text.matchAll(IMPORTED)) number(imported ?? "");
  };
  number(entry);
  for (const [name, text] of texts) {
    await Deno.remove(`${directory}/${name}`);
    const settled = names.get(name);
    if (settled === undefined) continue; // nothing imports it
    const imports = text.replaceAll(
      IMPORTED,
      (all, imported: string) =>
        names.has(imported) ? `"./${names.get(imported)}"` : all,
    );
    await Deno.writeTextFile(`${directory}/${settled}`, imports);
  }
}

async function readTexts(directory: string): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for await (const { name } of Deno.readDir(directory)) {
    texts.set(name, await Deno.readTextFile(`${directory}/${name}`));
  }
  return texts;
}
