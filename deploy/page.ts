// Bundles the page of `coil ui` for browsers:
//
//   deno task page           writes roles/cli/ui/gen/page.js
//   deno task page --check   says whether it is current
//
// It is kept in the repository, so that sources and executable serve the same.
import { refuseTask } from "../lib/flags/mod.ts";

const ROOT = new URL("../", import.meta.url).pathname;
const PAGE = "roles/cli/ui/gen/page.js";

async function bundlePage(output: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "bundle",
      "--quiet",
      "--platform=browser",
      "--minify",
      `--output=${output}`,
      "roles/cli/page/main.tsx",
    ],
    cwd: ROOT,
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  throw new Error(
    `Cannot bundle the page: deno says\n${new TextDecoder().decode(stderr)}`,
  );
}

async function isCurrent(): Promise<boolean> {
  const fresh = await Deno.makeTempFile({ suffix: ".js" });
  try {
    await bundlePage(fresh);
    const [kept, made] = await Promise.all(
      [`${ROOT}${PAGE}`, fresh].map((path) => Deno.readTextFile(path)),
    );
    return kept === made;
  } finally {
    await Deno.remove(fresh);
  }
}

const [option, ...more] = Deno.args;
if (more.length > 0 || option !== undefined && option !== "--check") {
  refuseTask("page", "It takes no argument but --check");
}
if (option === undefined) await bundlePage(`${ROOT}${PAGE}`);
else if (!await isCurrent()) {
  Deno.stderr.writeSync(
    new TextEncoder().encode(`${PAGE} is not current: run deno task page\n`),
  );
  Deno.exit(1);
}
