import assert from "node:assert/strict";
import { InstallError } from "../base/errors.ts";
import { planPlugin, planPluginRemoval } from "./plugin_files.ts";
import { executableProgram, launcherProgram } from "../base/program.ts";
import type { HostPlaces } from "./request.ts";
import { applySteps } from "../apply/steps.ts";
import type { Step } from "./step.ts";

const SIGNAL = new AbortController().signal;

const encode = (text: string) => new TextEncoder().encode(text);

/** A whole plugin: answers VERSION with its own version. */
const executableText = (version: string) =>
  `#!/bin/sh\necho '{"supportedVersions":["${version}"]}'\n`;

/** Calls the executable beside it, as the real one does. */
const LAUNCHER = encode('#!/bin/sh\nexec "${0%/*}/coil-executable" "$@"\n');

/** A directory of plugins, and one for the executables to install. */
class Place implements AsyncDisposable {
  readonly places: HostPlaces;
  readonly bin: string;
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.bin = `${directory}/bin`;
    const etcDirectory = `${directory}/etc`;
    this.places = { binDirectory: this.bin, etcDirectory, confName: undefined };
  }

  static async make(): Promise<Place> {
    const place = new Place(await Deno.makeTempDir());
    await Deno.mkdir(place.bin);
    return place;
  }

  /** Installs an executable of a version, with the launcher or without. */
  async install(
    version: string,
    { launcher }: { readonly launcher: Uint8Array | undefined },
  ): Promise<readonly Step[]> {
    const source = `${this.#directory}/executable`;
    const bytes = encode(executableText(version));
    await Deno.writeFile(source, bytes);
    const { steps } = await planPlugin(this.places, {
      executable: executableProgram(source, { sizeBytes: bytes.length }),
      launcher: launcher && launcherProgram(launcher),
    });
    for (const step of steps) {
      await applySteps([step], { signal: SIGNAL, dryRun: false });
      assert.match(await this.call(), /supportedVersions/);
    }
    return steps;
  }

  /** What the plugin says; it must work. */
  async call(): Promise<string> {
    const { success, stdout } = await new Deno.Command(`${this.bin}/coil`, {
      env: { CNI_COMMAND: "VERSION" },
    }).output();
    assert.ok(success);
    return new TextDecoder().decode(stdout);
  }

  names(): readonly string[] {
    return [...Deno.readDirSync(this.bin)].map(({ name }) => name).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#directory, { recursive: true });
  }
}

/** Steps as words, with the file's name. */
function wordsOf(steps: readonly Step[]): readonly string[] {
  return steps.map(({ kind, path }) => `${kind} ${path.split("/").at(-1)}`);
}

Deno.test("planPlugin() gives the executable, then the launcher, and nothing the second time", async () => {
  await using place = await Place.make();
  // Until the executable is there nothing works: only the end can be looked at.
  const { bin, places } = place;
  const source = `${bin}/../source`;
  const bytes = encode(executableText("1.0.0"));
  await Deno.writeFile(source, bytes);
  const programs = {
    executable: executableProgram(source, { sizeBytes: bytes.length }),
    launcher: launcherProgram(LAUNCHER),
  };
  const plan = await planPlugin(places, programs);
  assert.deepEqual(wordsOf(plan.steps), [
    "installProgram coil-executable",
    "installProgram coil",
  ]);
  assert.deepEqual(plan.files, {
    executable: { path: `${bin}/coil-executable`, state: "changed" },
    launcher: { path: `${bin}/coil`, state: "changed" },
  });
  await applySteps(plan.steps, { signal: SIGNAL, dryRun: false });
  assert.match(await place.call(), /1\.0\.0/);
  assert.deepEqual(place.names(), ["coil", "coil-executable"]);
  const again = await planPlugin(places, programs);
  assert.deepEqual(again, {
    steps: [],
    files: {
      executable: { path: `${bin}/coil-executable`, state: "unchanged" },
      launcher: { path: `${bin}/coil`, state: "unchanged" },
    },
  });
});

Deno.test("planPlugin() goes from the plugin in one file to two and back, and the plugin works all the time", async () => {
  await using place = await Place.make();
  await place.install("0.3.1", { launcher: undefined });
  assert.deepEqual(place.names(), ["coil"]);
  await place.install("1.0.0", { launcher: LAUNCHER });
  assert.deepEqual(place.names(), ["coil", "coil-executable"]);
  assert.match(await place.call(), /1\.0\.0/);
  const steps = await place.install("1.1.0", { launcher: undefined });
  assert.deepEqual(wordsOf(steps), [
    "installProgram coil",
    "remove coil-executable",
  ]);
  assert.deepEqual(place.names(), ["coil"]);
  assert.match(await place.call(), /1\.1\.0/);
});

Deno.test("planPlugin() replaces a launcher for another socket, and leaves the executable alone", async () => {
  await using place = await Place.make();
  await place.install("0.3.1", { launcher: undefined });
  await place.install("1.0.0", { launcher: LAUNCHER });
  const other = new Uint8Array([...LAUNCHER, ...encode("# /run/other.sock")]);
  assert.deepEqual(
    wordsOf(await place.install("1.0.0", { launcher: other })),
    ["installProgram coil"],
  );
  assert.deepEqual(await Deno.readFile(`${place.bin}/coil`), other);
});

Deno.test("planPlugin() puts modes right without writing", async () => {
  await using place = await Place.make();
  await place.install("0.3.1", { launcher: undefined });
  await place.install("1.0.0", { launcher: LAUNCHER });
  for (const name of place.names()) {
    await Deno.chmod(`${place.bin}/${name}`, 0o700);
  }
  const steps = await place.install("1.0.0", { launcher: LAUNCHER });
  assert.deepEqual(wordsOf(steps), ["setMode coil-executable", "setMode coil"]);
});

Deno.test("a launcher that does not reach an executable does not take the plugin's place", async () => {
  await using place = await Place.make();
  await place.install("1.0.0", { launcher: undefined });
  const step: Step = {
    kind: "installProgram",
    path: `${place.bin}/coil`,
    program: launcherProgram(LAUNCHER),
  };
  await assert.rejects(
    applySteps([step], { signal: SIGNAL, dryRun: false }),
    /^InstallError: Cannot copy the launcher .*does not run as a plugin here/,
  );
  assert.match(await place.call(), /1\.0\.0/);
  assert.deepEqual(place.names(), ["coil"]);
});

Deno.test("planPlugin() and planPluginRemoval() refuse a directory in either place", async () => {
  for (const name of ["coil", "coil-executable"]) {
    await using place = await Place.make();
    await Deno.mkdir(`${place.bin}/${name}`);
    await assert.rejects(planPluginRemoval(place.places), InstallError);
    for (const launcher of [LAUNCHER, undefined]) {
      await assert.rejects(place.install("1.0.0", { launcher }), InstallError);
    }
    assert.deepEqual(place.names(), [name]);
  }
});

Deno.test("planPluginRemoval() takes the launcher away before what it calls", async () => {
  await using place = await Place.make();
  assert.deepEqual(await planPluginRemoval(place.places), []);
  await place.install("0.3.1", { launcher: undefined });
  await place.install("1.0.0", { launcher: LAUNCHER });
  assert.deepEqual(wordsOf(await planPluginRemoval(place.places)), [
    "remove coil",
    "remove coil-executable",
  ]);
});
