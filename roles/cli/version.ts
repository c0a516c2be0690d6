import { type Command, defineCommand } from "../../lib/command/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";

/** `coil version`: which release this is, and how the file was made. */
export const VERSION_COMMAND: Command = defineCommand({
  path: "version",
  about: "Show the version and how this file was built",
  details: "Shows the version and how this file was built.",
  flags: {},
  run: async ({ program, terminal }) =>
    terminal.out(
      `${program} version ${VERSION}\n${buildKind()}, deno ${Deno.version.deno}\n`,
    ),
});

/** A file made without denort says so, since it is another runtime. */
function buildKind(): string {
  if (Deno.build.standalone) return "built by deno compile";
  return Deno.env.get("COIL_ARGV0") === undefined
    ? "run from source"
    : "packed with the deno command line program (not deno compile)";
}
