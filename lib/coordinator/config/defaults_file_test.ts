import assert from "node:assert/strict";
import { readDefaults, sharedIn, writeDefaults } from "./defaults_file.ts";

const TEXT = '{"format":1,"config":{"serviceCIDR":["10.96.0.0/12"]}}\n';

async function withFile(
  text: string,
  work: (path: string) => Promise<void> | void,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const path = `${directory}/coordinator.json`;
    await Deno.writeTextFile(path, text, { mode: 0o600 });
    await work(path);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}

function services(path: string): string[] | undefined {
  return sharedIn(path).given.serviceCidrs?.map(String);
}

Deno.test("readDefaults() reads what coild has written", async () => {
  await withFile(TEXT, async (path) => {
    assert.deepEqual(services(path), ["10.96.0.0/12"]);
    assert.equal(readDefaults(path).problem, undefined);
    // That others may read it harms nothing.
    await Deno.chmod(path, 0o644);
    assert.deepEqual(services(path), ["10.96.0.0/12"]);
  });
});

Deno.test("readDefaults() says that there is no file", () => {
  const { given, problem } = sharedIn("/nonexistent/coordinator.json");
  assert.equal(given.serviceCidrs, undefined);
  assert.equal(problem?.message, "coordinator config not found");
});

const UNUSABLE: readonly (readonly [string, string, RegExp])[] = [
  ["cut off", TEXT.slice(0, 30), /JSON/],
  ["empty", "", /JSON/],
  ["no object", "[]", /must be an object/],
  ["of a later form", TEXT.replace("1", "7"), /format is 7/],
  ["with a bad value", TEXT.replace("/12", "/99"), /invalid CIDR address/],
];

for (const [what, text, reason] of UNUSABLE) {
  Deno.test(`readDefaults() says why a file cannot be used: ${what}`, async () => {
    await withFile(text, (path) => {
      assert.equal(services(path), undefined);
      const { message, details = "" } = readDefaults(path).problem ?? {};
      assert.equal(message, "coordinator config not found");
      assert.match(details, reason);
      assert.ok(details.includes(path), details);
      assert.match(details, /; delete it, coild writes it again$/);
    });
  });
}

Deno.test("readDefaults() takes nothing from a file that others can write, nor through a link", async () => {
  await withFile(TEXT, async (path) => {
    await Deno.symlink(path, `${path}.link`);
    assert.equal(services(`${path}.link`), undefined);
    for (const mode of [0o620, 0o602]) {
      await Deno.chmod(path, mode);
      assert.equal(services(path), undefined);
      assert.match(
        readDefaults(path).problem?.details ?? "",
        /others cannot write/,
      );
    }
  });
});

Deno.test("writeDefaults() writes for the user alone, and only what is not there", async () => {
  await withFile("{", async (path) => {
    const document = { config: { serviceCIDR: ["10.96.0.0/12"] } };
    // Of a process that was killed.
    await Deno.writeTextFile(`${path}.new`, "{", { mode: 0o666 });
    assert.equal(await writeDefaults(path, document), true);
    assert.deepEqual(readDefaults(path), document);
    assert.equal(await modeOf(path), 0o600);
    assert.equal(await writeDefaults(path, document), false);
    for (const mode of [0o666, 0o644, 0o400]) {
      await Deno.chmod(path, mode);
      assert.equal(await writeDefaults(path, document), true);
      assert.equal(await modeOf(path), 0o600);
    }
    await Deno.remove(path);
    assert.equal(await writeDefaults(path, { config: {} }), true);
    await assert.rejects(Deno.lstat(`${path}.new`), Deno.errors.NotFound);
  });
});
