const ROOT = new URL("../../", import.meta.url).pathname;

/** `deno bundle` failed, or wrote what this file does not understand. */
export class BundleError extends Error {
  override readonly name = "BundleError";
}

/** Bundles main.ts with all it imports into `directory`, one chunk per role. */
export async function bundle(directory: string): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--platform=deno",
      "--code-splitting",
      "--minify",
      `--outdir=${directory}`,
      "main.ts",
    ],
    cwd: ROOT,
    stdout: "piped",
    stderr: "piped",
  }).output();
  if (!success) {
    const decoder = new TextDecoder();
    throw new BundleError(
      `Cannot bundle main.ts: deno says\n${decoder.decode(stdout)}${
        decoder.decode(stderr)
      }`,
    );
  }
  await delayRequire(directory);
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
    const path = `${directory}/${name}`;
    const before = await Deno.readTextFile(path);
    const after = before.replaceAll(
      EAGER,
      (_match, _import, require: string) => lazyRequire(require),
    );
    if (/createRequire as \w*deno_internal/.test(after)) {
      throw new BundleError(
        `Cannot delay require() in "${name}": this deno writes it differently`,
      );
    }
    if (after !== before) await Deno.writeTextFile(path, after);
  }
}

function lazyRequire(name: string): string {
  return `var ${name}=(()=>{let r;const f=()=>r??=globalThis.process` +
    `.getBuiltinModule("module").createRequire(import.meta.url);` +
    `return new Proxy(function(){},{apply:(t,s,a)=>f()(...a),` +
    `get:(t,k)=>f()[k]})})();`;
}
