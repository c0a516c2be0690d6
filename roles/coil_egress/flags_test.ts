import assert from "node:assert/strict";
import { readCommandLine } from "../../lib/flags/mod.ts";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { EGRESS_FLAGS, parseEgressFlags } from "./flags.ts";

const INFO = { program: "coil-egress", version: "0", about: "" };

Deno.test("docs/roles/coil-egress.md lists the flags", async () => {
  const docs = new URL("../../docs/roles/coil-egress.md", import.meta.url);
  const text = await Deno.readTextFile(docs);
  assert.ok(text.includes(flagsMarkdown(EGRESS_FLAGS).trim()));
});

Deno.test("coil-egress has upstream's defaults", () => {
  const { logging: _, ...options } = parseEgressFlags([], INFO);
  assert.deepEqual(options, {
    fouPort: 5555,
    sourcePortAuto: false,
    backend: "nftables",
    metricsAddress: ":8080",
    healthAddress: ":8081",
    announceAddress: ":8082",
    announceUser: "system:serviceaccount:kube-system:coild",
    leaseNamespace: "kube-system",
    drainTimeoutMs: 300_000,
  });
});

Deno.test("coil-egress takes a limit for clients, and none, which is not the same as nothing said", () => {
  const limitOf = (...args: string[]) =>
    parseEgressFlags(args, INFO).maxFlowsPerClient;
  assert.equal(limitOf(), undefined);
  assert.equal(limitOf("--max-flows-per-client=-1"), undefined);
  assert.equal(limitOf("--max-flows-per-client=0"), 0);
  assert.equal(limitOf("--max-flows-per-client=500"), 500);
});

Deno.test("coil-egress takes upstream's flags, and no packet filter that does not exist", () => {
  const read = (...args: string[]) => readCommandLine(EGRESS_FLAGS, args, INFO);
  const args = ["--zap-stacktrace-level=panic", "--enable-sport-auto=true"];
  for (const backend of ["iptables", "nftables"]) {
    assert.equal(read(...args, `--backend=${backend}`).kind, "run");
  }
  assert.throws(() => read("--backend=pf"), /needs one of iptables, nftables/);
  assert.throws(() => read("--fou-port=0"), /from 1 to 65535/);
});
