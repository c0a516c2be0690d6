import assert from "node:assert/strict";
import { readCommandLine, UsageError } from "../../../lib/flags/mod.ts";
import { flagsMarkdown } from "../../../lib/flags/testing.ts";
import { etcdClient } from "./connect.ts";
import { DUMP_FLAGS, REPLACE_FLAGS, STATUS_FLAGS } from "./flags.ts";

const INFO = { program: "coil migrate dump", version: "test", about: "" };

Deno.test("docs/roles/coil-migrator.md has the flags", async () => {
  const page = new URL("../../../docs/roles/coil-migrator.md", import.meta.url);
  const text = await Deno.readTextFile(page);
  for (const flags of [DUMP_FLAGS, REPLACE_FLAGS, STATUS_FLAGS]) {
    assert.ok(text.includes(flagsMarkdown(flags).trim()));
  }
});

function connect(...args: readonly string[]) {
  const line = readCommandLine(DUMP_FLAGS, args, INFO);
  assert.ok(line.kind === "run");
  return etcdClient(line.values);
}

Deno.test("dump refuses flags of etcd that do not go together", async () => {
  for (
    const [args, why] of [
      [["--etcd-tls-cert=c"], /go together/],
      [["--etcd-tls-key=k"], /go together/],
      [["--etcd-password=p"], /needs --etcd-username/],
      [["--etcd-password-file=p"], /needs --etcd-username/],
      [
        ["--etcd-username=u", "--etcd-password=p", "--etcd-password-file=p"],
        /only one/,
      ],
      [["--etcd-endpoints=ftp://a"], /only http and https/],
    ] as const
  ) {
    await assert.rejects(connect(...args), (error) => {
      assert.ok(error instanceof UsageError);
      assert.match(error.message, why);
      return true;
    });
  }
});

Deno.test("dump says which file of a flag cannot be read", async () => {
  for (const flag of ["etcd-tls-ca", "etcd-password-file"]) {
    await assert.rejects(
      connect("--etcd-username=u", `--${flag}=/nowhere/x`),
      new RegExp(`Cannot read --${flag} "/nowhere/x": `),
    );
  }
});
