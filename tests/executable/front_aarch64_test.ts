// The front on aarch64, by qemu's emulation of its processor.
import assert from "node:assert/strict";
import { compileFlat } from "../../deploy/executable/elf/flat.ts";
import { addFront } from "../../deploy/executable/elf/front.ts";
import { answerOf, CALL } from "./one_file.ts";
import { type Output, runFile } from "./testing.ts";

const FRONT = new URL(
  "../../deploy/executable/elf/front.c",
  import.meta.url,
).pathname;

/** In the whole program's place: it counts its stdin, with buffers that libc allocates. */
const PROGRAM = `
#include <stdio.h>
int main(int argc, char **argv) {
  int bytes = 0;
  while (getchar() != EOF) bytes++;
  printf("program %d %s %d\\n", argc, argv[argc - 1], bytes);
  return 7;
}`;

class Site implements AsyncDisposable {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async make(): Promise<Site> {
    const site = new Site(await Deno.makeTempDir());
    const { directory } = site;
    await Deno.writeTextFile(`${directory}/main.c`, PROGRAM);
    const { success } = await new Deno.Command("aarch64-linux-gnu-gcc", {
      args: ["-fPIE", "-pie", "-o", "coil", "main.c"],
      cwd: directory,
    }).output();
    assert.ok(success, "gcc failed");
    const bytes = addFront(
      await Deno.readFile(`${directory}/coil`),
      await compileFlat(FRONT, { compiler: "aarch64-linux-gnu-gcc" }),
    );
    const front = new TextDecoder("latin1").decode(bytes).indexOf("COILFRT1");
    bytes.set(new TextEncoder().encode(`${directory}/coild.sock`), front + 80);
    await Deno.writeFile(`${directory}/coil`, bytes);
    return site;
  }

  async call(args: readonly string[] = []): Promise<Output> {
    return await runFile("qemu-aarch64-static", {
      args: ["-L", "/usr/aarch64-linux-gnu", `${this.directory}/coil`, ...args],
      env: CALL,
      stdin: "x".repeat(20_000),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.directory, { recursive: true });
  }
}

Deno.test("aarch64: the front prints coild's answer", async () => {
  await using site = await Site.make();
  using listener = Deno.listen({
    transport: "unix",
    path: `${site.directory}/coild.sock.cni`,
  });
  const served = (async () => {
    using connection = await listener.accept();
    const bytes = new Uint8Array(65_536);
    for (let length = 0; length < 20_000;) {
      length += await connection.read(bytes) ?? assert.fail("it left");
    }
    await connection.write(answerOf("from coild"));
  })();
  const { code, stdout } = await site.call();
  await served;
  assert.deepEqual([code, stdout], [0, "from coild"]);
});

Deno.test("aarch64: the front goes on as the whole program, with arguments and stdin", async () => {
  await using site = await Site.make();
  const alone = await site.call();
  assert.equal(alone.code, 7, alone.stderr);
  assert.match(alone.stdout, /^program 1 .*\/coil 20000\n$/);
  const { stdout } = await site.call(["version"]);
  assert.equal(stdout, "program 2 version 20000\n");
});

Deno.test("aarch64: without ld.so the front says so", async () => {
  await using site = await Site.make();
  const { code, stdout } = await runFile("qemu-aarch64-static", {
    args: ["-L", "/nowhere", `${site.directory}/coil`],
    env: CALL,
  });
  assert.equal(code, 1);
  assert.match(
    JSON.parse(stdout).details,
    /^error 2 of \/lib\/ld-linux-aarch64\.so\.1; cannot reach coild: error 2 of /,
  );
});
