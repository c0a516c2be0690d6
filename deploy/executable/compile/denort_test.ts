import assert from "node:assert/strict";
import { unzip } from "./denort.ts";

async function zip(flags: readonly string[], files: Record<string, string>) {
  const directory = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${directory}/${name}`, text);
    }
    const script = "import sys, zipfile\n" +
      "method = zipfile.ZIP_STORED if sys.argv[1] == 'stored' else zipfile.ZIP_DEFLATED\n" +
      "with zipfile.ZipFile('a.zip', 'w', method) as z:\n" +
      "    for name in sys.argv[2:]: z.write(name)\n";
    const { success } = await new Deno.Command("python3", {
      args: ["-c", script, ...flags, ...Object.keys(files)],
      cwd: directory,
    }).output();
    assert.ok(success);
    return await Deno.readFile(`${directory}/a.zip`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

for (const method of ["stored", "deflated"]) {
  Deno.test(`unzip() finds a file among others, ${method}`, async () => {
    const denort = "denort ".repeat(10_000);
    const archive = await zip([method], { LICENSE: "x", denort, other: "y" });
    const bytes = await unzip(archive, "denort");
    assert.equal(new TextDecoder().decode(bytes), denort);
    await assert.rejects(unzip(archive, "deno"), /does not have it/);
  });
}
