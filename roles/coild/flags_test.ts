import assert from "node:assert/strict";
import { readCommandLine, UsageError } from "../../lib/flags/mod.ts";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { COILD_FLAGS, parseCoildFlags } from "./flags.ts";

const INFO = { program: "coild", version: "1", about: "x" };

Deno.test("parseCoildFlags() has upstream's defaults", () => {
  const options = parseCoildFlags([], INFO);
  assert.equal(options.socketPath, "/run/coild.sock");
  assert.equal(options.metricsAddress, ":9384");
  assert.equal(options.healthAddress, "127.0.0.1:9385");
  assert.equal(options.podTableId, 116);
  assert.equal(options.podRulePriority, 2000);
  assert.equal(options.exportTableId, 119);
  assert.equal(options.protocolId, 30);
  assert.equal(options.reconcileIntervalMs, 300_000);
  assert.equal(options.enableIpam, true);
  assert.equal(options.enableEgress, true);
  assert.equal(options.compatCalico, false);
  assert.equal(options.clearRoutesOnShutdown, false);
  assert.equal(options.blockRequestTimeoutMs, 10_000);
  assert.equal(options.cooldownMs, 30_000);
  assert.equal(options.blockReturns.returnDelayMs, 3_600_000);
  assert.equal(options.blockReturns.ampleReturnDelayMs, 4 * 3_600_000);
});

Deno.test("COILD_FLAGS refuse a time with which a loop would not rest, or no ADD be served", () => {
  for (const flag of ["addressblock-gc-interval", "block-request-timeout"]) {
    assert.throws(
      () => readCommandLine(COILD_FLAGS, [`--${flag}=0s`], INFO),
      (error) =>
        error instanceof UsageError &&
        new RegExp(`"--${flag}": needs at least`).test(error.message),
    );
  }
});

Deno.test("parseCoildFlags() takes no cooldown and no delay, as upstream works", () => {
  const options = parseCoildFlags(
    ["--cooldown=0", "--block-return-delay=0"],
    INFO,
  );
  assert.equal(options.cooldownMs, 0);
  assert.equal(options.blockReturns.returnDelayMs, 0);
  assert.equal(options.blockReturns.ampleReturnDelayMs, 0);
});

Deno.test("parseCoildFlags() takes a delay that is given for each pool, ample or not, also the usual one", () => {
  for (const [delay, ms] of [["1h", 3_600_000], ["8h", 28_800_000]] as const) {
    const options = parseCoildFlags([`--block-return-delay=${delay}`], INFO);
    assert.equal(options.blockReturns.returnDelayMs, ms);
    assert.equal(options.blockReturns.ampleReturnDelayMs, ms);
  }
});

Deno.test("parseCoildFlags() takes every flag of upstream's manifests", () => {
  const options = parseCoildFlags([
    "--zap-stacktrace-level=panic",
    "--enable-ipam=true",
    "--enable-egress=true",
    "--compat-calico",
    "--enable-originating-only=true",
    "--backend=iptables",
    "--egress-port=5556",
    "--register-from-main",
    "--addressblock-gc-interval=1m30s",
    "--pod-gateway=node-address",
    "--pod-rule-prio=0x7d0",
    "--protocol-id=0",
  ], INFO);
  assert.equal(options.podRulePriority, 2000);
  assert.equal(options.protocolId, 0);
  assert.equal(options.compatCalico, true);
  assert.equal(options.registerFromMain, true);
  assert.equal(options.reconcileIntervalMs, 90_000);
  assert.equal(options.gatewayMode, "node-address");
});

Deno.test("parseCoildFlags() takes every flag of upstream's manifests for egress alone", () => {
  for (const table of [0, 255]) {
    const options = parseCoildFlags([
      "--enable-ipam=false",
      "--enable-egress=true",
      `--pod-table-id=${table}`,
      "--protocol-id=2",
    ], INFO);
    assert.equal(options.enableIpam, false);
    assert.equal(options.podTableId, table);
    assert.equal(options.protocolId, 2);
  }
});

Deno.test("parseCoildFlags() accepts the flag for a token file of earlier versions, and says that it has no effect", () => {
  assert.deepEqual(parseCoildFlags([], INFO).ignored, {});
  const { ignored } = parseCoildFlags(
    ["--egress-announce-token=/var/run/secrets/token"],
    INFO,
  );
  assert.deepEqual(Object.keys(ignored), ["--egress-announce-token"]);
});

Deno.test("parseCoildFlags() reads what egress needs", () => {
  const defaults = parseCoildFlags([], INFO);
  assert.equal(defaults.egressPort, 5555);
  assert.equal(defaults.originatingOnly, false);
  assert.equal(defaults.announceTimeoutMs, 1_000);
  assert.equal(defaults.egressEventDelayMs, 10_000);
  const options = parseCoildFlags([
    "--egress-port=6666",
    "--enable-originating-only",
    "--egress-announce-timeout=250ms",
    "--egress-event-delay=0s",
  ], INFO);
  assert.equal(options.egressPort, 6666);
  assert.equal(options.originatingOnly, true);
  assert.equal(options.announceTimeoutMs, 250);
  assert.equal(options.egressEventDelayMs, 0);
});

Deno.test("docs/roles/coild.md lists the flags as they are", async () => {
  const page = new URL("../../docs/roles/coild.md", import.meta.url);
  const text = await Deno.readTextFile(page);
  assert.ok(text.includes(flagsMarkdown(COILD_FLAGS).trim()));
});

Deno.test("parseCoildFlags() serves the coordinator only when asked to, and then it may be all", () => {
  assert.equal(parseCoildFlags([], INFO).enableCoordinator, false);
  const none = ["--enable-ipam=false", "--enable-egress=false"];
  const options = parseCoildFlags([...none, "--enable-coordinator"], INFO);
  assert.equal(options.enableCoordinator, true);
});

Deno.test("parseCoildFlags() has options of a VPC, and another priority of the rule for pods, only when asked to", () => {
  assert.equal(parseCoildFlags([], INFO).vpc, undefined);
  const options = parseCoildFlags(["--addresses=vpc", "--warm-ips=2"], INFO);
  assert.equal(options.vpc?.warmIps, 2);
  assert.equal(options.podRulePriority, 512);
  const other = ["--addresses=vpc", "--pod-rule-prio=700"];
  assert.equal(parseCoildFlags(other, INFO).podRulePriority, 700);
});
