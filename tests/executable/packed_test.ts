// The packer's stub: where it unpacks, what it trusts, what survives.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { pack } from "../../deploy/executable/packer/pack.ts";
import { SOURCES } from "../../deploy/executable/sources.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Nobody's: the stub sees an ordinary user. */
const USER = 54321;

/** One build for all, since sources may change in the meantime. */
let built: Promise<string> | undefined;

function packed(): Promise<string> {
  return built ??= buildExecutable({ packer: true });
}

/** An executable, and a directory that the user may write to. */
class Place implements AsyncDisposable {
  readonly executable: string;
  readonly tmpdir: string;
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.executable = `${directory}/coil`;
    this.tmpdir = `${directory}/tmp`;
  }

  static async make(): Promise<Place> {
    const directory = await Deno.makeTempDir();
    const place = new Place(directory);
    await Deno.chmod(directory, 0o755);
    // The cache may be where the user cannot go.
    await Deno.copyFile(await packed(), place.executable);
    await Deno.mkdir(place.tmpdir);
    await Deno.chmod(place.tmpdir, 0o1777);
    return place;
  }

  /** Where the user's modules are unpacked. */
  get unpacked(): string {
    return `${this.tmpdir}/coil-modules-${USER}`;
  }

  /** Directory of one version of the modules. */
  async version(): Promise<string> {
    for await (const { name } of Deno.readDir(this.unpacked)) {
      return `${this.unpacked}/${name}`;
    }
    throw new Error("nothing unpacked");
  }

  /** Runs `coil version` as the user; stdout, or what went wrong. */
  async run(
    env: Record<string, string> = {},
    args: readonly string[] = [this.executable, "version"],
  ): Promise<string> {
    const { code, stdout, stderr } = await new Deno.Command("setpriv", {
      args: [`--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", ...args],
      env: { PATH: "/usr/bin:/bin", TMPDIR: this.tmpdir, ...env },
      clearEnv: true,
    }).output();
    const decoder = new TextDecoder();
    return code === 0
      ? decoder.decode(stdout)
      : `${code} ${decoder.decode(stderr)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#directory, { recursive: true });
    // Where the stub goes when TMPDIR is not to be trusted.
    await Deno.remove(`/tmp/coil-modules-${USER}`, { recursive: true })
      .catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
  }
}

const WORKS = /^coil version /;

async function modeOf(path: string): Promise<number> {
  return ((await Deno.lstat(path)).mode ?? 0) & 0o777;
}

Deno.test("a packed file unpacks where only its user may go", async () => {
  await using place = await Place.make();
  assert.match(await place.run(), WORKS);
  assert.equal(await modeOf(place.unpacked), 0o700);
  assert.equal(await modeOf(await place.version()), 0o700);
  assert.equal(await modeOf(`${await place.version()}/js/main.js`), 0o600);
});

Deno.test("a packed file keeps the name it was called by", async () => {
  await using place = await Place.make();
  const script = `exec -a some/coild "${place.executable}" --version`;
  assert.match(
    await place.run({}, ["bash", "-c", script]),
    /^coild version /,
  );
});

Deno.test("a packed file runs `coil ipam` with V8 flags, and so a code cache, of its own", async () => {
  await using place = await Place.make();
  const caches = async () =>
    (await namesIn(await place.version())).filter((name) => name !== "js");
  assert.match(await place.run(), WORKS);
  assert.deepEqual(await caches(), ["deno"]);
  const args = [place.executable, "ipam", "check", "--help"];
  assert.match(await place.run({}, args), /^Compares pods/);
  assert.deepEqual((await caches()).sort(), ["deno", "ipam"]);
});

Deno.test("a packed file is not configured as deno would be", async () => {
  await using place = await Place.make();
  const env = {
    DENO_DIR: "/nowhere",
    DENO_V8_FLAGS: "--nonsense",
    COMPLETE: "bash",
  };
  assert.match(await place.run(env), WORKS);
});

Deno.test("thirty first starts at once unpack once, and all work", async () => {
  await using place = await Place.make();
  const outputs = await Promise.all(
    Array.from({ length: 30 }, () => place.run()),
  );
  for (const output of outputs) assert.match(output, WORKS);
  for await (const { name } of Deno.readDir(`${await place.version()}/js`)) {
    assert.ok(!name.startsWith(".new"), name);
  }
});

Deno.test("missing and cut files come back", async () => {
  await using place = await Place.make();
  assert.match(await place.run(), WORKS);
  const modules = `${await place.version()}/js`;
  const names = await namesIn(modules);
  const chunk = names.find((name) => /^\d+\.js$/.test(name)) ?? "";
  await Deno.remove(`${modules}/${chunk}`);
  await Deno.truncate(`${modules}/main.js`, 10);
  assert.match(await place.run(), WORKS);
  assert.deepEqual((await namesIn(modules)).sort(), names.sort());
  assert.ok((await Deno.stat(`${modules}/main.js`)).size > 10);
});

Deno.test("a directory that others may write to is not used", async () => {
  await using place = await Place.make();
  await Deno.mkdir(place.unpacked);
  await Deno.chown(place.unpacked, USER, USER);
  await Deno.chmod(place.unpacked, 0o770);
  assert.match(await place.run(), WORKS);
  assert.deepEqual(await namesIn(place.unpacked), []);
});

Deno.test("a directory of somebody else is not used", async () => {
  await using place = await Place.make();
  await Deno.mkdir(place.unpacked);
  await Deno.chmod(place.unpacked, 0o755);
  assert.match(await place.run(), WORKS);
  assert.deepEqual(await namesIn(place.unpacked), []);
});

Deno.test("a symbolic link is not followed", async () => {
  await using place = await Place.make();
  const target = `${place.tmpdir}/target`;
  await Deno.mkdir(target);
  await Deno.chown(target, USER, USER);
  await Deno.chmod(target, 0o700);
  await Deno.symlink(target, place.unpacked);
  assert.match(await place.run(), WORKS);
  assert.deepEqual(await namesIn(target), []);
});

Deno.test("without a place to unpack a runtime gets a CNI error, and others the reason", async () => {
  await using place = await Place.make();
  await using taken = new AsyncDisposableStack();
  // Somebody else's, all of them.
  for (const dir of [place.tmpdir, "/tmp", "/dev/shm"]) {
    const path = `${dir}/coil-modules-${USER}`;
    await Deno.mkdir(path, { mode: 0o755 });
    taken.defer(() => Deno.remove(path).catch(() => {}));
  }
  const call = (env: Record<string, string>, args: string[]) =>
    new Deno.Command("setpriv", {
      args: [
        `--reuid=${USER}`,
        `--regid=${USER}`,
        "--clear-groups",
        place.executable,
        ...args,
      ],
      env: { PATH: "/usr/bin:/bin", TMPDIR: place.tmpdir, ...env },
      clearEnv: true,
    }).output();
  const decoder = new TextDecoder();

  const plugin = await call({ CNI_COMMAND: "ADD" }, []);
  assert.equal(plugin.code, 1);
  const error = JSON.parse(decoder.decode(plugin.stdout));
  assert.equal(error.code, 5);
  assert.equal(error.cniVersion, "1.0.0");
  assert.match(error.msg, /^coil: nowhere to unpack/);
  assert.match(error.details, /\/run, .* no one else/);
  assert.match(decoder.decode(plugin.stderr), /nowhere to unpack/);

  const person = await call({}, ["version"]);
  assert.equal(person.code, 127);
  assert.equal(decoder.decode(person.stdout), "");
  assert.match(decoder.decode(person.stderr), /nowhere to unpack: none of/);
});

/** Packs a program of one module for this place, and returns its path. */
async function packProgram(place: Place, code: string): Promise<string> {
  const directory = await Deno.makeTempDir();
  await Deno.writeTextFile(`${directory}/main.js`, code);
  const output = `${place.executable}-${crypto.randomUUID()}`;
  await pack({ deno: Deno.execPath(), directory, entry: "main.js", output });
  await Deno.remove(directory, { recursive: true });
  return output;
}

/** Makes all versions that are there older than they are. */
async function age(place: Place): Promise<void> {
  const before = Date.now() / 1000 - 2 * 3600;
  for (const name of await namesIn(place.unpacked)) {
    await Deno.utime(`${place.unpacked}/${name}`, before, before);
  }
}

Deno.test("old versions go when a new one comes, unless a process runs from them", async () => {
  await using place = await Place.make();
  const [other, third, fourth] = [
    await packProgram(place, "console.log('other')"),
    await packProgram(place, "console.log('third')"),
    await packProgram(place, "console.log('fourth')"),
  ];
  const sleeper = await packProgram(
    place,
    "console.log('up'); setTimeout(() => {}, 600_000);",
  );
  const child = new Deno.Command("setpriv", {
    args: [`--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", sleeper],
    env: { PATH: "/usr/bin:/bin", TMPDIR: place.tmpdir },
    clearEnv: true,
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  const [kept] = await namesIn(place.unpacked);
  assert.equal(await place.run({}, [other]), "other\n");
  // Young: it stays, though nobody runs from it.
  assert.equal(await place.run({}, [third]), "third\n");
  assert.equal((await namesIn(place.unpacked)).length, 3);
  await age(place);
  assert.equal(await place.run({}, [fourth]), "fourth\n");
  const left = await namesIn(place.unpacked);
  assert.equal(left.length, 2);
  assert.ok(left.includes(kept ?? ""), "the running one's is gone");
  child.kill("SIGKILL");
  await reader.cancel();
  await child.status;
  await age(place);
  // It comes back, and the killed one's goes.
  assert.equal(await place.run({}, [other]), "other\n");
  assert.equal((await namesIn(place.unpacked)).length, 1);
});

Deno.test("versions that replace each other all the time always start", async () => {
  await using place = await Place.make();
  const programs = [
    await packProgram(place, "console.log('one')"),
    await packProgram(place, "console.log('two')"),
  ];
  for (let round = 0; round < 8; round++) {
    await place.run({}, [programs[0] ?? ""]);
    await age(place);
    const outputs = await Promise.all(
      [0, 1, 0, 1, 0, 1].map((i) => place.run({}, [programs[i] ?? ""])),
    );
    assert.equal(outputs.join(""), "one\ntwo\n".repeat(3));
  }
});

async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(directory)) names.push(name);
  return names;
}

Deno.test("calls of the plugin have a code cache of their own", async () => {
  await using place = await Place.make();
  const env = { CNI_COMMAND: "VERSION" };
  assert.match(await place.run(env, [place.executable]), /cniVersion/);
  const version = await place.version();
  assert.deepEqual((await namesIn(version)).sort(), ["cni", "js"]);
  assert.match(await place.run(), WORKS);
  assert.deepEqual((await namesIn(version)).sort(), ["cni", "deno", "js"]);
});

Deno.test("the same sources give the same file, wherever they are", async () => {
  await using elsewhere = await temporaryDirectory();
  const clone = `${elsewhere.path}/some/levels/down`;
  await Deno.mkdir(`${clone}/deploy`, { recursive: true });
  for (const name of SOURCES) await copy(`${ROOT}${name}`, `${clone}/${name}`);
  const { stderr, success } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      `${clone}/deploy/executable/build.ts`,
      "--packer",
      `--out=${clone}/coil`,
    ],
    env: { COIL_CACHE: `${clone}/cache` },
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const [one, other] = await Promise.all(
    [await packed(), `${clone}/coil`]
      .map((path) => Deno.readFile(path)),
  );
  assert.ok(one && other);
  assert.equal(one.length, other.length);
  assert.ok(one.every((byte, i) => byte === other[i]), "bytes differ");
});

async function copy(from: string, to: string): Promise<void> {
  if ((await Deno.stat(from)).isFile) return Deno.copyFile(from, to);
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    await copy(`${from}/${name}`, `${to}/${name}`);
  }
}

async function temporaryDirectory(): Promise<
  { path: string } & AsyncDisposable
> {
  const path = await Deno.makeTempDir();
  return {
    path,
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}
