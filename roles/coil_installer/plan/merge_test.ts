import assert from "node:assert/strict";
import fc from "fast-check";
import { mergeLists, withNote } from "./merge.ts";
import {
  INSTALLER_KEY,
  type NetworkList,
  noteOf,
  parseNetworkList,
  typesOf,
} from "../base/network_list.ts";

type Json = Readonly<Record<string, unknown>>;

function listOf(
  types: readonly (string | Json)[],
  more: Json = {},
): NetworkList {
  const plugins = types.map((one) =>
    typeof one === "string" ? { type: one } : one
  );
  return parseNetworkList(
    JSON.stringify({ cniVersion: "1.0.0", name: "net", plugins, ...more }),
  );
}

/** As the installer writes it. */
function installed(wanted: NetworkList, existing?: NetworkList): NetworkList {
  const { list } = existing === undefined
    ? { list: wanted }
    : mergeLists(wanted, existing);
  return parseNetworkList(JSON.stringify(withNote(list, wanted)));
}

/** What another tool does: adds a plugin and leaves the rest as it is. */
function chained(list: NetworkList, plugin: Json, at?: number): NetworkList {
  const plugins = list.plugins.map(({ json }) => json);
  plugins.splice(at ?? plugins.length, 0, plugin);
  return parseNetworkList(JSON.stringify({ ...list.json, plugins }));
}

for (
  const [what, wanted, existing, result] of [
    [
      "one that was added last",
      "coil portmap",
      "coil portmap istio-cni",
      "coil portmap istio-cni",
    ],
    [
      "one that was added in between",
      "coil portmap",
      "coil istio-cni portmap",
      "coil istio-cni portmap",
    ],
    [
      "the order of several",
      "coil portmap",
      "coil a portmap b c",
      "coil a portmap b c",
    ],
    [
      "one whose neighbour is new",
      "coil tuning portmap",
      "coil portmap cilium-cni",
      "coil tuning portmap cilium-cni",
    ],
    [
      "one when ours change their order",
      "coil b a",
      "coil a x b y",
      "coil b a x y",
    ],
    [
      "one of a type that we have, too",
      "coil tuning",
      "coil tuning tuning",
      "coil tuning tuning",
    ],
    [
      "one behind another's main plugin",
      "ptp coil",
      "ptp coil linkerd-cni",
      "ptp coil linkerd-cni",
    ],
  ] as const
) {
  Deno.test(`mergeLists() keeps ${what}`, () => {
    const merged = mergeLists(
      listOf(wanted.split(" ")),
      listOf(existing.split(" ")),
    );
    assert.equal(typesOf(merged.list).join(" "), result);
    assert.deepEqual(merged.dropped, []);
  });
}

Deno.test("mergeLists() takes our entries from the wanted list, those of others from the existing one", () => {
  const wanted = listOf([{ type: "coil", socket: "/new" }, "portmap"]);
  const existing = listOf([
    { type: "coil", socket: "/old" },
    { type: "portmap", snat: false },
    { type: "istio-cni", kubernetes: { kubeconfig: "/k" } },
  ]);
  const { list, kept } = mergeLists(wanted, existing);
  assert.deepEqual(list.json["plugins"], [
    { type: "coil", socket: "/new" },
    { type: "portmap" },
    { type: "istio-cni", kubernetes: { kubeconfig: "/k" } },
  ]);
  assert.deepEqual(kept, ["istio-cni"]);
});

Deno.test("mergeLists() removes what the installer wrote once and is not wanted any more", () => {
  const before = chained(
    installed(listOf(["coil", "bandwidth", "portmap"])),
    { type: "istio-cni" },
    2,
  );
  const { list, kept } = mergeLists(listOf(["coil", "portmap"]), before);
  assert.deepEqual(typesOf(list), ["coil", "istio-cni", "portmap"]);
  assert.deepEqual(kept, ["istio-cni"]);
});

Deno.test("mergeLists() keeps what nobody noted to be ours, such as in upstream's file", () => {
  const upstream = listOf(["coil", "bandwidth", "portmap"]);
  const { list } = mergeLists(listOf(["coil", "portmap"]), upstream);
  assert.deepEqual(typesOf(list), ["coil", "bandwidth", "portmap"]);
});

Deno.test("mergeLists() gives up the main plugin before coil when coil comes first now", () => {
  const standalone = listOf([{ type: "ptp", ipam: {} }, "coil", "portmap"]);
  const merged = mergeLists(listOf(["coil", "portmap"]), standalone);
  assert.deepEqual(typesOf(merged.list), ["coil", "portmap"]);
  assert.deepEqual(merged.dropped, ["ptp"]);
});

Deno.test("mergeLists() gives up the main plugin of a list that nobody noted to be ours", () => {
  const byHand = listOf(["ptp", "coil", "portmap", "istio-cni"]);
  const merged = mergeLists(listOf(["bridge", "coil"]), byHand);
  assert.equal(typesOf(merged.list).join(" "), "bridge coil portmap istio-cni");
  assert.deepEqual(merged.dropped, ["ptp"]);
});

Deno.test("mergeLists() keeps keys of others, not those of the specification nor ours of before", () => {
  const before = installed(listOf(["coil"], { ours: 1, disableGC: true }));
  const existing = parseNetworkList(
    JSON.stringify({ ...before.json, theirs: 2, cniVersions: ["1.1.0"] }),
  );
  const { list } = mergeLists(listOf(["coil"], { name: "new" }), existing);
  assert.deepEqual(list.json, {
    cniVersion: "1.0.0",
    name: "new",
    theirs: 2,
    plugins: [{ type: "coil" }],
  });
});

Deno.test("withNote() notes the wanted plugins and keys alone", () => {
  const wanted = listOf(["coil", "portmap"], { ours: 1 });
  const list = installed(wanted, chained(wanted, { type: "x" }));
  assert.deepEqual(typesOf(list), ["coil", "portmap", "x"]);
  assert.deepEqual(noteOf(list), {
    plugins: ["coil", "portmap"],
    keys: ["ours"],
  });
});

const types = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 5 });

Deno.test("mergeLists() loses no plugin of others, doubles none, and is stable, for any lists", () => {
  fc.assert(fc.property(types, types, types, (first, second, added) => {
    const file = added.reduce(
      (list, type, i) =>
        chained(list, { type: `x-${type}-${i}` }, 1 + i % list.plugins.length),
      installed(listOf(["coil", ...first])),
    );
    const wanted = listOf(["coil", ...second]);
    const once = installed(wanted, file);
    const ours = typesOf(once).filter((type) => !type.startsWith("x-"));
    assert.deepEqual(ours, ["coil", ...second]);
    const theirs = (list: NetworkList) =>
      typesOf(list).filter((type) => type.startsWith("x-")).sort();
    assert.deepEqual(theirs(once), theirs(file));
    assert.deepEqual(installed(wanted, once).json, once.json);
    assert.ok(Object.hasOwn(once.json, INSTALLER_KEY));
  }));
});
