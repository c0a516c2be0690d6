import assert from "node:assert/strict";
import type { Program } from "../base/program.ts";
import type {
  FormerExecutable,
  InstalledState,
  PluginLink,
} from "../read/installed.ts";
import {
  planCoordinator,
  planPlugin,
  planPluginRemoval,
} from "./plugin_files.ts";
import type { HostPlaces } from "./request.ts";

const PLACES: HostPlaces = {
  binDirectory: "/bin",
  etcDirectory: "/etc",
  confName: undefined,
};
const PROGRAM: Program = {
  sizeBytes: 0,
  chunks: async function* () {},
};

const SAME: InstalledState = { kind: "same", mode: 0o755 };
const OTHER: InstalledState = { kind: "different", found: "x86_64, 1 bytes" };
const NO_SECOND: FormerExecutable = "absent";
const INSTALL = { kind: "installProgram", path: "/bin/coil", program: PROGRAM };
const SECOND = "/bin/coil-executable";

for (
  const [what, plugin, former, steps] of [
    ["nothing", { kind: "absent" }, NO_SECOND, [INSTALL]],
    ["another file", OTHER, NO_SECOND, [INSTALL]],
    ["the same file", SAME, NO_SECOND, []],
    [
      "the same file with another mode",
      { kind: "same", mode: 0o700 },
      NO_SECOND,
      [
        { kind: "setMode", path: "/bin/coil", mode: 0o755 },
      ],
    ],
    ["two files of a former version", OTHER, "executable", [
      { ...INSTALL, former: SECOND },
    ]],
    ["only the second file", { kind: "absent" }, "executable", [
      { ...INSTALL, former: SECOND },
    ]],
    ["what an interrupted run left", SAME, "executable", [
      { kind: "link", path: SECOND },
    ]],
    ["the link of an earlier run", SAME, "link", [
      { kind: "remove", path: SECOND },
    ]],
    ["another file and a link", OTHER, "link", [
      INSTALL,
      { kind: "remove", path: SECOND },
    ]],
    ["somebody's second file", OTHER, "foreign", [INSTALL]],
  ] as const satisfies readonly (readonly [
    string,
    InstalledState,
    FormerExecutable,
    unknown,
  ])[]
) {
  Deno.test(`planPlugin() where the node has ${what}`, () => {
    const installed = { plugin, former };
    const plan = planPlugin(PLACES, { program: PROGRAM, installed });
    assert.deepEqual(plan, steps);
  });
}

Deno.test("planCoordinator() makes a link where nothing is, and in another program's place where that is wanted", () => {
  const path = "/bin/coordinator";
  const link = { kind: "link", path };
  for (const others of ["keep", "disable"] as const) {
    const plan = (found: PluginLink) =>
      planCoordinator(PLACES, { found, others });
    assert.deepEqual(plan("absent"), [link]);
    assert.deepEqual(plan("ours"), []);
    const rename = { kind: "rename", path, to: `${path}.coil-disabled` };
    const steps = others === "keep" ? [] : [rename, link];
    assert.deepEqual(plan("foreign"), steps);
  }
});

Deno.test("planPluginRemoval() removes what is called before what it calls, and nothing of others", () => {
  const plan = (
    plugin: boolean,
    former: FormerExecutable,
    coordinator: PluginLink = "absent",
    hasDisabled = false,
  ) =>
    planPluginRemoval(PLACES, { plugin, former, coordinator, hasDisabled })
      .map(({ path }) => path);
  assert.deepEqual(plan(true, NO_SECOND), ["/bin/coil"]);
  assert.deepEqual(plan(false, NO_SECOND), []);
  assert.deepEqual(plan(true, "executable"), ["/bin/coil", SECOND]);
  assert.deepEqual(plan(false, "link"), [SECOND]);
  assert.deepEqual(plan(true, "foreign"), ["/bin/coil"]);
  const link = "/bin/coordinator";
  assert.deepEqual(plan(true, NO_SECOND, "ours"), [link, "/bin/coil"]);
  assert.deepEqual(plan(true, NO_SECOND, "foreign"), ["/bin/coil"]);
  for (const found of ["ours", "absent"] as const) {
    assert.deepEqual(plan(true, NO_SECOND, found, true), [
      `${link}.coil-disabled`,
      "/bin/coil",
    ]);
  }
  assert.deepEqual(plan(true, NO_SECOND, "foreign", true), ["/bin/coil"]);
});
