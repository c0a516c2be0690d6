// What coil-installer puts on a node, for labs with many nodes: a small program
// with the front of the executable. Where the front goes on as the whole
// program, this one executes it where it is, so that no node needs 100 MB.
import * as path from "node:path";
import { addFront, compileFront } from "../../deploy/executable/elf/front.ts";
import {
  findSocketField,
  socketField,
} from "../../roles/coil_installer/base/front.ts";
import { findExecutable } from "../../roles/coil_installer/read/executable.ts";
import { placeProgram } from "./program_file.ts";

const MARKER = "COIL_WHOLE_PROGRAM";

const CODE = `
#include <unistd.h>
static volatile const char PROGRAM[4096] = "${MARKER}";
int main(int argc, char **argv, char **envp) {
  execve((const char *)PROGRAM, argv, envp);
  return argc ? 127 : 126;
}`;

/** Compiled once; the same for all nodes but for two paths. By how long the front waits for coild. */
const templates = new Map<number | undefined, Promise<Template>>();

interface Template {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly programAt: number;
  readonly socketAt: number;
}

/** Fills a directory of CNI plugins for the coild at a socket; returns the path of `coil`. */
export async function placePlugin(
  directory: string,
  options: {
    readonly executable: string;
    readonly socket: string;
    /** How long the front waits for coild, in seconds. Default as it is built for nodes. */
    readonly patienceS?: number;
  },
): Promise<string> {
  const { patienceS } = options;
  const template = templates.get(patienceS) ?? makeTemplate({ patienceS });
  templates.set(patienceS, template);
  const { bytes, programAt, socketAt } = await template;
  const plugin = path.join(directory, "coil");
  const made = bytes.slice();
  made.set(new TextEncoder().encode(`${options.executable}\0`), programAt);
  made.set(socketField(options.socket), socketAt);
  await Deno.mkdir(directory, { recursive: true });
  await placeProgram(plugin, (file) => Deno.writeFile(file, made));
  return plugin;
}

/** As `placePlugin()`, but the executable itself, as coil-installer copies it. */
export async function copyPlugin(
  directory: string,
  { executable, socket }: {
    readonly executable: string;
    readonly socket: string;
  },
): Promise<string> {
  const { program, hasFront } = await findExecutable(executable, { socket });
  if (!hasFront) throw new Error("Cannot go on: the executable has no front");
  await Deno.mkdir(directory, { recursive: true });
  const plugin = path.join(directory, "coil");
  await placeProgram(plugin, async (made) => {
    using file = await Deno.open(made, { write: true, createNew: true });
    for await (const chunk of program.chunks()) {
      for (let rest = chunk; rest.length > 0;) {
        rest = rest.subarray(await file.write(rest));
      }
    }
  });
  return plugin;
}

async function makeTemplate(
  { patienceS }: { readonly patienceS?: number | undefined },
): Promise<Template> {
  const front = await compileFront(
    patienceS === undefined ? {} : { patienceS },
  );
  if (front === undefined) throw new Error("Cannot go on: no C compiler");
  const directory = await Deno.makeTempDir();
  try {
    const output = `${directory}/coil`;
    await Deno.writeTextFile(`${directory}/main.c`, CODE);
    const { success, stderr } = await new Deno.Command(
      Deno.env.get("CC") || "gcc",
      {
        args: ["-Os", "-s", "-fPIE", "-pie", "-o", output, "main.c"],
        cwd: directory,
      },
    ).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    const bytes = addFront(await Deno.readFile(output), front);
    await Deno.writeFile(output, bytes);
    using file = await Deno.open(output);
    const socketAt = await findSocketField(file);
    const programAt = new TextDecoder("latin1").decode(bytes).indexOf(MARKER);
    if (socketAt === undefined || programAt < 0) {
      throw new Error("Cannot find the places for paths in the program");
    }
    return { bytes, programAt, socketAt };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
