// coil-installer where a former version has installed the plugin as two files:
// calls go on working, and one file is left.
import assert from "node:assert/strict";
import { awaitedLater, eventually, sleep } from "../lab/wait.ts";
import { formerPair, placePair } from "./former_pair.ts";
import {
  Host,
  isSame,
  messages,
  namesIn,
  quick,
  tinyPlugin,
} from "./installer_host.ts";

const PAIR = ["coil", "coil-executable"];

/** A call that has begun, and waits for its input. */
function begin(host: Host): Deno.ChildProcess {
  return new Deno.Command(host.coil, {
    env: { CNI_COMMAND: "VERSION" },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
}

/** What the call says; it must succeed. */
async function end(call: Deno.ChildProcess): Promise<string> {
  await call.stdin.close();
  const { success, stdout } = await call.output();
  assert.ok(success, "a call failed");
  return new TextDecoder().decode(stdout);
}

async function formerHost(): Promise<Host> {
  const host = await Host.make();
  await placePair(host.bin, await formerPair());
  assert.match(await host.versions(), /0\.4\.0/);
  return host;
}

Deno.test("install: two files of a former version become one", async () => {
  await using host = await formerHost();
  const records = await host.install(await quick());
  assert.deepEqual(namesIn(host.bin), ["coil"]);
  assert.ok(await isSame(host.coil, await tinyPlugin()));
  assert.ok(
    messages(records).includes("Removed the executable of a former version"),
  );
});

Deno.test("install: a call of the former launcher that is under way finds the new plugin, and the next run removes the link", async () => {
  await using host = await formerHost();
  const options = await quick();
  const call = begin(host);
  await host.install(options);
  const second = `${host.bin}/coil-executable`;
  assert.deepEqual(namesIn(host.bin), PAIR);
  assert.equal(await Deno.readLink(second), "coil");
  assert.match(await end(call), /1\.1\.0/);
  await host.install(options);
  assert.deepEqual(namesIn(host.bin), ["coil"]);
});

Deno.test("install: goes on where a run ended between the two files", async () => {
  await using host = await Host.make();
  await host.install(await quick());
  const { executable } = await formerPair();
  const second = `${host.bin}/coil-executable`;
  await Deno.writeFile(second, executable, { mode: 0o755 });
  await host.install(await quick());
  assert.equal(await Deno.readLink(second), "coil");
});

Deno.test("install: an executable that does not run leaves both files of the former version", async () => {
  await using host = await formerHost();
  const broken = `${host.directory}/broken`;
  await Deno.writeFile(
    broken,
    (await Deno.readFile("/bin/true")).slice(0, 500),
  );
  const error = await host.fail({ env: { COIL_PATH: broken } });
  assert.match(error, /the copy does not run/);
  assert.match(await host.versions(), /0\.4\.0/);
  assert.deepEqual(namesIn(host.bin), PAIR);
});

Deno.test("install, uninstall: a second file that is somebody else's stays", async () => {
  await using host = await Host.make();
  const theirs = `${host.bin}/coil-executable`;
  for (
    const make of [
      () => Deno.writeTextFile(theirs, "#!/bin/sh\n"),
      () => Deno.symlink("/bin/true", theirs),
      () => Deno.mkdir(theirs),
    ]
  ) {
    await make();
    await host.install(await quick());
    assert.deepEqual(namesIn(host.bin), PAIR);
    await host.install({ args: ["uninstall"] });
    assert.deepEqual(namesIn(host.bin), ["coil-executable"]);
    await Deno.remove(theirs);
  }
});

Deno.test("uninstall: both files of a former version go, the launcher first", async () => {
  await using host = await formerHost();
  const records = await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), []);
  const removed = records.filter(({ msg }) => msg === "Removed a file");
  assert.deepEqual(
    removed.map(({ path }) => path),
    PAIR.map((name) => `${host.bin}/${name}`),
  );
});

Deno.test("install: from two files to one and back while pods start, no call fails", async () => {
  await using host = await formerHost();
  const pair = await formerPair();
  const options = await quick();
  const stop = new AbortController();
  const seen = new Set<string>();
  // Each call takes longer than a step of the installer.
  const rows = [0, 1, 2, 3].map((row) =>
    awaitedLater((async () => {
      while (!stop.signal.aborted) {
        const call = begin(host);
        await sleep(20 + 20 * row);
        seen.add(/1\.1\.0|0\.4\.0/.exec(await end(call))?.[0] ?? "");
      }
    })())
  );
  for (let round = 0; round < 5; round++) {
    await host.install(options);
    assert.ok(await isSame(host.coil, await tinyPlugin()));
    await placePair(host.bin, pair);
  }
  await host.install(options);
  await Promise.race([
    eventually("an answer of the new plugin", () => seen.has("1.1.0")),
    ...rows,
  ]);
  stop.abort();
  await Promise.all(rows);
});
