import { codeOf } from "../../../lib/errors/mod.ts";
import { isAllThere, programHeadersOf, readAt } from "../base/machine.ts";

/** The kernel looks at so many bytes to know how to run a file: BINPRM_BUF_SIZE of linux/binfmts.h. */
const START_BYTES = 256;

/** `#!`, and an interpreter that ends within those bytes: `load_script()` of fs/binfmt_script.c. */
const SCRIPT = /^#![ \t]*[^ \t\n\0][^ \t\n\0]*[ \t\n\0]/;

/**
 * Whether the kernel itself would run a file here: a script that names its
 * interpreter, or a whole ELF file for this machine. Anything else must not be
 * executed: execvp(3) has `/bin/sh` interpret what the kernel does not take
 * (ENOEXEC), and the remains of a damaged executable may mean anything to it.
 *
 * False also for a file that is not there or cannot be read.
 */
export async function isRunnable(path: string): Promise<boolean> {
  try {
    // To open a pipe may take for ever.
    const { isFile, size } = await Deno.stat(path);
    if (!isFile) return false;
    using file = await Deno.open(path);
    const start = await readAt(file, { offset: 0, sizeBytes: START_BYTES });
    // Behind the end of the file the kernel sees NULs.
    if (SCRIPT.test(textOf(start).padEnd(START_BYTES, "\0"))) return true;
    const table = programHeadersOf(start);
    if (table === undefined || table.offset > size) return false;
    const headers = await readAt(file, table);
    return headers.length === table.sizeBytes && isAllThere(headers, size);
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    return false;
  }
}

/** One letter for each byte, of any value. */
function textOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
