import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import type { Mode } from "../config/config.ts";
import { resolveMode } from "./mode.ts";

/** Mode, interface, links, and what comes of it; a message's beginning for an error. */
const CASES: readonly (readonly [Mode, string, string[], string])[] = [
  ["auto", "foo0", ["foo0"], "underlay"],
  ["auto", "net1", ["foo0", "net1"], "overlay"],
  ["auto", "net1", ["foo0", "net1", "veth0"], "underlay"],
  ["underlay", "foo0", ["foo0"], "underlay"],
  ["underlay", "net1", ["foo0", "net1", "veth0"], "underlay"],
  [
    "underlay",
    "net1",
    ["foo0", "net1"],
    'interface "net1" needs veth0, which was not created by previous interface',
  ],
  ["overlay", "net1", ["foo0", "net1"], "overlay"],
  [
    "overlay",
    "foo0",
    ["foo0"],
    'mode overlay does not fit first interface "foo0"',
  ],
  [
    "overlay",
    "net1",
    ["foo0", "net1", "veth0"],
    'mode overlay does not fit interface "net1": auxiliary interface veth0 of underlay mode exists',
  ],
];

for (const [mode, nic, links, expected] of CASES) {
  Deno.test(`resolveMode() makes of ${mode} for ${nic} beside ${links}: ${expected}`, () => {
    let found: string;
    try {
      found = resolveMode(nic, links, { mode, firstNic: "foo0" });
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      assert.equal(error.code, 7);
      found = error.message;
    }
    assert.equal(found, expected);
  });
}
