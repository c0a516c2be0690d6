// coil-installer when things go wrong: full disks, foreign mounts, kills,
// others at work at the same time. What worked before has to go on working.
import assert from "node:assert/strict";
import { awaitedLater, eventually, sleep } from "../lab/wait.ts";
import {
  Host,
  isSame,
  isTemporary,
  messages,
  NAME,
  namesIn,
  NETCONF,
  PATIENCE_MS,
  PROGRAMS,
  quick,
  type Run,
  tinyPlugin,
} from "./installer_host.ts";
import { pathOf } from "./testing.ts";

/** Of another name, and for another socket. */
const OTHER_NETCONF = JSON.stringify({
  ...NETCONF,
  name: "other",
  plugins: [{ type: "coil", socket: "/run/other.sock" }],
});

/** A configuration that names this socket. */
function withSocket(socket: unknown): { readonly CNI_NETCONF: string } {
  const plugins = [{ type: "coil", socket }];
  return { CNI_NETCONF: JSON.stringify({ ...NETCONF, plugins }) };
}

/** An ELF file for another machine. */
async function foreignExecutable(path: string): Promise<void> {
  const bytes = await Deno.readFile(await tinyPlugin());
  // e_machine of elf(5): EM_AARCH64 is 183, EM_X86_64 62.
  bytes[18] = Deno.build.arch === "x86_64" ? 183 : 62;
  await Deno.writeFile(path, bytes, { mode: 0o755 });
}

/** Until the installer has begun to write an executable, or has ended before that was seen. */
async function untilCopying(host: Host, run: Run): Promise<void> {
  const directory = host.path(host.bin);
  const isSeen = () =>
    namesIn(directory).filter(isTemporary)
      .some((name) => isBegun(`${directory}/${name}`));
  await eventually("an unfinished copy", () => isSeen() || run.hasEnded, {
    intervalMs: 1,
    timeoutMs: PATIENCE_MS,
  });
}

function isBegun(path: string): boolean {
  try {
    return Deno.statSync(path).size > 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

for (
  const [what, env, reason] of [
    [
      "no configuration",
      { CNI_NETCONF: "" },
      /set CNI_NETCONF or CNI_NETCONF_FILE/,
    ],
    ["broken JSON", { CNI_NETCONF: "{" }, /from CNI_NETCONF .*not JSON/],
    [
      "a missing file",
      { CNI_NETCONF: "", CNI_NETCONF_FILE: "/none" },
      /file "\/none": .*No such file/,
    ],
    ["no coil in the list", {
      CNI_NETCONF: '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a"}]}',
    }, /one plugin of type "coil"/],
    [
      "a socket whose path is too long",
      withSocket(`/run/${"s".repeat(96)}`),
      /it has 101 bytes, at most 100 are allowed/,
    ],
    [
      "a socket that depends on the current directory",
      withSocket("coild.sock"),
      /"coild\.sock" .*absolute path/,
    ],
    ["a socket that is no text", withSocket(7), /"socket" .*not a string/],
    [
      "a missing executable",
      { COIL_PATH: "/none" },
      /read the executable "\/none"/,
    ],
    [
      "no executable",
      { COIL_PATH: "/etc/passwd" },
      /not a Linux executable.*needs/,
    ],
    [
      "a directory for an executable",
      { COIL_PATH: "/etc" },
      /not a regular file/,
    ],
  ] as const
) {
  Deno.test(`install: ${what} ends it before anything is touched`, async () => {
    await using host = await Host.make({ bare: true });
    const error = await host.fail({ env: { ...(await quick()).env, ...env } });
    assert.match(error, reason);
    assert.deepEqual(namesIn(host.directory), []);
  });
}

Deno.test("install: an executable for another machine is refused, one that is there is replaced", async () => {
  await using host = await Host.make();
  const options = await quick();
  const foreign = `${host.directory}/foreign`;
  await foreignExecutable(foreign);
  const error = await host.fail({ env: { COIL_PATH: foreign } });
  assert.match(
    error,
    /^Cannot install .* it is (aarch64|x86_64), and this node needs/,
  );
  assert.deepEqual(namesIn(host.bin), []);
  await Deno.copyFile(foreign, host.coil);
  const records = await host.install(options);
  assert.ok(await isSame(host.coil, await tinyPlugin()));
  const found = records.find(({ msg }) =>
    msg === "Replacing another executable"
  );
  assert.match(String(found?.["found"]), /^(aarch64|x86_64), \d+ bytes$/);
});

Deno.test("install: an executable that does not run does not replace one that does", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  const broken = `${host.directory}/broken`;
  const whole = await Deno.readFile(await tinyPlugin());
  await Deno.writeFile(broken, whole.subarray(0, 500));
  const error = await host.fail({ env: { COIL_PATH: broken } });
  assert.match(error, /the copy does not run/);
  assert.match(await host.versions(), /1\.1\.0/);
  assert.deepEqual(namesIn(host.bin), PROGRAMS);
});

Deno.test("install: an executable that is in use goes on", async () => {
  await using host = await Host.make();
  const sleeping = `${host.directory}/sleep`;
  await Deno.copyFile("/usr/bin/sleep", sleeping);
  await Deno.link(sleeping, host.coil);
  await using child = running(host.coil);
  // What a plain copy would have met.
  assert.throws(
    () => Deno.openSync(host.coil, { write: true }),
    /Text file busy/,
  );
  await host.install();
  assert.match(await host.versions(), /1\.1\.0/);
  assert.ok(await isSame(sleeping, "/usr/bin/sleep"));
  assert.ok(child.isAlive());
});

/** A process that lasts as long as the test. */
function running(path: string): AsyncDisposable & { isAlive(): boolean } {
  const child = new Deno.Command(path, { args: ["600"] }).spawn();
  let ended = false;
  child.status.then(() => ended = true);
  return {
    isAlive: () => !ended,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

Deno.test("install: a directory in the plugin's or the configuration's place is not removed", async () => {
  await using host = await Host.make();
  const options = await quick();
  await Deno.mkdir(host.coil);
  assert.match(
    await host.fail(options),
    /a directory is in its place; remove it/,
  );
  const error = await host.fail({ args: ["uninstall"] });
  assert.match(error, /it is a directory, not the executable/);
  await Deno.remove(host.coil);
  assert.deepEqual(namesIn(host.bin), []);
  await Deno.mkdir(host.conf);
  assert.match(
    await host.fail(options),
    /10-coil\.conflist": a directory is in its place/,
  );
  assert.deepEqual(namesIn(host.etc), [NAME]);
});

Deno.test("install: directories that cannot be made or used", async () => {
  await using host = await Host.make();
  const file = `${host.directory}/file`;
  await Deno.writeTextFile(file, "");
  const { env } = await quick();
  const inFile = await host.fail({
    env: { ...env, CNI_BIN_DIR: `${file}/bin` },
  });
  assert.match(inFile, /file\/bin": a part of its path is a file/);
  const isFile = await host.fail({ env: { ...env, CNI_ETC_DIR: file } });
  assert.match(isFile, /file": it is not a directory/);
});

Deno.test("install: a user without rights is told so", async () => {
  await using host = await Host.make();
  const program = `${host.directory}/coil-installer`;
  await Deno.copyFile(await pathOf("coil"), program);
  const tmpdir = `${host.directory}/tmp`;
  await Deno.mkdir(tmpdir);
  await Deno.chown(tmpdir, 54321, 54321);
  const error = await host.fail({
    program,
    env: { TMPDIR: tmpdir },
    prefix: ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"],
  });
  assert.match(
    error,
    /opt\/cni\/bin\/coil": permission denied; run as root/,
  );
  assert.deepEqual([namesIn(host.bin), namesIn(host.etc)], [[], []]);
});

Deno.test("install: root without any capability is enough, W48", async () => {
  await using host = await Host.make();
  await host.install({
    prefix: [
      "setpriv",
      "--bounding-set=-all",
      "--inh-caps=-all",
      "--no-new-privs",
    ],
  });
  assert.match(await host.versions(), /1\.1\.0/);
  await host.install({
    args: ["uninstall"],
    prefix: [
      "setpriv",
      "--bounding-set=-all",
      "--inh-caps=-all",
      "--no-new-privs",
    ],
  });
  assert.deepEqual([namesIn(host.bin), namesIn(host.etc)], [[], []]);
});

for (
  const [what, directory] of [["plugins", "BIN"], ["configurations", "ETC"]]
) {
  Deno.test(`install, uninstall: a read-only directory of ${what}`, async () => {
    await using host = await Host.make();
    const { env } = await quick();
    await host.install({ env });
    await host.mount(`mount --bind "$${directory}" "$${directory}"
mount -o remount,bind,ro "$${directory}"`);
    // As it is, there is nothing to do.
    await host.install({ env });
    const changed = { CNI_NETCONF: OTHER_NETCONF };
    const error = await host.fail({
      env: directory === "BIN" ? changed : { ...env, ...changed },
    });
    assert.match(
      error,
      /the file system is mounted read-only; mount it writable/,
    );
    assert.match(await host.versions(), /1\.1\.0/);
    assert.equal((await host.config()).name, NETCONF.name);
    assert.match(await host.fail({ args: ["uninstall"] }), /mounted read-only/);
  });
}

Deno.test("install: missing directories on a read-only file system", async () => {
  await using host = await Host.make({ bare: true });
  await host.mount(`cd "\${BIN%/opt/cni/bin}"
mount --bind . .
mount -o remount,bind,ro "$PWD"`);
  assert.match(
    await host.fail(await quick()),
    /make the directory ".*mounted read-only/,
  );
});

Deno.test("install: a read-only root file system with the two directories is enough, W48", async () => {
  await using host = await Host.make();
  await host.mount(`mount --bind "$BIN" "$BIN"
mount --bind "$ETC" "$ETC"
mount -o remount,bind,ro /
! touch "\${BIN%/opt/cni/bin}/written"`);
  await host.install();
  assert.match(await host.versions(), /1\.1\.0/);
  assert.deepEqual(await host.types(), ["coil", "portmap"]);
});

Deno.test("install: a directory that nothing can be executed from", async () => {
  await using host = await Host.make();
  await host.mount('mount -t tmpfs -o noexec tmpfs "$BIN"');
  assert.match(await host.fail(await quick()), /mounted noexec/);
  assert.deepEqual(namesIn(host.path(host.bin)), []);
});

Deno.test("install: too little space is seen before copying", async () => {
  await using host = await Host.make();
  await host.mount('mount -t tmpfs -o size=20m tmpfs "$BIN"');
  await host.install(await quick());
  const error = await host.fail();
  assert.match(
    error,
    /it needs \d+\.\d MB, and ".*\/opt\/cni\/bin" has [12]\d\.\d MB free; free some space/,
  );
  assert.match(await host.versions(), /1\.1\.0/);
  assert.deepEqual(namesIn(host.path(host.bin)), PROGRAMS);
});

Deno.test("install: a disk that becomes full during the copy leaves the old executable", async () => {
  const { size } = await Deno.stat(await pathOf("coil"));
  await using host = await Host.make();
  await host.mount(
    `mount -t tmpfs -o size=${Math.ceil(size / 4096) * 4 + 4096}k tmpfs "$BIN"`,
  );
  await host.install(await quick());
  // Once in a while the copy is quicker than we are.
  for (let attempt = 0; attempt < 10; attempt++) {
    const run = await host.start();
    await untilCopying(host, run);
    run.kill("SIGSTOP");
    const filler = host.path(`${host.bin}/filler`);
    await Deno.writeFile(filler, new Uint8Array(64 << 20)).catch((error) => {
      if (error.code !== "ENOSPC") throw error;
    });
    run.kill("SIGCONT");
    const { code, records } = await run.end();
    await Deno.remove(filler);
    if (code === 0) {
      await host.install(await quick());
      continue;
    }
    assert.match(
      String(records.at(-1)?.error),
      /no space left.*existing files are kept/,
    );
    assert.ok(await isSame(host.coil, await tinyPlugin()));
    assert.match(await host.versions(), /1\.1\.0/);
    assert.deepEqual(namesIn(host.path(host.bin)), PROGRAMS);
    return;
  }
  assert.fail("the disk was never full in time");
});

Deno.test("install: a full disk leaves the old configuration", async () => {
  await using host = await Host.make();
  await host.mount('mount -t tmpfs -o size=64k tmpfs "$ETC"');
  const { env } = await quick();
  await host.install({ env });
  const before = await Deno.readTextFile(host.conf);
  const filler = host.path(`${host.etc}/filler`);
  await assert.rejects(Deno.writeFile(filler, new Uint8Array(1 << 20)), {
    code: "ENOSPC",
  });
  const error = await host.fail({
    env: { ...env, CNI_NETCONF: OTHER_NETCONF },
  });
  assert.match(error, /write the network configuration .*no space left/);
  assert.equal(await Deno.readTextFile(host.conf), before);
  assert.deepEqual(namesIn(host.path(host.etc)), [NAME, "filler"]);
});

Deno.test("install: killed in the middle of the copy, the old executable works, and the next run cleans up", async () => {
  await using host = await Host.make();
  await host.install(await quick());
  for (let attempt = 0; attempt < 10; attempt++) {
    const run = await host.start();
    await untilCopying(host, run);
    run.kill("SIGKILL");
    await run.end();
    assert.match(await host.versions(), /1\.1\.0/);
    const left = namesIn(host.bin).filter(isTemporary);
    if (left.length === 0) { // the copy was quicker
      await host.install(await quick());
      continue;
    }
    const records = await host.install();
    assert.deepEqual(namesIn(host.bin), PROGRAMS);
    assert.ok(
      messages(records).includes("Removed a file of an interrupted run"),
    );
    assert.ok(await isSame(host.coil, await pathOf("coil")));
    return;
  }
  assert.fail("never killed in time");
});

Deno.test("install: four at once come to one result, and copy once", async () => {
  await using host = await Host.make();
  const runs = await Promise.all([1, 2, 3, 4].map(() => host.install()));
  const written = runs.flatMap(messages).filter((msg) =>
    /^(Copied|Wrote) /.test(msg)
  );
  assert.deepEqual(written, [
    "Copied the executable",
    "Wrote the network configuration",
  ]);
  assert.deepEqual([namesIn(host.bin), namesIn(host.etc)], [PROGRAMS, [NAME]]);
  assert.ok(await isSame(host.coil, await pathOf("coil")));
});

Deno.test("install: waits for another installer, also for one of the same directories by another name", async () => {
  await using host = await Host.make();
  const { env } = await quick();
  const alias = `${host.directory}/alias`;
  await Deno.symlink(host.bin, alias);
  using lock = await Deno.open(host.bin);
  assert.ok(await lock.tryLock(true));
  const run = await host.start({
    env: { ...env, CNI_BIN_DIR: alias, CNI_ETC_DIR: alias },
  });
  await run.until("Waiting for another installer");
  assert.deepEqual(namesIn(host.bin), []);
  await lock.unlock();
  const { code } = await run.end();
  assert.equal(code, 0);
  assert.deepEqual(namesIn(host.bin), [NAME, ...PROGRAMS]);
});

Deno.test("install: SIGTERM ends it, also while it waits", async () => {
  await using host = await Host.make();
  using lock = await Deno.open(host.bin);
  assert.ok(await lock.tryLock(true));
  const run = await host.start(await quick());
  await run.until("Waiting for another installer");
  run.kill("SIGTERM");
  const { code, records } = await run.end();
  assert.equal(code, 1);
  assert.match(String(records.at(-1)?.error), /Received SIGTERM/);
});

Deno.test("install: at every moment there is a plugin that works and a whole configuration", async () => {
  await using host = await Host.make();
  const tiny = (await quick()).env;
  await host.install({ env: tiny });
  const stop = new AbortController();
  const seen = new Set<string>();
  const watching = awaitedLater((async () => {
    while (!stop.signal.aborted) {
      assert.match(await host.versions(), /1\.1\.0/);
      seen.add((await host.config()).name);
      await sleep(1);
    }
  })());
  const untilSeen = (name: string) =>
    Promise.race([eventually(name, () => seen.has(name)), watching]);
  for (let i = 0; i < 4; i++) {
    await host.install({ env: { CNI_NETCONF: OTHER_NETCONF } });
    await untilSeen("other");
    await host.install({ env: tiny });
    await untilSeen(NETCONF.name);
  }
  stop.abort();
  await watching;
  assert.equal(seen.size, 2);
});

Deno.test("install: a tool that chains itself in at the same time is not lost", async () => {
  await using host = await Host.make();
  const { env } = await quick();
  await host.install({ env });
  const stop = new AbortController();
  let added = 0;
  // As istio-cni does: it looks, adds itself, renames.
  const tool = awaitedLater((async () => {
    while (!stop.signal.aborted) {
      const config = await host.config();
      if (!config.plugins.some(({ type }) => type === "istio-cni")) {
        const plugins = [...config.plugins, { type: "istio-cni" }];
        await host.write("istio.tmp", { ...config, plugins });
        await Deno.rename(`${host.etc}/istio.tmp`, host.conf);
        added++;
      }
      await sleep(1);
    }
  })());
  for (let i = 0; i < 10; i++) {
    const CNI_NETCONF = JSON.stringify({ ...NETCONF, name: `net${i}` });
    await host.install({ env: { ...env, CNI_NETCONF } });
  }
  await eventually(
    "the tool's plugin",
    async () => (await host.types()).includes("istio-cni"),
  );
  stop.abort();
  await tool;
  assert.ok(added >= 1);
  assert.deepEqual(await host.types(), ["coil", "portmap", "istio-cni"]);
  const { name, plugins } = await host.config();
  assert.ok(name.startsWith("net") && plugins.length === 3);
});

Deno.test("install: a node's executable installs itself again without harm", async () => {
  await using host = await Host.make();
  await host.install();
  const records = await host.install({
    program: host.coil,
    args: ["installer"],
  });
  const changes = messages(records).filter((msg) =>
    /^(Copied|Wrote|Set) /.test(msg)
  );
  assert.deepEqual(changes, []);
});

Deno.test("uninstall: a node's executable removes itself", async () => {
  await using host = await Host.make();
  await host.install();
  await host.install({ program: host.coil, args: ["installer", "uninstall"] });
  assert.deepEqual([namesIn(host.bin), namesIn(host.etc)], [[], []]);
});

Deno.test("install: works when the running file has been deleted", async () => {
  await using host = await Host.make();
  const copy = `${host.directory}/coil-installer`;
  await Deno.copyFile(await pathOf("coil"), copy);
  using lock = await Deno.open(host.bin);
  assert.ok(await lock.tryLock(true));
  const run = await host.start({ program: copy });
  await run.until("Waiting for another installer");
  await Deno.remove(copy);
  await lock.unlock();
  assert.equal((await run.end()).code, 0);
  assert.ok(await isSame(host.coil, await pathOf("coil")));
});
