// `task image` as a person runs it: that it always makes the same, what its
// options do, and what it refuses.
import assert from "node:assert/strict";
import { SOURCES } from "../../deploy/executable/sources.ts";
import { DEFAULTS } from "../../deploy/image/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { OpenImage } from "./open_image.ts";
import {
  assertFilesOf,
  imageTask,
  ROOT,
  temporaryDirectory,
  theImage,
} from "./testing.ts";

/** A small executable of this machine's processor, for tests in which it does not matter. */
const SMALL = ["--executable=/bin/true", "--compression=none"];

/** What the Dockerfile's build gets. */
async function dockerContext(): Promise<string[]> {
  const text = await Deno.readTextFile(`${ROOT}.dockerignore`);
  const lines = text.split("\n").filter((line) => /^[^#]/.test(line));
  assert.deepEqual([lines[0], lines.at(-1)], ["*", "**/*_test.ts"]);
  return lines.slice(1, -1).map((line) => line.replace(/^!/, ""));
}

async function copy(from: string, to: string): Promise<void> {
  if ((await Deno.stat(from)).isFile) {
    if (!from.endsWith("_test.ts")) await Deno.copyFile(from, to);
    return;
  }
  await Deno.mkdir(to, { recursive: true });
  for await (const { name } of Deno.readDir(from)) {
    await copy(`${from}/${name}`, `${to}/${name}`);
  }
}

Deno.test("task image: another clone, elsewhere, as another kind of user, makes the same bytes", async () => {
  const { image, executable } = await theImage();
  await using elsewhere = await temporaryDirectory();
  const clone = `${elsewhere.path}/some/levels/down`;
  await Deno.mkdir(`${clone}/deploy`, { recursive: true });
  for (const name of await dockerContext()) {
    await copy(`${ROOT}${name}`, `${clone}/${name}`);
  }
  const out = `${clone}/image.tar`;
  const { code, stderr, stdout } = await imageTask(
    [`--executable=${executable}`, `--out=${out}`],
    {
      root: clone,
      cache: `${clone}/cache`,
      env: { TZ: "Asia/Tokyo", LC_ALL: "C" },
      before: "umask 077",
    },
  );
  assert.equal(code, 0, stderr);
  assert.ok(stdout.endsWith(`${image.reference}@${image.digest}\n`), stdout);
  const [one, other] = await Promise.all(
    [image.path, out].map((path) => Deno.readFile(path)),
  );
  assert.ok(one && other && one.length === other.length);
  assert.ok(one.every((byte, i) => byte === other[i]), "bytes differ");
});

Deno.test("Dockerfile: its context has all that the executable is made of", async () => {
  const context = await dockerContext();
  const missing = SOURCES.filter((source) => !context.includes(source));
  assert.deepEqual(missing, []);
});

Deno.test("Dockerfile: it says the same as the image that is made without it", async () => {
  const text = (await Deno.readTextFile(`${ROOT}Dockerfile`))
    .replaceAll("\\\n", "").split("\n").filter((line) => /^[A-Z]/.test(line));
  const last = text.slice(text.findLastIndex((line) => /^FROM/.test(line)));
  const value = (instruction: string): string =>
    last.find((line) => line.startsWith(`${instruction} `))
      ?.slice(instruction.length + 1) ?? "";
  assert.deepEqual(last.slice(0, 2), [
    "FROM scratch",
    "COPY --from=build /rootfs/ /",
  ]);
  assert.deepEqual([value("ENV")], DEFAULTS.env);
  assert.equal(value("USER"), DEFAULTS.user);
  const { open } = await theImage();
  assert.equal(value("WORKDIR"), open.config.config.WorkingDir);
  assert.deepEqual(JSON.parse(value("CMD")), DEFAULTS.command);
  const labels = value("LABEL").matchAll(/(\S+)="([^"]*)"/g);
  assert.deepEqual(
    Object.fromEntries([...labels].map(([, key, text]) => [key, text])),
    DEFAULTS.labels,
  );
  const pinned = text.filter((line) => /^FROM (?!scratch)/.test(line));
  assert.deepEqual(pinned, ["FROM ${BUILD_IMAGE} AS build"]);
});

Deno.test("task image --rootfs: the files for the Dockerfile are the image's", async () => {
  const { open, executable } = await theImage();
  await using directory = await temporaryDirectory();
  const rootfs = `${directory.path}/rootfs`;
  const { code, stderr } = await imageTask(
    [`--executable=${executable}`, `--rootfs=${rootfs}`],
    { before: "umask 077" },
  );
  assert.equal(code, 0, stderr);
  await assertFilesOf(open, rootfs);
  const again = await imageTask([...SMALL, `--rootfs=${rootfs}`]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /is in there already/);
});

Deno.test("task image: name, labels, time and compression are as asked for", async () => {
  await using directory = await temporaryDirectory();
  const make = async (args: readonly string[], epoch: string) => {
    const out = `${directory.path}/new/image.tar`;
    const { code, stderr } = await imageTask([...args, `--out=${out}`], {
      env: { SOURCE_DATE_EPOCH: epoch },
    });
    assert.equal(code, 0, stderr);
    return await OpenImage.read(out);
  };
  const small = await make([
    ...SMALL,
    "--ref=localhost:5000/me/coil:x",
    "--label=org.opencontainers.image.revision=a=b",
    "--label=org.opencontainers.image.title=Mine",
  ], "1700000000");
  assert.equal(
    small.descriptor.annotations?.["io.containerd.image.name"],
    "localhost:5000/me/coil:x",
  );
  assert.equal(small.config.created, "2023-11-14T22:13:20Z");
  const { Labels } = small.config.config;
  assert.equal(Labels["org.opencontainers.image.revision"], "a=b");
  assert.equal(Labels["org.opencontainers.image.title"], "Mine");
  assert.ok(Labels["org.opencontainers.image.version"]);
  const zipped = await make(["--executable=/bin/true"], "1700000000");
  assert.deepEqual(zipped.config.rootfs, small.config.rootfs);
  assert.deepEqual(
    [small, zipped].map(({ manifest: { layers: [layer] } }) =>
      layer?.mediaType.split(".").at(-1)
    ),
    ["tar", "tar+gzip"],
  );
  const later = await make(SMALL, "1700000001");
  assert.notDeepEqual(later.config.rootfs, small.config.rootfs);
});

/** The arguments of `task image` in a command of the document, as a shell has them. */
async function argumentsIn(command: string): Promise<string[]> {
  const task = `npx --yes deno@${Deno.version.deno} task image`;
  assert.ok(`${command} `.startsWith(`${task} `), command);
  const { tasks } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`));
  assert.equal(tasks.image, "deno run -A deploy/image/image.ts");
  const print = `printf '%s\\n' x ${command.slice(task.length)}`;
  const { stdout } = await new Deno.Command("bash", {
    args: ["-euc", print],
    cwd: ROOT,
  }).output();
  return new TextDecoder().decode(stdout).split("\n").slice(1, -1);
}

Deno.test("task image: the document's commands make what they name", async () => {
  const blocks = await testedCommands("docs/image.md", import.meta.url);
  const [plain = "", named = "", ...more] = blocks.flat();
  assert.deepEqual(more, []);
  await using directory = await temporaryDirectory();
  const make = async (command: string, file: string) => {
    const args = [...SMALL, ...await argumentsIn(command)];
    const before = `cd "${directory.path}"`;
    const { code, stdout, stderr } = await imageTask(args, { before });
    assert.equal(code, 0, stderr);
    const { reference } = (await theImage()).image;
    const open = await OpenImage.read(`${directory.path}/${file}`);
    const name = open.descriptor.annotations?.["io.containerd.image.name"];
    return { stdout, name, reference, labels: open.config.config.Labels };
  };
  const usual = await make(plain, "dist/coil-image.tar");
  assert.match(usual.stdout, /^dist\/coil-image\.tar$/m);
  assert.equal(usual.name, usual.reference);
  const chosen = await make(named, "coil.tar");
  assert.equal(chosen.name, "registry.example.com/net/coil:0.1.0");
  const revision = chosen.labels["org.opencontainers.image.revision"] ?? "";
  assert.match(revision, /^[0-9a-f]{40}$/);
});
