import assert from "node:assert/strict";
import { CommandError } from "../../lib/command/mod.ts";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { KubeApiError, KubeUnreachableError } from "../../lib/kube/mod.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { explain } from "./base/errors.ts";
import { COMMANDS } from "./mod.ts";
import { coil as runCoil, type Output } from "./testing.ts";

function coil(...args: readonly string[]): Promise<Output> {
  return runCoil(args, { now: () => new Date(0) });
}

for (const args of [[], ["help"], ["--help"], ["-h"]]) {
  Deno.test(`coil ${args.join(" ")} lists the commands`, async () => {
    const { code, out, err } = await coil(...args);
    assert.deepEqual([code, err], [0, ""]);
    for (const { path } of COMMANDS) {
      assert.match(out, new RegExp(`^  coil ${path} +\\S`, "m"));
    }
  });
}

for (const line of ["ipam --help", "ipam -h", "ipam help", "help ipam"]) {
  Deno.test(`coil ${line} lists the commands`, async () => {
    const { code, out, err } = await coil(...line.split(" "));
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^ +coil ipam show /m);
  });
}

Deno.test("coil help ipam show is coil ipam show --help", async () => {
  assert.deepEqual(
    await coil("help", "ipam", "show"),
    await coil("ipam", "show", "--help"),
  );
});

Deno.test("a mistake in a command's flags leads to that command's help", async () => {
  const { err } = await coil("ipam", "show", "--pol");
  assert.match(err, /\nSee "coil ipam show --help"\.\n$/);
});

for (const args of [["version"], ["--version"]]) {
  Deno.test(`coil ${args.join(" ")} tells version and build`, async () => {
    const { code, out } = await coil(...args);
    assert.equal(code, 0);
    const deno = Deno.version.deno.replaceAll(".", "\\.");
    assert.match(
      out,
      new RegExp(`^coil version ${VERSION}\\n.+, deno ${deno}\\n$`),
    );
  });
}

const MISTAKES: readonly (readonly [string, RegExp])[] = [
  ["shwo", /^Error: unknown command "shwo"\nSee "coil help"\.\n$/],
  ["ipam", /"ipam" needs one of: show, map, check, drain\n/],
  ["ipam drop", /unknown command "ipam drop": not show, map, check, drain\n/],
  ["egress", /"egress" needs one of: show\n/],
  [
    "egress show",
    /an argument is missing: needs one of clients, gateways, sources\n/,
  ],
  ["connectivity", /"connectivity" needs one of: test\n/],
  ["connectivity test all", /unexpected argument: all\n/],
  [
    "connectivity test -n A/b",
    /"A\/b" for "--namespace" is not a valid name\n/,
  ],
  ["connectivity test --egress nat/out", /--egress needs --target\n/],
  ["connectivity test --target http://x/", /--target needs --egress\n/],
  [
    "connectivity test --egress out --target http://x/",
    /"out" needs to be NAMESPACE\/NAME/,
  ],
  [
    "connectivity test --egress nat/out --target 203.0.113.7",
    /"203.0.113.7" for "--target": needs a URL of http or https/,
  ],
  ["connectivity test -o yaml", /needs one of text, json, junit/],
  ["egress show clients nat", /"nat" needs to be NAMESPACE\/NAME/],
  ["egress show sources --pod web", /"web" needs to be NAMESPACE\/NAME/],
  ["explain", /needs an address or NAMESPACE\/POD/],
  ["explain a/b/c", /"a\/b\/c" is neither an address nor NAMESPACE\/POD/],
  ["explain apps/web x", /unexpected argument: x/],
  [
    "explain apps/web --to 10.0.0.0/8",
    /"10.0.0.0\/8" for "--to": needs an address/,
  ],
  ["ipam map", /needs the name of an AddressPool/],
  ["ipam drain", /needs the name of an AddressPool/],
  ["ipam map a b", /unexpected argument: b\n/],
  ["ipam check all", /unexpected argument: all\n/],
  [
    "ipam show nodes",
    /unknown argument "nodes": needs one of pools, blocks, addresses/,
  ],
  ["ipam show pools blocks", /unexpected argument: blocks\n/],
  ["ipam show -n apps", /--namespace is for addresses, not for pools\n/],
  ["ipam show blocks -n apps", /--namespace is for addresses, not for blocks/],
  ["help shwo", /unknown command "shwo"/],
  [
    "ipam show -o yaml",
    /"yaml" for "--output": needs one of table, wide, json/,
  ],
  ["ipam show --page-size 0", /"0" for "--page-size": needs a number from 1/],
  ["ipam show --pol default", /unknown flag: --pol/],
  ["completion ksh", /unknown argument "ksh": needs one of bash, zsh, fish/],
  ["completion", /an argument is missing: needs one of bash, zsh, fish/],
  ["completion bash zsh", /unexpected argument: zsh\n/],
  ["version now", /unexpected argument: now/],
];

for (const [line, message] of MISTAKES) {
  Deno.test(`coil ${line}: exit code 2 and the reason on stderr`, async () => {
    const { code, out, err } = await coil(...line.split(" "));
    assert.deepEqual([code, out], [2, ""]);
    assert.match(err, message);
  });
}

Deno.test("coil ipam show with a kubeconfig that is not there: exit code 1", async () => {
  const file = "/nonexistent/kubeconfig";
  const { code, out, err } = await coil("ipam", "show", "--kubeconfig", file);
  assert.deepEqual([code, out], [1, ""]);
  assert.match(
    err,
    /^Error: Cannot read the kubeconfig "\/nonexistent\/kubeconfig": /,
  );
});

Deno.test("coil COMMAND --help shows the command's flags", async () => {
  const { code, out } = await coil("ipam", "show", "--help");
  assert.equal(code, 0);
  assert.match(out, /coil ipam show \[flags\] \[pools\|blocks\|addresses\]/);
  assert.match(out, /-o, --output/);
});

for (const shell of ["bash", "zsh", "fish"]) {
  Deno.test(`coil completion ${shell} knows commands, subjects and flags`, async () => {
    const { code, out } = await coil("completion", shell);
    assert.equal(code, 0);
    for (const word of ["ipam", "show", "addresses", "output", "wide"]) {
      assert.match(out, new RegExp(`\\b${word}\\b`), word);
    }
  });
}

Deno.test("coil completion bash completes in a real shell", async () => {
  const { out } = await coil("completion", "bash");
  const complete = async (
    words: readonly string[],
    env: Record<string, string> = {},
  ): Promise<string[]> => {
    const script = `${out}
COMP_WORDS=(coil ${words.map((word) => `"${word}"`).join(" ")})
COMP_CWORD=${words.length}
_coil
printf '%s\\n' "\${COMPREPLY[@]}"`;
    const command = new Deno.Command("bash", { args: ["-c", script], env });
    const { stdout } = await command.output();
    return new TextDecoder().decode(stdout).split("\n").filter((w) => w !== "");
  };
  assert.deepEqual(await complete(["ip"]), ["ipam"]);
  assert.deepEqual(await complete(["ipam", ""]), [
    "show",
    "map",
    "check",
    "drain",
    "--help",
  ]);
  assert.deepEqual(await complete(["ipam", "show", "a"]), ["addresses"]);
  assert.deepEqual(await complete(["ipam", "show", "--ou"]), ["--output"]);
  assert.deepEqual(
    await complete(["ipam", "show", "--output", ""]),
    ["table", "wide", "json"],
  );
  assert.deepEqual(await complete(["completion", "z"]), ["zsh"]);
  // Instead of the program: one that has two pools.
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(
      `${directory}/coil`,
      `#!/bin/sh\n[ "$*" = "ipam show pools --no-headers" ] && printf 'blue   True\\ngreen   True\\n'\n`,
      { mode: 0o755 },
    );
    const path = Deno.env.get("PATH") ?? "";
    const env = { PATH: `${directory}:${path}` };
    assert.deepEqual(
      await complete(["ipam", "show", "blocks", "--pool", ""], env),
      ["blue", "green"],
    );
    assert.deepEqual(
      await complete(["ipam", "show", "--pool", "g"], env),
      ["green"],
    );
    assert.deepEqual(await complete(["egress", "show", "s"]), ["sources"]);
    for (const command of ["map", "drain"]) {
      assert.deepEqual(await complete(["ipam", command, "b"], env), ["blue"]);
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("explain() adds what to do to an error of the API server", () => {
  const error = (status: number) => new KubeApiError("No", { status });
  assert.match(explain(error(403)) ?? "", /^No\n.*ClusterRole view/);
  assert.match(explain(error(404)) ?? "", /^No\n.*apply -f crds/);
  assert.match(explain(error(401)) ?? "", /^No\n.*credentials/);
  assert.equal(explain(error(500)), "No");
  const away = new KubeUnreachableError("Away");
  assert.match(explain(away) ?? "", /^Away\n.*--kubeconfig/);
  assert.equal(explain(new CommandError("Cannot")), "Cannot");
});

Deno.test("explain() leaves a programming mistake to be seen with its stack", () => {
  assert.equal(explain(new TypeError("x is undefined")), undefined);
});

Deno.test("docs/roles/coil.md lists the commands and their flags", async () => {
  const docs = new URL("../../docs/roles/coil.md", import.meta.url);
  const text = await Deno.readTextFile(docs);
  for (const { path, flags } of COMMANDS) {
    assert.ok(text.includes(`coil ${path}`), path);
    if (Object.keys(flags).length === 0) continue;
    assert.ok(text.includes(flagsMarkdown(flags).trim()), path);
  }
});
