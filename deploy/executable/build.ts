// deno task build [--out FILE] [--packer]
import { parseArgs } from "node:util";
import { refuseTask } from "../../lib/flags/mod.ts";
import { buildExecutable } from "./mod.ts";

const USAGE = `usage: deno task build [--out FILE] [--packer]

Builds the one executable of all roles.

  --out FILE  where to put it (default: coil)
  --packer    pack it, even where deno compile would work
  --help      this text

DENORT_BIN  the runtime for deno compile, where it cannot be downloaded
CC          the C compiler for front and packer (default: gcc, clang)
COIL_CACHE  where builds are kept (default: ~/.cache/coil)
`;

const say = (text: string) =>
  Deno.stdout.writeSync(new TextEncoder().encode(text));

function options() {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: {
        out: { type: "string", default: "coil" },
        packer: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    return values;
  } catch (error) {
    refuseTask("build", error);
  }
}

const { out, packer, help } = options();
if (help) {
  say(USAGE);
  Deno.exit(0);
}
const built = await buildExecutable({
  packer,
  log: (text) => say(`${text}\n`),
});
// Never into a file that may be running.
await Deno.copyFile(built, `${out}.tmp`);
await Deno.rename(`${out}.tmp`, out);
say(`${out}\n`);
