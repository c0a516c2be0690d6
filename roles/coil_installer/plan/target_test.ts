import assert from "node:assert/strict";
import { parseChainEntry } from "./chain.ts";
import { InstallError } from "../base/errors.ts";
import { parseWantedList } from "../base/network_list.ts";
import { socketOf, type Wanted } from "./target.ts";

/** A list in which our plugin, with these keys, stands behind another. */
function listed(keys: Readonly<Record<string, unknown>>): Wanted {
  const plugins = [{ type: "x", socket: "/x" }, { type: "coil", ...keys }];
  const json = { cniVersion: "1.0.0", name: "n", plugins };
  return { kind: "list", list: parseWantedList(JSON.stringify(json)) };
}

/** The same for the list of another network. */
function chained(keys: Readonly<Record<string, unknown>>): Wanted {
  const json = { plugins: [{ type: "coil", ...keys }] };
  return { kind: "chained", entry: parseChainEntry(JSON.stringify(json)) };
}

for (
  const [kind, wanted] of [["list", listed], ["chained", chained]] as const
) {
  Deno.test(`socketOf() reads our plugin's entry alone: ${kind}`, () => {
    assert.equal(socketOf(wanted({ socket: "/run/a.sock" })), "/run/a.sock");
  });

  Deno.test(`socketOf() has coild's default where the plugin would: ${kind}`, () => {
    for (const keys of [{}, { socket: null }, { socket: "" }]) {
      assert.equal(socketOf(wanted(keys)), "/run/coild.sock");
    }
  });

  Deno.test(`socketOf() refuses what is no text: ${kind}`, () => {
    for (const socket of [7, false, {}, ["/run/a.sock"]]) {
      assert.throws(() => socketOf(wanted({ socket })), InstallError);
    }
  });
}
