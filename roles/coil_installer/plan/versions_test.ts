import assert from "node:assert/strict";
import { InstallError } from "../base/errors.ts";
import { parseNetworkList } from "../base/network_list.ts";
import { negotiateVersions } from "./versions.ts";

const PLUGINS = [{ type: "coil" }, { type: "portmap" }, { type: "other" }];

function list(cniVersion: string | undefined, cniVersions?: readonly string[]) {
  return parseNetworkList(
    JSON.stringify({ cniVersion, cniVersions, name: "n", plugins: PLUGINS }),
  );
}

const COIL = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];
const OLD = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0"];

Deno.test("negotiateVersions() leaves a list alone that all plugins understand", () => {
  const wanted = list("1.0.0", ["1.0.0", "1.1.0"]);
  const { json, leftOut } = negotiateVersions(
    wanted,
    new Map([["coil", COIL], ["portmap", COIL]]),
  );
  assert.equal(json, wanted.json);
  assert.deepEqual(leftOut, {});
});

Deno.test("negotiateVersions() leaves out what a plugin lacks", () => {
  const { json, leftOut } = negotiateVersions(
    list("0.4.0", ["0.4.0", "1.0.0", "1.1.0"]),
    new Map([["coil", COIL], ["portmap", [...OLD, "1.0.0"]]]),
  );
  assert.equal(json["cniVersion"], "0.4.0");
  assert.deepEqual(json["cniVersions"], ["0.4.0", "1.0.0"]);
  assert.deepEqual(leftOut, { "1.1.0": ["portmap"] });
});

Deno.test("negotiateVersions() falls back to the highest version that is left", () => {
  const { json } = negotiateVersions(
    list("1.1.0", ["0.3.1", "0.4.0", "1.1.0"]),
    new Map([["other", OLD]]),
  );
  assert.equal(json["cniVersion"], "0.4.0");
  assert.deepEqual(json["cniVersions"], ["0.3.1", "0.4.0"]);
});

Deno.test("negotiateVersions() adds no key that was not wanted", () => {
  const { json } = negotiateVersions(list("1.0.0"), new Map([["coil", COIL]]));
  assert.equal(Object.hasOwn(json, "cniVersions"), false);
  assert.equal(
    Object.hasOwn(
      negotiateVersions(list(undefined), new Map()).json,
      "cniVersion",
    ),
    false,
  );
});

Deno.test("negotiateVersions() names the plugins when no version is left", () => {
  assert.throws(
    () =>
      negotiateVersions(
        list("1.0.0", ["1.1.0"]),
        new Map([["coil", COIL], ["portmap", OLD]]),
      ),
    (error) =>
      error instanceof InstallError &&
      /version 1\.0\.0 or 1\.1\.0; .*portmap \(0\.1\.0.*newer plugins/.test(
        error.message,
      ),
  );
});
