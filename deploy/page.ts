// deno task page [--check]
import { parseArgs } from "node:util";
import { printAll, refuseTask } from "../lib/flags/mod.ts";

const USAGE = `usage: deno task page [--check]

Bundles the page of coil ui for browsers into roles/cli/ui/gen/page.js, which is
kept in the repository: sources and executable serve the same.

  --check  only say whether it is current
  --help   this text
`;

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

function options() {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: {
        check: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    return values;
  } catch (error) {
    refuseTask("page", error);
  }
}

const { check, help } = options();
if (help) printAll(Deno.stdout, USAGE);
else if (!check) await bundlePage(`${ROOT}${PAGE}`);
else if (!await isCurrent()) {
  printAll(Deno.stderr, `${PAGE} is not current: run deno task page\n`);
  Deno.exit(1);
}
