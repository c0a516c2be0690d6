import assert from "node:assert/strict";
import { VERSION } from "../../lib/names/mod.ts";
import { type RoleName, run } from "./testing.ts";

const PROGRAMS: readonly RoleName[] = [
  "coild",
  "coil-controller",
  "coil-ipam-controller",
  "coil-egress-controller",
  "coil-egress",
  "coil-router",
  "coil-installer",
];

for (const role of PROGRAMS) {
  Deno.test(`${role} knows its name and version`, async () => {
    const { code, stdout } = await run(role, { args: ["--version"] });
    assert.equal(stdout, `${role} version ${VERSION}\n`);
    assert.equal(code, 0);
  });

  Deno.test(`${role} has help`, async () => {
    for (const flag of ["--help", "-h"]) {
      const { code, stdout } = await run(role, { args: [flag] });
      assert.match(stdout, /--zap-log-level/);
      assert.match(stdout, new RegExp(`\\b${role}\\b`));
      assert.equal(code, 0);
    }
  });

  Deno.test(`${role} refuses an unknown flag`, async () => {
    const said = await run(role, { args: ["--frobnicate"] });
    assert.deepEqual(said, {
      code: 1,
      stdout: "",
      stderr: `Error: unknown flag: --frobnicate\nSee "${role} --help".\n`,
    });
  });

  Deno.test(`${role} is there by argument, too`, async () => {
    const { stdout } = await run("coil", { args: [role, "--version"] });
    assert.equal(stdout, `${role} version ${VERSION}\n`);
  });
}

for (
  const [args, reason] of [
    [
      ["--enable-ipam=false", "--enable-egress=false"],
      "--enable-ipam, --enable-egress and --enable-coordinator are all false, so there is nothing to do",
    ],
    [
      ["--pod-table-id=0"],
      "route table 0 does not exist; --pod-table-id and --export-table-id may be 0 with --enable-ipam=false only",
    ],
  ] as const
) {
  Deno.test(`coild refuses ${args.join(" ")} in words`, async () => {
    const { code, stderr } = await run("coild", { args });
    assert.equal(stderr, `Error: ${reason}\nSee "coild --help".\n`);
    assert.equal(code, 1);
  });
}

Deno.test("coild says that the name of its node is missing", async () => {
  const { code, stderr } = await run("coild");
  assert.equal(code, 1);
  assert.match(
    stderr,
    /"error":"Cannot start: environment variable COIL_NODE_NAME is not set"/,
  );
});

Deno.test("coil-egress says which part of its environment is missing", async () => {
  const { code, stderr } = await run("coil-egress");
  assert.equal(code, 1);
  assert.match(stderr, /COIL_POD_NAMESPACE is not set/);
});

Deno.test("a role's prefix can be left out", async () => {
  const { stdout } = await run("coil", { args: ["controller", "--version"] });
  assert.equal(stdout, `coil-controller version ${VERSION}\n`);
});

Deno.test("a daemon is not taken for the plugin", async () => {
  const { stdout } = await run("coild", {
    args: ["--version"],
    env: { CNI_COMMAND: "ADD" },
  });
  assert.equal(stdout, `coild version ${VERSION}\n`);
});

Deno.test("coil-migrator is there by name, and as coil migrate", async () => {
  for (
    const [role, args, program] of [
      ["coil-migrator", [], "coil-migrator"],
      ["coil", ["migrate"], "coil migrate"],
      ["coil", ["migrator"], "coil-migrator"],
    ] as const
  ) {
    const help = await run(role, { args: [...args, "--help"] });
    assert.equal(help.code, 0);
    for (const command of ["dump", "replace", "status"]) {
      assert.match(help.stdout, new RegExp(`^  ${program} ${command} `, "m"));
      const own = await run(role, { args: [...args, command, "--help"] });
      assert.equal(own.code, 0);
      assert.match(own.stdout, new RegExp(`${program} ${command} \\[flags\\]`));
    }
    const bad = await run(role, { args: [...args, "frobnicate"] });
    assert.equal(bad.code, 2);
    assert.match(bad.stderr, /dump, replace, status/);
  }
});

Deno.test("coil tells a person what it is", async () => {
  const { code, stdout, stderr } = await run("coil");
  assert.equal(code, 0);
  assert.equal(stdout, "");
  assert.match(stderr, new RegExp(`^CNI plugin coil v${VERSION}\n`));
  assert.match(stderr, /supported: 0\.3\.1, 0\.4\.0, 1\.0\.0, 1\.1\.0\n/);
});

Deno.test("coil version says how the file was made", async () => {
  for (const word of ["version", "--version", "-v"]) {
    const { code, stdout } = await run("coil", { args: [word] });
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^coil version ${VERSION}\n`));
    assert.match(stdout, /deno compile/);
  }
});

Deno.test("coil --help lists its commands", async () => {
  const { code, stdout } = await run("coil", { args: ["--help"] });
  assert.equal(code, 0);
  assert.match(stdout, /version/);
});

Deno.test("coil refuses an unknown command", async () => {
  const { code, stdout, stderr } = await run("coil", { args: ["frobnicate"] });
  assert.notEqual(code, 0);
  assert.match(stdout + stderr, /frobnicate/);
});
