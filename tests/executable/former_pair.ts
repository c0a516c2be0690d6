// The plugin as former versions installed it: a launcher, and the executable
// beside it that it calls.
import assert from "node:assert/strict";

/** Reads its input, then calls the executable: as where coild did not answer. */
const LAUNCHER = `
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char path[4096], byte;
  long n = readlink("/proc/self/exe", path, sizeof path - 20);
  path[n] = 0;
  strcpy(strrchr(path, '/'), "/coil-executable");
  while (read(0, &byte, 1) > 0) {}
  return argc + execv(path, argv);
}`;

/** Answers VERSION. */
const EXECUTABLE = `
#include <unistd.h>
static const char text[] = "{\\"cniVersion\\":\\"1.0.0\\",\\"supportedVersions\\":[\\"0.4.0\\",\\"1.0.0\\"]}\\n";
int main(void) { return write(1, text, sizeof text - 1) < 0; }`;

/** The two, compiled. */
export interface FormerPair {
  readonly launcher: Uint8Array;
  readonly executable: Uint8Array;
}

/** Compiles them. */
export async function formerPair(): Promise<FormerPair> {
  const directory = await Deno.makeTempDir();
  try {
    return {
      launcher: await compile(LAUNCHER, directory),
      executable: await compile(EXECUTABLE, directory),
    };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function compile(code: string, directory: string): Promise<Uint8Array> {
  await Deno.writeTextFile(`${directory}/main.c`, code);
  const { success } = await new Deno.Command("gcc", {
    args: ["-O1", "-o", "program", "main.c"],
    cwd: directory,
  }).output();
  assert.ok(success, "gcc failed");
  return await Deno.readFile(`${directory}/program`);
}

/** Puts them into a directory of plugins as a former version did: the executable first. */
export async function placePair(
  directory: string,
  { launcher, executable }: FormerPair,
): Promise<void> {
  const files = [["coil-executable", executable], ["coil", launcher]] as const;
  for (const [name, bytes] of files) {
    const temporary = `${directory}/.former-${name}`;
    await Deno.writeFile(temporary, bytes, { mode: 0o755 });
    await Deno.rename(temporary, `${directory}/${name}`);
  }
}
