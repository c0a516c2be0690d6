import assert from "node:assert/strict";
import { readCommandLine } from "../../lib/flags/mod.ts";
import { flagsMarkdown } from "../../lib/flags/testing.ts";
import { CONTROLLER_FLAGS, parseControllerFlags } from "./flags.ts";

function parse(program: string, ...args: string[]) {
  return parseControllerFlags(args, { program, version: "1", about: "x" });
}

Deno.test("parseControllerFlags() has upstream's defaults", () => {
  const options = parse("coil-controller");
  assert.equal(options.metricsAddress, ":9386");
  assert.equal(options.healthAddress, "127.0.0.1:9387");
  assert.equal(options.gcIntervalMs, 3_600_000);
  assert.equal(options.leaseNamespace, "kube-system");
  assert.deepEqual([options.enableIpam, options.enableEgress], [true, true]);
  assert.equal(options.egressPort, 5555);
  assert.equal(options.drainTimeoutMs, 300_000);
  assert.equal(options.backend, "nftables");
});

Deno.test("parseControllerFlags() presets the halves for upstream's names", () => {
  const ipam = parse("coil-ipam-controller");
  assert.deepEqual([ipam.enableIpam, ipam.enableEgress], [true, false]);
  const egress = parse("coil-egress-controller");
  assert.deepEqual([egress.enableIpam, egress.enableEgress], [false, true]);
  assert.deepEqual([ipam.metricsAddress, ipam.healthAddress], [
    ":9386",
    "127.0.0.1:9387",
  ]);
  assert.deepEqual([egress.metricsAddress, egress.healthAddress], [
    ":9396",
    "127.0.0.1:9397",
  ]);
});

Deno.test("parseControllerFlags() lets what is given go before what a name presets", () => {
  const options = parse(
    "coil-egress-controller",
    "--enable-ipam",
    "--metrics-addr=:1",
    "--enable-egress=false",
  );
  assert.deepEqual([options.enableIpam, options.enableEgress], [true, false]);
  assert.equal(options.metricsAddress, ":1");
  assert.equal(options.healthAddress, "127.0.0.1:9397");
});

Deno.test("parseControllerFlags() takes upstream's arguments of the egress half", () => {
  const options = parse(
    "coil-egress-controller",
    "--zap-stacktrace-level=panic",
    "--backend=iptables",
    "--egress-port=5556",
  );
  assert.deepEqual([options.backend, options.egressPort], ["iptables", 5556]);
  assert.deepEqual(options.ignored, {});
});

Deno.test("parseControllerFlags() takes the arguments of upstream's manifests, and says which have no effect", () => {
  const options = parse(
    "coil-ipam-controller",
    "--zap-stacktrace-level=panic",
    "--cert-dir=/certs",
    "--webhook-addr=:9443",
    "--enable-cert-rotation=true",
    "--enable-restart-on-cert-refresh",
  );
  assert.deepEqual(Object.keys(options.ignored).sort(), [
    "--cert-dir",
    "--enable-cert-rotation",
    "--enable-restart-on-cert-refresh",
    "--webhook-addr",
  ]);
  assert.deepEqual(parse("coil-controller", "--gc-interval=10m").ignored, {});
});

Deno.test("parseControllerFlags() takes one cluster whose ENIs are swept, none by default", () => {
  assert.equal(parse("coil-controller").vpcSweepCluster, "");
  const options = parse("coil-controller", "--vpc-sweep-cluster=prod");
  assert.equal(options.vpcSweepCluster, "prod");
  for (const name of ["*", "prod*", "prod?", "-prod", "a".repeat(256)]) {
    const args = [`--vpc-sweep-cluster=${name}`];
    const info = { program: "coil-controller", version: "1", about: "x" };
    assert.throws(
      () => readCommandLine(CONTROLLER_FLAGS, args, info),
      /must be the name of a cluster/,
    );
  }
});

Deno.test("docs/roles/coil-controller.md lists the flags as they are", async () => {
  const page = new URL("../../docs/roles/coil-controller.md", import.meta.url);
  const text = await Deno.readTextFile(page);
  assert.ok(text.includes(flagsMarkdown(CONTROLLER_FLAGS).trim()));
});
