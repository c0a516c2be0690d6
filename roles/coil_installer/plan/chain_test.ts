import assert from "node:assert/strict";
import {
  chainInto,
  findChainSource,
  nameBefore,
  parseChainEntry,
} from "./chain.ts";
import { InstallError } from "../base/errors.ts";
import { withNote } from "./merge.ts";
import {
  NetworkListError,
  parseNetworkList,
  typesOf,
} from "../base/network_list.ts";
import type { ConfigFile } from "../read/situation.ts";
import { resolveTarget } from "./target.ts";

const ENTRY = parseChainEntry('{"plugins":[{"type":"coil","socket":"/s"}]}');

function filesOf(files: Readonly<Record<string, unknown>>): ConfigFile[] {
  return Object.entries(files).map(([name, json]) => ({
    name,
    text: typeof json === "string" ? json : JSON.stringify(json),
    mode: 0o600,
    isLink: false,
  }));
}

function list(...types: string[]) {
  const plugins = types.map((type) => ({ type }));
  return { cniVersion: "0.3.1", name: "net", plugins };
}

function sourceOf(files: Readonly<Record<string, unknown>>) {
  return findChainSource(filesOf(files), undefined);
}

Deno.test("parseChainEntry() takes our plugin alone, in a list of any form", () => {
  assert.deepEqual(ENTRY.json, { type: "coil", socket: "/s" });
  assert.equal(parseChainEntry(JSON.stringify(list("coil"))).type, "coil");
  for (const types of [["coil", "portmap"], ["ptp"], ["coil", "coil"]]) {
    assert.throws(
      () => parseChainEntry(JSON.stringify(list(...types))),
      (error) =>
        error instanceof NetworkListError &&
        /with --chain it needs the plugin "coil" alone/.test(error.message),
    );
  }
});

Deno.test("findChainSource() takes the file that a runtime would", () => {
  const files = {
    "20-second.conflist": list("bridge"),
    "10-first.conflist": list("ptp", "portmap"),
    "05-disabled.conflist.bak": list("x"),
    "README": "none",
  };
  assert.equal(sourceOf(files)?.name, "10-first.conflist");
  assert.equal(sourceOf({}), undefined);
});

Deno.test("findChainSource() passes over what is no network: ours, the loopback, Multus, what cannot be read", () => {
  const wanted = parseNetworkList(JSON.stringify(list("ptp", "coil")));
  const files = {
    "00-broken.conflist": "{",
    "00-multus.conf": { name: "m", type: "multus", delegates: [list("ptp")] },
    "01-lo.conf": { name: "lo", type: "loopback" },
    "02-nameless.conf": { type: "bridge" },
    "03-ours.conflist": withNote(wanted, wanted),
    "04-given.conflist": list("ptp", "coil"),
    "10-kindnet.conflist": list("ptp", "portmap"),
  };
  const source = findChainSource(filesOf(files), "04-given.conflist");
  assert.equal(source?.name, "10-kindnet.conflist");
});

Deno.test("chainInto() puts our plugin behind the main one, and keeps all else", () => {
  const kindnet = {
    cniVersion: "0.3.1",
    name: "kindnet",
    disableCheck: true,
    plugins: [
      { type: "ptp", ipam: { ranges: [[{ subnet: "10.244.1.0/24" }]] } },
      { type: "coil", socket: "/old" },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
  const source = sourceOf({ "10-kindnet.conflist": kindnet });
  assert.ok(source !== undefined);
  const [main, , portmap] = kindnet.plugins;
  assert.deepEqual(chainInto(source, ENTRY).json, {
    ...kindnet,
    plugins: [main, { type: "coil", socket: "/s" }, portmap],
  });
});

Deno.test("chainInto() makes a list of a single plugin's configuration", () => {
  const conf = { cniVersion: "1.0.0", name: "br", type: "bridge", ipam: {} };
  const source = sourceOf({ "10-bridge.conf": conf });
  assert.ok(source !== undefined);
  assert.deepEqual(chainInto(source, ENTRY).json, {
    cniVersion: "1.0.0",
    name: "br",
    plugins: [{ type: "bridge", ipam: {} }, { type: "coil", socket: "/s" }],
  });
});

Deno.test("chainInto() refuses a version that we do not have", () => {
  const old = { ...list("ptp"), cniVersion: "0.2.0" };
  const source = sourceOf({ "10-old.conflist": old });
  assert.ok(source !== undefined);
  assert.throws(
    () => chainInto(source, ENTRY),
    (error) => error instanceof InstallError && /10-old/.test(error.message),
  );
});

for (
  const [name, before] of [
    ["10-kindnet.conflist", "10-coil.conflist"],
    ["10-calico.conflist", "09-coil.conflist"],
    ["05-cilium.conflist", "04-coil.conflist"],
    ["100-crio-bridge.conflist", "100-coil.conflist"],
    ["1-a.conflist", "0-coil.conflist"],
    ["net.conflist", "00-coil.conflist"],
    ["00-net.conflist", "00-coil.conflist"],
  ] as const
) {
  Deno.test(`nameBefore() finds ${before} for ${name}`, () => {
    assert.equal(nameBefore(name), before);
    assert.ok(before < name);
  });
}

Deno.test("nameBefore() gives up where nothing can come before", () => {
  assert.throws(() => nameBefore("00-a.conflist"), InstallError);
});

Deno.test("resolveTarget() refuses a given name that runtimes would never come to", () => {
  const files = filesOf({ "10-calico.conflist": list("calico") });
  const resolve = (givenName: string) =>
    resolveTarget({ kind: "chained", entry: ENTRY }, { files, givenName });
  assert.equal(resolve("01-coil.conflist")?.name, "01-coil.conflist");
  assert.throws(
    () => resolve("10-coil.conflist"),
    /runtimes use it before "10-coil\.conflist"; set .* 09-coil\.conflist/,
  );
});

Deno.test("resolveTarget() chains behind the main plugin, under a name before the source's", () => {
  const files = filesOf({ "10-calico.conflist": list("calico", "portmap") });
  const wanted = { kind: "chained", entry: ENTRY } as const;
  const target = resolveTarget(wanted, { files, givenName: undefined });
  assert.equal(target?.name, "09-coil.conflist");
  assert.equal(target?.source, "10-calico.conflist");
  assert.deepEqual(target && typesOf(target.list), [
    "calico",
    "coil",
    "portmap",
  ]);
  assert.equal(
    resolveTarget(wanted, { files: [], givenName: undefined }),
    undefined,
  );
});
