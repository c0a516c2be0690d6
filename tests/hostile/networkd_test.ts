// A real systemd-networkd on a node: when it configures a link of its own it
// deletes every rule that it does not know.
import assert from "node:assert/strict";
import { CoildLab, fromSources } from "../apiserver/coild_lab.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { NETWORKD_ADVICE, runNetworkd } from "./networkd.ts";
import { assertReachable } from "./probe.ts";

const HEARING = new URL("./hearing_main.ts", import.meta.url).pathname;

Deno.test("a node's pods survive systemd-networkd", async (t) => {
  await using lab = await CoildLab.start({ name: "networkd" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: "10.122.0.0/24",
    ipv6: "fd02::122:0/120",
  }], 3);
  lab.granter.start();
  const args = ["--addressblock-gc-interval=1h"];
  await using coild = await lab.startCoild(node, args, {
    command: fromSources(HEARING, "coild"),
  });
  const from = await lab.createPod("from");
  const to = await lab.createPod("to");
  await coild.add(from);
  const addresses = await coild.addresses(to);
  const repairs = () => coild.metric('coil_coild_repairs_total{what="rule"}');

  for (const [start, times] of [["starts", 1], ["starts again", 2]] as const) {
    await t.step(`it ${start}: the rules are back at once`, async () => {
      const before = await repairs() ?? 0;
      const pings = { from, to: addresses };
      const gaps = await assertReachable(pings, async () => {
        await using _networkd = await runNetworkd(node, "");
        await eventually("the rules to be put back", async () => {
          return (await repairs() ?? 0) >= before + 2;
        });
        await sleep(300);
      });
      // deno-lint-ignore no-console -- a figure
      console.log(`systemd-networkd ${times}: gaps ${gaps} ms`);
      for (const family of ["-4", "-6"]) {
        assert.match(await node.run("ip", family, "rule"), /2000:.*116/);
      }
    });
  }

  await t.step(
    "with the settings that are advised it takes nothing",
    async () => {
      const before = await repairs();
      await using _networkd = await runNetworkd(node, NETWORKD_ADVICE);
      await sleep(500);
      assert.equal(await repairs(), before);
    },
  );
});
