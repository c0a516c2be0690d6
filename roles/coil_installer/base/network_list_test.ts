import assert from "node:assert/strict";
import {
  NetworkListError,
  noteOf,
  parseNetworkList,
  parseWantedList,
  typesOf,
  versionsOf,
} from "./network_list.ts";

const plugins = [{ type: "coil" }, { type: "portmap" }];

function text(changes: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: "net",
    plugins,
    ...changes,
  });
}

Deno.test("parseWantedList() takes what upstream ships", () => {
  const list = parseWantedList(JSON.stringify({
    cniVersion: "0.4.0",
    name: "k8s-pod-network",
    plugins: [
      { type: "coil", socket: "/run/coild.sock" },
      { type: "portmap", snat: true, capabilities: { portMappings: true } },
    ],
  }));
  assert.deepEqual(typesOf(list), ["coil", "portmap"]);
  assert.deepEqual(list.plugins[0]?.json, {
    type: "coil",
    socket: "/run/coild.sock",
  });
});

Deno.test("parseWantedList() takes a list in which coil comes after another plugin", () => {
  const list = parseWantedList(
    text({ plugins: [{ type: "ptp" }, { type: "coil" }] }),
  );
  assert.deepEqual(typesOf(list), ["ptp", "coil"]);
});

for (
  const [what, config, reason] of [
    ["nothing", "", /not JSON/],
    ["broken JSON", '{"name": "net",', /not JSON/],
    ["another JSON value", "[]", /it is not a JSON object/],
    ["null", "null", /it is not a JSON object/],
    ["no name", text({ name: undefined }), /it has no "name"/],
    ["a name that is none", text({ name: "../net" }), /invalid characters/],
    ["a number for a name", text({ name: 5 }), /it has no "name"/],
    [
      "a single plugin",
      '{"name":"net","type":"coil"}',
      /"plugins" must be a list/,
    ],
    ["an empty list", text({ plugins: [] }), /"plugins" must be a list/],
    ["plugins by name", text({ plugins: ["coil"] }), /plugins\[0\] is not a/],
    [
      "a nameless plugin",
      text({ plugins: [...plugins, {}] }),
      /plugins\[2\] has/,
    ],
    [
      "a plugin with a path",
      text({ plugins: [...plugins, { type: "../sh" }] }),
      /plugins\[2\] has no usable "type"/,
    ],
    [
      "no coil",
      text({ plugins: [{ type: "ptp" }] }),
      /one plugin of type "coil", and has 0 among \["ptp"\]/,
    ],
    [
      "coil twice",
      text({ plugins: [...plugins, { type: "coil" }] }),
      /and has 2/,
    ],
    [
      "a version of the future",
      text({ cniVersion: "2.0.0" }),
      /incompatible CNI versions.*"2\.0\.0"/,
    ],
    [
      "versions that are no list",
      text({ cniVersions: "1.1.0" }),
      /not a list of/,
    ],
  ] as const
) {
  Deno.test(`parseWantedList() refuses ${what}`, () => {
    assert.throws(
      () => parseWantedList(config),
      (error) =>
        error instanceof NetworkListError && reason.test(error.message),
    );
  });
}

Deno.test("parseNetworkList() takes what other tools write, and versions that we lack", () => {
  const list = parseNetworkList(
    '{"cniVersion":"9.0.0","name":"other","plugins":[{"type":"x"}]}',
  );
  assert.deepEqual(typesOf(list), ["x"]);
});

Deno.test("versionsOf() has cniVersion first, and none twice", () => {
  const json = {
    cniVersion: "1.0.0",
    cniVersions: ["0.4.0", "1.0.0", "1.1.0"],
  };
  assert.deepEqual(versionsOf(json), ["1.0.0", "0.4.0", "1.1.0"]);
  assert.deepEqual(versionsOf({}), []);
});

Deno.test("noteOf() survives a note that somebody edited", () => {
  const noted = (note: unknown) =>
    noteOf(parseNetworkList(text({ "coil.cybozu.com/installer": note })));
  assert.deepEqual(noted({ plugins: ["a", 5], keys: "x" }), {
    plugins: ["a"],
    keys: [],
  });
  assert.equal(noted(undefined), undefined);
  assert.equal(noted("x"), undefined);
});
