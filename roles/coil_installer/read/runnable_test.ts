import assert from "node:assert/strict";
import { isRunnable } from "./runnable.ts";

/** Asks about a file with these contents. */
async function ask(contents: Uint8Array | string): Promise<boolean> {
  const path = await Deno.makeTempFile();
  try {
    const bytes = typeof contents === "string"
      ? new TextEncoder().encode(contents)
      : contents;
    await Deno.writeFile(path, bytes);
    return await isRunnable(path);
  } finally {
    await Deno.remove(path);
  }
}

/** An executable of this machine, changed. */
function changed(change: (view: DataView) => void): Uint8Array {
  const bytes = Deno.readFileSync("/bin/true");
  change(new DataView(bytes.buffer));
  return bytes;
}

Deno.test("isRunnable() takes executables of this machine", async () => {
  assert.ok(await isRunnable(Deno.execPath()));
  assert.ok(await ask(changed(() => {})));
});

Deno.test("isRunnable() refuses an executable that is cut anywhere within what is loaded", async () => {
  const whole = changed(() => {});
  const view = new DataView(whole.buffer);
  const table = Number(view.getBigUint64(32, true));
  const headers = Array.from(
    { length: view.getUint16(56, true) },
    (_, i) => table + i * 56,
  ).filter((at) => view.getUint32(at, true) === 1);
  const ends = headers.map((at) =>
    Number(view.getBigUint64(at + 8, true) + view.getBigUint64(at + 32, true))
  );
  const last = Math.max(...ends);
  assert.ok(await ask(whole.subarray(0, last)));
  for (const size of [last - 1, last >> 1, 500, table + 56, 64, 63, 20, 4]) {
    assert.ok(!await ask(whole.subarray(0, size)), `${size} bytes`);
  }
});

for (
  const [what, change] of [
    ["another machine", (view) => view.setUint16(18, 21, true)],
    ["32 bits", (view) => view.setUint8(4, 1)],
    ["the other byte order", (view) => view.setUint8(5, 2)],
    ["the linker only", (view) => view.setUint16(16, 1, true)],
    ["program headers of another size", (view) => view.setUint16(54, 32, true)],
    ["no program headers", (view) => view.setUint16(56, 0, true)],
    [
      "program headers beyond its end",
      (view) => view.setBigUint64(32, 1n << 40n, true),
    ],
    [
      "program headers beyond all files",
      (view) => view.setBigUint64(32, (1n << 64n) - 1n, true),
    ],
    ["nothing to load", (view) => {
      for (let i = 0; i < view.getUint16(56, true); i++) {
        view.setUint32(64 + i * 56, 4, true);
      }
    }],
  ] as readonly (readonly [string, (view: DataView) => void])[]
) {
  Deno.test(`isRunnable() refuses an ELF file with or for ${what}`, async () => {
    assert.ok(!await ask(changed(change)));
  });
}

Deno.test("isRunnable() takes scripts that name an interpreter", async () => {
  for (
    const text of [
      "#!/bin/sh\n",
      "#!/bin/sh",
      "#! \t/usr/bin/env python3\nx",
      `#!/bin/sh ${"x".repeat(300)}\n`,
    ]
  ) {
    assert.ok(await ask(text), JSON.stringify(text));
  }
});

Deno.test("isRunnable() refuses texts that the kernel would not run", async () => {
  const others = ["", "#", "#!", "#!\n/bin/sh\n", "#! \t", "touch x\n"];
  for (const text of [...others, `#!/${"x".repeat(300)}\n`]) {
    assert.ok(!await ask(text), JSON.stringify(text));
  }
});

Deno.test("isRunnable() refuses what is no file, without waiting for it", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const pipe = `${directory}/pipe`;
    const { success } = await new Deno.Command("mkfifo", { args: [pipe] })
      .output();
    assert.ok(success);
    for (const path of [pipe, directory, `${directory}/none`, "/dev/zero"]) {
      assert.ok(!await isRunnable(path), path);
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
