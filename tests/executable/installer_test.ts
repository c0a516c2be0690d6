// coil-installer on real directories: what it makes of them.
import assert from "node:assert/strict";
import {
  Host,
  isSame,
  messages,
  modeOf,
  NAME,
  namesIn,
  NETCONF,
  PROGRAMS,
  quick,
  socketOf,
  tinyPlugin,
} from "./installer_host.ts";
import { pathOf } from "./testing.ts";

/** Adds a plugin to our configuration, as other tools do. */
async function chain(
  host: Host,
  plugin: Record<string, unknown>,
): Promise<void> {
  const config = await host.config();
  const plugins = [...config.plugins, plugin];
  await host.write(NAME, { ...config, plugins });
}

Deno.test("install: the installer copies the file that it runs from, and writes the configuration", async () => {
  await using host = await Host.make();
  const records = await host.install();
  assert.ok(await isSame(host.coil, await pathOf("coil")));
  assert.equal(await socketOf(host.coil), "/run/coild.sock");
  assert.equal(await modeOf(host.coil), 0o755);
  assert.equal(await modeOf(host.conf), 0o600);
  assert.deepEqual(await host.config(), {
    ...NETCONF,
    "coil.cybozu.com/installer": { plugins: ["coil", "portmap"] },
  });
  assert.deepEqual(namesIn(host.bin), PROGRAMS);
  assert.deepEqual(namesIn(host.etc), [NAME]);
  const order = messages(records).filter((message) =>
    /^(Copied|Wrote)/.test(message)
  );
  assert.deepEqual(order, [
    "Copied the executable",
    "Wrote the network configuration",
  ]);
  assert.match(await host.versions(), /"1\.1\.0"/);
});

Deno.test("install: a second run changes nothing", async () => {
  await using host = await Host.make();
  await host.install();
  const look = () =>
    Promise.all(
      [host.coil, host.conf].map((path) => Deno.stat(path)),
    );
  const before = await look();
  const records = await host.install();
  const after = await look();
  assert.deepEqual(
    after.map(({ ino, mtime }) => ({ ino, mtime })),
    before.map(({ ino, mtime }) => ({ ino, mtime })),
  );
  const installed = records.find(({ msg }) => msg === "Installed");
  assert.deepEqual(installed?.["executable"], {
    path: host.coil,
    state: "unchanged",
  });
});

Deno.test("install: modes are put right without copying", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  const { ino } = await Deno.stat(host.coil);
  await Deno.chmod(host.coil, 0o600);
  await Deno.chmod(host.conf, 0o644);
  await host.install(options);
  assert.equal(await modeOf(host.coil), 0o755);
  assert.equal(await modeOf(host.conf), 0o600);
  assert.equal((await Deno.stat(host.coil)).ino, ino);
});

Deno.test("install: files of the same size and other contents are replaced", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  const right = await Deno.readFile(host.coil);
  const wrong = right.with(-1, (right.at(-1) ?? 0) ^ 1);
  await Deno.writeFile(host.coil, wrong);
  await host.install(options);
  assert.deepEqual(await Deno.readFile(host.coil), right);
});

Deno.test("install: an executable without a socket is replaced by one that has it", async () => {
  await using host = await Host.make();
  await Deno.copyFile(await tinyPlugin(), host.coil);
  const records = await host.install(await quick());
  assert.deepEqual(namesIn(host.bin), PROGRAMS);
  assert.ok(await isSame(host.coil, await tinyPlugin()));
  assert.equal(await socketOf(host.coil), "/run/coild.sock");
  const replaced = records.filter(({ msg }) =>
    msg === "Replacing another executable"
  );
  assert.deepEqual(replaced.map(({ path }) => path), [host.coil]);
});

Deno.test("install: the executable has the socket of the plugin's entry, and another only where that changes", async () => {
  await using host = await Host.make();
  const { env } = await quick();
  const installed = async (entry: Record<string, unknown>) => {
    const plugins = [{ type: "portmap" }, { type: "coil", ...entry }];
    const CNI_NETCONF = JSON.stringify({ ...NETCONF, plugins });
    const records = await host.install({ env: { ...env, CNI_NETCONF } });
    const socket = await socketOf(host.coil);
    return {
      socket,
      written: messages(records).includes("Copied the executable"),
    };
  };
  const longest = `/run/${"s".repeat(95)}`;
  for (
    const [entry, socket, written] of [
      [{}, "/run/coild.sock", true],
      [{ socket: null }, "/run/coild.sock", false],
      [{ socket: "" }, "/run/coild.sock", false],
      [{ socket: longest }, longest, true],
      [{ socket: "/run/coil/coild.sock" }, "/run/coil/coild.sock", true],
      [{ socket: "/run/coil/coild.sock", x: 1 }, "/run/coil/coild.sock", false],
    ] as const
  ) {
    assert.deepEqual(await installed(entry), { socket, written });
  }
});

Deno.test("install: the installed executable behaves as the one it is a copy of, with any arguments", async () => {
  await using host = await Host.make();
  await host.install();
  const built = await pathOf("coil");
  const called = async (
    path: string,
    args: string[],
    env: Record<string, string>,
  ) => {
    const { code, stdout, stderr } = await new Deno.Command(path, {
      args,
      env: { PATH: "/usr/bin:/bin", ...env },
      clearEnv: true,
    }).output();
    const decoder = new TextDecoder();
    return [code, decoder.decode(stdout), decoder.decode(stderr)];
  };
  for (
    const [args, env] of [
      [[], {}],
      [["version"], {}],
      [["ipam", "nonsense"], {}],
      [["installer", "--help"], {}],
      [[], { CNI_COMMAND: "VERSION" }],
      [[], { CNI_COMMAND: "STATUS" }],
      [[], { CNI_COMMAND: "nonsense" }],
    ] as const
  ) {
    const output = await called(host.coil, [...args], env);
    assert.deepEqual(output, await called(built, [...args], env));
  }
});

Deno.test("install: the configuration can come from a file", async () => {
  await using host = await Host.make();
  const file = `${host.directory}/netconf`;
  await Deno.writeTextFile(
    file,
    JSON.stringify({ ...NETCONF, name: "from-file" }),
  );
  const { env } = await quick();
  await host.install({
    env: {
      ...env,
      CNI_NETCONF: "",
      CNI_NETCONF_FILE: file,
      CNI_CONF_NAME: "01-x.conflist",
    },
  });
  assert.equal((await host.config("01-x.conflist")).name, "from-file");
  assert.deepEqual(namesIn(host.etc), ["01-x.conflist"]);
});

Deno.test("install: missing directories are made, with a warning that they may not be mounted", async () => {
  await using host = await Host.make({ bare: true });
  const records = await host.install(await quick());
  assert.equal(await modeOf(host.bin), 0o755);
  assert.equal(await modeOf(host.etc), 0o755);
  const warned = records.filter(({ msg }) =>
    /^Created a missing directory/.test(msg)
  );
  assert.deepEqual(warned.map(({ path }) => path), [host.bin, host.etc]);
});

Deno.test("install: other networks' configurations stay, W43", async () => {
  await using host = await Host.make();
  const others = [
    "05-first.conflist",
    "87-last.conflist",
    "99-loopback.conf",
    "x.conflist.bak",
  ];
  for (const name of others) await host.write(name, `{"name":"${name}"}`);
  const records = await host.install(await quick());
  assert.deepEqual(namesIn(host.etc), [NAME, ...others].sort());
  for (const name of others) {
    assert.deepEqual(await host.config(name), { name });
  }
  const warning = records.find(({ msg }) => /^Runtimes use another/.test(msg));
  assert.equal(warning?.level, "warn");
  assert.deepEqual(warning?.["files"], ["05-first.conflist"]);
});

Deno.test("install: plugins that other tools chained in survive an update, conf-clobber (coil#193)", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  const istio = { type: "istio-cni", kubernetes: { kubeconfig: "/k" } };
  await chain(host, istio);
  const changed = {
    ...NETCONF,
    plugins: [{ type: "coil", socket: "/run/other.sock" }, { type: "tuning" }],
  };
  const env = { ...options.env, CNI_NETCONF: JSON.stringify(changed) };
  const records = await host.install({ env });
  const { plugins } = await host.config();
  assert.deepEqual(plugins, [...changed.plugins, istio]);
  const kept = records.find(({ msg }) => /^Keeping plugins/.test(msg));
  assert.deepEqual(kept?.["plugins"], ["istio-cni"]);
  const again = await host.install({ env });
  assert.ok(!messages(again).includes("Wrote the network configuration"));
});

Deno.test("install: a plugin of the chain that nobody knows is kept, and warned about", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  await chain(host, { type: "no-such-plugin" });
  const records = await host.install(options);
  assert.deepEqual(await host.types(), ["coil", "portmap", "no-such-plugin"]);
  const missing = records.filter(({ msg }) =>
    /^A plugin of the chain is missing/.test(msg)
  );
  assert.deepEqual(missing.map(({ plugin }) => plugin), [
    "portmap",
    "no-such-plugin",
  ]);
});

Deno.test("install: versions that a plugin of the chain lacks are not offered", async () => {
  await using host = await Host.make();
  const options = await quick();
  const script = (versions: string) =>
    `#!/bin/sh\n[ "$CNI_COMMAND" = VERSION ] && echo '{"supportedVersions":${versions}}'\n`;
  const portmap = `${host.bin}/portmap`;
  await Deno.writeTextFile(portmap, script('["0.4.0","1.0.0"]'), {
    mode: 0o755,
  });
  const records = await host.install(options);
  const { cniVersion, cniVersions } = await host.config();
  assert.deepEqual({ cniVersion, cniVersions }, {
    cniVersion: "1.0.0",
    cniVersions: ["1.0.0"],
  });
  assert.ok(
    records.some(({ versions }) =>
      JSON.stringify(versions) === '{"1.1.0":["portmap"]}'
    ),
  );
  await Deno.writeTextFile(portmap, script('["1.0.0","1.1.0"]'));
  await host.install(options);
  assert.deepEqual((await host.config()).cniVersions, ["1.0.0", "1.1.0"]);
  const before = await Deno.readTextFile(host.conf);
  await Deno.writeTextFile(portmap, script('["0.3.0"]'));
  assert.match(
    await host.fail(options),
    /version 1\.0\.0 or 1\.1\.0; .*portmap \(0\.3\.0\)/,
  );
  assert.equal(await Deno.readTextFile(host.conf), before);
});

Deno.test("install: a malformed configuration is kept aside", async () => {
  await using host = await Host.make();
  await host.write(NAME, '{"name": "net", "plugins": [');
  const records = await host.install(await quick());
  assert.deepEqual(await host.types(), ["coil", "portmap"]);
  const [, saved = ""] = namesIn(host.etc);
  assert.match(saved, /^10-coil\.conflist\.coil-saved-[0-9a-f]{8}$/);
  const path = `${host.etc}/${saved}`;
  assert.equal(await Deno.readTextFile(path), '{"name": "net", "plugins": [');
  assert.equal(await modeOf(path), 0o600);
  const warning = records.find(({ msg }) =>
    /^Replacing a network conf/.test(msg)
  );
  assert.equal(warning?.level, "warn");
  assert.match(String(warning?.["reason"]), /not JSON/);
});

Deno.test("install: a symbolic link in the plugin's place is replaced, what it leads to stays", async () => {
  await using host = await Host.make();
  const target = `${host.directory}/vendor`;
  await Deno.writeTextFile(target, "the vendor's");
  await Deno.symlink(target, host.coil);
  const records = await host.install(await quick());
  assert.ok((await Deno.lstat(host.coil)).isFile);
  assert.equal(await Deno.readTextFile(target), "the vendor's");
  const links = records.filter(({ found }) => found === "symbolic link");
  assert.deepEqual(links.map(({ path }) => path), [host.coil]);
});

Deno.test("install: a symbolic link in the configuration's place is merged and replaced, a dangling one is replaced", async () => {
  await using host = await Host.make();
  const options = await quick();
  const target = `${host.directory}/store.conflist`;
  const text = JSON.stringify({
    ...NETCONF,
    plugins: [...NETCONF.plugins, { type: "extra" }],
  });
  await Deno.writeTextFile(target, text);
  await Deno.symlink(target, host.conf);
  await host.install(options);
  assert.ok((await Deno.lstat(host.conf)).isFile);
  assert.deepEqual(await host.types(), ["coil", "portmap", "extra"]);
  assert.equal(await Deno.readTextFile(target), text);
  await Deno.remove(host.conf);
  await Deno.symlink("/nowhere/at/all", host.conf);
  await host.install(options);
  assert.ok((await Deno.lstat(host.conf)).isFile);
  assert.deepEqual(await host.types(), ["coil", "portmap"]);
});

Deno.test("install: a new file name takes the old file's plugins over", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  await chain(host, { type: "istio-cni" });
  await host.install({ ...options, args: ["--conf-name=01-coil.conflist"] });
  assert.deepEqual(namesIn(host.etc), ["01-coil.conflist"]);
  const { plugins } = await host.config("01-coil.conflist");
  assert.deepEqual(plugins.map(({ type }) => type), [
    "coil",
    "portmap",
    "istio-cni",
  ]);
});

const CHAIN = {
  CNI_CHAIN: "true",
  CNI_NETCONF: '{"plugins":[{"type":"coil","socket":"/s"}]}',
};
const KINDNET = {
  cniVersion: "0.3.1",
  name: "kindnet",
  plugins: [{ type: "ptp", ipam: { type: "host-local" } }, { type: "portmap" }],
};

Deno.test("install --chain: waits for another network, and becomes a part of it", async () => {
  await using host = await Host.make();
  const env = { ...(await quick()).env, ...CHAIN };
  const run = await host.start({ env });
  await run.until(
    "Waiting for another network's configuration to add coil to it",
  );
  assert.deepEqual([namesIn(host.bin), namesIn(host.etc)], [[], []]);
  await host.write("10-kindnet.conflist", KINDNET);
  assert.equal((await run.end()).code, 0);
  const [main, portmap] = KINDNET.plugins;
  assert.deepEqual(await host.config(), {
    ...KINDNET,
    plugins: [main, { type: "coil", socket: "/s" }, portmap],
    "coil.cybozu.com/installer": { plugins: ["ptp", "coil", "portmap"] },
  });
  assert.deepEqual(await host.config("10-kindnet.conflist"), KINDNET);
  assert.equal(await socketOf(host.coil), "/s");
});

Deno.test("install --chain: the other network's changes arrive, what others added to ours stays", async () => {
  await using host = await Host.make();
  const env = { ...(await quick()).env, ...CHAIN };
  await host.write("10-kindnet.conflist", KINDNET);
  await host.install({ env });
  await chain(host, { type: "istio-cni" });
  const [main] = KINDNET.plugins;
  const plugins = [{ ...main, mtu: 1400 }, { type: "bandwidth" }];
  await host.write("10-kindnet.conflist", { ...KINDNET, plugins });
  await host.install({ env });
  assert.deepEqual(
    await host.types(),
    ["ptp", "coil", "bandwidth", "istio-cni"],
  );
  assert.equal((await host.config()).plugins[0]?.["mtu"], 1400);
  const again = await host.install({ env });
  assert.ok(!messages(again).includes("Wrote the network configuration"));
});

Deno.test("install --chain: another network is followed to another name, and uninstall leaves it as it was", async () => {
  await using host = await Host.make();
  const env = { ...(await quick()).env, ...CHAIN };
  await host.write("10-kindnet.conflist", KINDNET);
  await host.install({ env });
  const calico = { ...KINDNET, name: "calico", plugins: [{ type: "calico" }] };
  await host.write("10-calico.conflist", calico);
  await host.install({ env });
  const others = ["10-calico.conflist", "10-kindnet.conflist"];
  assert.deepEqual(namesIn(host.etc), ["09-coil.conflist", ...others]);
  assert.equal((await host.config("09-coil.conflist")).name, "calico");
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.etc), others);
  assert.deepEqual(await host.config("10-calico.conflist"), calico);
  assert.deepEqual(await host.config("10-kindnet.conflist"), KINDNET);
});

Deno.test("install --chain: a list that somebody made by hand is replaced by the copy", async () => {
  await using host = await Host.make();
  const { env } = await quick();
  const byHand = {
    ...KINDNET,
    plugins: [{ type: "bridge" }, { type: "coil" }],
  };
  await host.write("01-coil.conflist", byHand);
  await host.write("10-kindnet.conflist", KINDNET);
  await host.install({
    env: { ...env, ...CHAIN, CNI_CONF_NAME: "01-coil.conflist" },
  });
  const { plugins } = await host.config("01-coil.conflist");
  assert.deepEqual(plugins.map(({ type }) => type), ["ptp", "coil", "portmap"]);
  assert.ok(namesIn(host.etc).some((name) => name.includes(".coil-saved-")));
});

Deno.test("install --prepare-egress: says for each family what the kernel can do, and never fails", async () => {
  await using host = await Host.make();
  const env = { ...(await quick()).env, COIL_PREPARE_EGRESS: "true" };
  // A network namespace of its own, since it tries to make links.
  const records = await host.install({ env, prefix: ["unshare", "--net"] });
  const told = records.filter(({ msg }) =>
    /(supports|not support) egress tunnels$/.test(msg)
  );
  assert.deepEqual(told.map(({ family }) => family), ["ipv4", "ipv6"]);
  for (const { msg, level, error } of told) {
    const isAble = msg === "The kernel supports egress tunnels";
    assert.equal(level, isAble ? "info" : "warn");
    assert.equal(error === undefined, isAble);
  }
});

Deno.test("install: a dry run says what it would do, and does nothing", async () => {
  await using host = await Host.make({ bare: true });
  const records = await host.install({ ...await quick(), args: ["--dry-run"] });
  assert.deepEqual(namesIn(host.directory), []);
  const would = messages(records).filter((msg) =>
    /^Would (?!create)/.test(msg)
  );
  assert.deepEqual(would, [
    "Would copy the executable",
    "Would write the network configuration",
  ]);
});

Deno.test("uninstall: configuration and plugin go, in this order, and what others have stays", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  await chain(host, { type: "istio-cni" });
  await Deno.writeTextFile(`${host.bin}/portmap`, "theirs");
  await host.write("87-other.conflist", "{}");
  const records = await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.etc), ["87-other.conflist"]);
  assert.deepEqual(namesIn(host.bin), ["portmap"]);
  const removed = records.filter(({ msg }) => msg === "Removed a file");
  assert.deepEqual(removed.map(({ path }) => path), [
    host.conf,
    host.coil,
  ]);
  const gone = records.find(({ msg }) =>
    /^Removed plugins that other/.test(msg)
  );
  assert.deepEqual(gone?.["plugins"], ["istio-cni"]);
  const again = await host.install({ args: ["uninstall"] });
  assert.equal(again.find(({ msg }) => msg === "Uninstalled")?.["changes"], 0);
});

Deno.test("uninstall: keeps what it is asked to keep", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  await host.install({
    args: ["uninstall", "--keep-config", "--keep-executable"],
  });
  assert.deepEqual([namesIn(host.etc), namesIn(host.bin)], [[NAME], PROGRAMS]);
  await host.install({ args: ["uninstall", "--keep-executable"] });
  assert.deepEqual([namesIn(host.etc), namesIn(host.bin)], [[], PROGRAMS]);
  await host.install(options);
  const records = await host.install({ args: ["uninstall", "--keep-config"] });
  assert.deepEqual([namesIn(host.etc), namesIn(host.bin)], [[NAME], []]);
  assert.ok(
    records.some(({ level, msg }) =>
      level === "warn" && /no pod can start/.test(msg)
    ),
  );
});

Deno.test("uninstall: a plugin that another build installed goes", async () => {
  await using host = await Host.make();
  await Deno.copyFile(await tinyPlugin(), host.coil);
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), []);
});

Deno.test("uninstall: where there is nothing, not even directories, there is nothing to do", async () => {
  await using host = await Host.make({ bare: true });
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.directory), []);
});

Deno.test("uninstall: a file of our name that is not ours stays", async () => {
  await using host = await Host.make();
  for (const text of ['{"name":"n","plugins":[{"type":"bridge"}]}', "{"]) {
    await host.write(NAME, text);
    await host.install({ args: ["uninstall"] });
    assert.equal(await Deno.readTextFile(host.conf), text);
  }
});

Deno.test("uninstall: configurations that had made way come back", async () => {
  await using host = await Host.make();
  const { env } = await quick();
  const calico = '{"name":"calico","plugins":[{"type":"calico"}]}';
  const bridge = '{"name":"bridge","plugins":[{"type":"bridge"}]}';
  await host.write("10-calico.conflist", calico);
  await host.write(NAME, bridge);
  await host.install({ env, args: ["--others=disable"] });
  assert.deepEqual(await host.types(), ["coil", "portmap"]);
  assert.deepEqual(namesIn(host.etc), [
    "10-calico.conflist.coil-disabled",
    NAME,
    `${NAME}.coil-disabled`,
  ]);
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.etc), ["10-calico.conflist", NAME]);
  assert.equal(
    await Deno.readTextFile(`${host.etc}/10-calico.conflist`),
    calico,
  );
  assert.equal(await Deno.readTextFile(host.conf), bridge);
});

Deno.test("coil-installer refuses what it does not know", async () => {
  await using host = await Host.make({ bare: true });
  for (
    const args of [
      ["frobnicate"],
      ["install", "x"],
      ["--keep-config"],
      ["--conf-name=../x.conflist"],
      ["--conf-name=x.conf"],
      ["--bin-dir=relative"],
    ]
  ) {
    const { code, stderr } = await host.run({ args });
    assert.equal(code, 1, args.join(" "));
    assert.match(stderr, /^Error: .+\nSee "coil-installer --help"\.\n$/);
  }
  assert.deepEqual(namesIn(host.directory), []);
});

Deno.test("install: coordinator is a link to coil when it is asked for, and uninstall removes it", async () => {
  await using host = await Host.make();
  const options = await quick();
  await host.install(options);
  assert.deepEqual(namesIn(host.bin), PROGRAMS);
  const args = ["--plugins=coil,coordinator"];
  await host.install({ ...options, args });
  const link = `${host.bin}/coordinator`;
  assert.equal(await Deno.readLink(link), "coil");
  // Pods of its networks are still to be deleted.
  await host.install(options);
  assert.equal(await Deno.readLink(link), "coil");
  const records = await host.install({ ...options, args });
  const installed = records.find(({ msg }) => msg === "Installed");
  assert.deepEqual(installed?.["executable"], {
    path: host.coil,
    state: "unchanged",
  });
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), []);
});

Deno.test("install: coordinator alone needs no configuration, writes none, and meets coild at its default socket", async () => {
  await using host = await Host.make();
  const options = await quick();
  const env = { ...options.env, COIL_PLUGINS: "coordinator", CNI_NETCONF: "" };
  await host.install({ ...options, env });
  assert.deepEqual(namesIn(host.bin).toSorted(), ["coil", "coordinator"]);
  assert.deepEqual(namesIn(host.etc), []);
  assert.equal(await socketOf(host.coil), "/run/coil/coild.sock");
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), []);
});

Deno.test("install: another program called coordinator is kept, also by uninstall", async () => {
  await using host = await Host.make();
  const options = await quick();
  const other = `${host.bin}/coordinator`;
  await Deno.writeTextFile(other, "Spiderpool's");
  const records = await host.install({
    ...options,
    env: { COIL_PLUGINS: "coil,coordinator" },
  });
  assert.ok(
    messages(records).some((m) => m.startsWith("Kept another program")),
  );
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), ["coordinator"]);
  assert.equal(await Deno.readTextFile(other), "Spiderpool's");
});

Deno.test("install: another program called coordinator makes way where it is to, and uninstall brings it back", async () => {
  await using host = await Host.make();
  const options = await quick();
  const other = `${host.bin}/coordinator`;
  await Deno.writeTextFile(other, "Spiderpool's", { mode: 0o755 });
  const args = ["--plugins=coil,coordinator", "--others=disable"];
  for (let i = 0; i < 2; i++) {
    await host.install({ ...options, args });
    assert.equal(await Deno.readLink(other), "coil");
  }
  await host.install({ args: ["uninstall"] });
  assert.deepEqual(namesIn(host.bin), ["coordinator"]);
  assert.equal(await Deno.readTextFile(other), "Spiderpool's");
  assert.equal(((await Deno.stat(other)).mode ?? 0) & 0o777, 0o755);
});
