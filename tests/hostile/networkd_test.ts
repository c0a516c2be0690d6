// A real systemd-networkd on a node: when it configures a link of its own it
// deletes every rule that it does not know.
import assert from "node:assert/strict";
import { CoildLab } from "../apiserver/coild_lab.ts";
import { eventually, type LabNode, sleep } from "../lab/mod.ts";
import { probe } from "./probe.ts";

const MAX_GAP_MS = 5_000;

/** The settings that the guide and the Event advise. */
const ADVICE = `[Network]
ManageForeignRoutingPolicyRules=no
ManageForeignRoutes=no
`;

/** It sees no udev, whose /sys can be written; nor the machine's bus. */
const SCRIPT = `set -e
mount -o remount,bind,ro /sys || mount -o bind,ro /sys /sys
mount -t tmpfs none /run
mkdir -p /run/systemd/network /run/systemd/networkd.conf.d /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network:systemd-network /run/systemd/netif
printf '%s' "$1" >/run/systemd/networkd.conf.d/coil.conf
printf '[Match]\\nName=own0\\n[Network]\\nAddress=10.99.0.1/24\\nLinkLocalAddressing=no\\nIPv6AcceptRA=no\\n' >/run/systemd/network/10-own.network
exec /lib/systemd/systemd-networkd
`;

/** Runs systemd-networkd on a node and has it configure a link. Resolves when it has. */
async function runNetworkd(
  node: LabNode,
  settings: string,
): Promise<AsyncDisposable> {
  const child = new Deno.Command("nsenter", {
    args: [
      ...[`--net=/run/netns/${node.netns}`, "unshare", "--mount"],
      ...["sh", "-c", SCRIPT, "sh", settings],
    ],
    env: { SYSTEMD_LOG_LEVEL: "debug", SYSTEMD_LOG_TARGET: "console" },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let said = "";
  const reading = (async () => {
    for await (
      const text of child.stderr.pipeThrough(new TextDecoderStream())
    ) said += text;
  })();
  await eventually("systemd-networkd to know the network", () => {
    assert.match(said, /Enumeration completed/);
    return Promise.resolve(true);
  });
  await node.run("ip", "link", "add", "own0", "type", "bridge");
  await node.run("ip", "link", "set", "own0", "up");
  await eventually("systemd-networkd to configure its link", () => {
    assert.match(said, /own0: State changed: configuring -> configured/);
    return Promise.resolve(true);
  });
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.status;
      await reading;
      await node.run("ip", "link", "del", "own0");
    },
  };
}

Deno.test("a node's pods survive systemd-networkd", async (t) => {
  await using lab = await CoildLab.start({ name: "networkd" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: "10.122.0.0/24",
    ipv6: "fd02::122:0/120",
  }], 3);
  lab.granter.start();
  await using coild = await lab.startCoild(node, [
    "--addressblock-gc-interval=1h",
  ]);
  const from = await lab.createPod("from");
  const to = await lab.createPod("to");
  await coild.add(from);
  const addresses = await coild.addresses(to);
  const repairs = () => coild.metric('coil_coild_repairs_total{what="rule"}');

  for (const [start, times] of [["starts", 1], ["starts again", 2]] as const) {
    await t.step(`it ${start}: the rules are back at once`, async () => {
      const before = await repairs() ?? 0;
      const probes = await Promise.all(addresses.map((a) => probe(from, a)));
      {
        await using _networkd = await runNetworkd(node, "");
        await eventually("the rules to be put back", async () => {
          return (await repairs() ?? 0) >= before + 2;
        });
        await sleep(300);
      }
      const gaps = await Promise.all(probes.map((each) => each.stop()));
      // deno-lint-ignore no-console -- a figure
      console.log(`systemd-networkd ${times}: gaps ${gaps.map(Math.round)} ms`);
      for (const gap of gaps) assert.ok(gap < MAX_GAP_MS, `gap ${gap} ms`);
      for (const family of ["-4", "-6"]) {
        assert.match(await node.run("ip", family, "rule"), /2000:.*116/);
      }
    });
  }

  await t.step(
    "with the settings that are advised it takes nothing",
    async () => {
      const before = await repairs();
      await using _networkd = await runNetworkd(node, ADVICE);
      await sleep(500);
      assert.equal(await repairs(), before);
    },
  );
});
