import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { eventually } from "../lab/mod.ts";
import { CoildLab, inPod } from "./coild_lab.ts";

const ARGS = ["--cooldown=0s", "--addressblock-gc-interval=1h"];

Deno.test("coild works in upstream's modes", async (t) => {
  await using lab = await CoildLab.start({ name: "coildmodes" });
  const node = lab.node();
  const nodeIpv4 = node.addresses.find((text) => text.includes("."));
  assert.ok(nodeIpv4);
  await lab.createPool("default", [{
    ipv4: "10.125.0.0/24",
    ipv6: "fd02::125:0/120",
  }], 3);
  lab.granter.start();

  await t.step(
    "--compat-calico: the host's interface has Calico's name, and another container of the pod takes it over",
    async () => {
      await using coild = await lab.startCoild(node, [
        ...ARGS,
        "--compat-calico",
      ]);
      const pod = await lab.createPod("calico");
      const { interfaces } = await coild.add(pod);
      const hash = createHash("sha1").update("default.calico").digest("hex");
      const name = `veth${hash.slice(0, 11)}`;
      assert.equal(interfaces[1]?.name, name);
      await coild.check(pod);
      // The sandbox is recreated before the old one's DEL.
      const again = await lab.createSandbox("calico");
      const [ipv4] = await coild.addresses(again);
      await coild.del(pod);
      await coild.check(again);
      await node.run("ping", "-c1", "-w20", ipv4 ?? "");
      await coild.del(again);
    },
  );

  await t.step(
    "--pod-gateway=node-address: pods have the node's address as their gateway, and reach it",
    async () => {
      await using coild = await lab.startCoild(node, [
        ...ARGS,
        "--pod-gateway=node-address",
      ]);
      const pod = await lab.createPod("gateway");
      const { interfaces } = await coild.add(pod);
      const routes = await inPod(pod, "ip", "route");
      assert.match(
        routes,
        new RegExp(`^default via ${nodeIpv4} dev eth0`, "m"),
      );
      const veth = interfaces[1]?.name ?? "";
      const addresses = await node.run("ip", "-4", "-o", "addr", "show", veth);
      assert.match(addresses, new RegExp(`${nodeIpv4}/32 scope global`));
      await inPod(pod, "ping", "-c1", "-w20", nodeIpv4);
      await coild.check(pod);
      await coild.del(pod);
    },
  );

  await t.step(
    "--pod-rule-prio=0x7d0 --protocol-id=0: numbers as Go's flags take them",
    async () => {
      // Those of the other protocol would be somebody else's.
      for (const family of ["-4", "-6"]) {
        await node.run("ip", family, "route", "flush", "table", "119");
      }
      await using coild = await lab.startCoild(node, [
        "--cooldown=0s",
        "--addressblock-gc-interval=1s",
        "--block-return-delay=1s",
        "--pod-rule-prio=0x7d0",
        "--protocol-id=0",
      ]);
      const pod = await lab.createPod("numbers");
      const [ipv4 = ""] = await coild.addresses(pod);
      await coild.check(pod);
      assert.match(await node.run("ip", "rule"), /^2000:.*lookup 116/m);
      const routes = () => node.run("ip", "route", "show", "table", "116");
      assert.ok((await routes()).includes(`${ipv4} dev`));
      const exported = () =>
        node.run("ip", "-6", "route", "show", "table", "119");
      assert.match(await node.run("ip", "route", "show", "table", "119"), /lo/);
      assert.match(await exported(), /^fd02::125:/m);
      await coild.del(pod);
      assert.equal((await routes()).includes(ipv4), false);
      await eventually(
        "the returned block to be announced no more",
        async () => !/^fd02::125:/m.test(await exported()),
      );
    },
  );

  await t.step(
    "--register-from-main: a pod of Coil 2.0.1, with routes in the main table alone, keeps its address",
    async () => {
      const coild = await lab.startCoild(node, ARGS);
      const pod = await lab.createPod("main");
      const { ips, interfaces } = await coild.add(pod);
      await coild.process.kill9();
      const veth = interfaces[1]?.name ?? "";
      for (const { address } of ips) {
        const family = address.includes(":") ? "-6" : "-4";
        await node.run("ip", family, "route", "flush", "table", "116");
        await node.run(
          ...["ip", family, "route", "add", address, "dev", veth] as const,
          ...["proto", "30"],
        );
      }
      // Nothing is told by the pod: its namespace has no name any more.
      using _alive = await Deno.open(`/run/netns/${pod.netns}`);
      await lab.deleteNetns(pod);
      for (const { address } of ips) {
        const family = address.includes(":") ? "-6" : "-4";
        await node.run("ip", family, "neighbour", "flush", "dev", veth);
      }
      await using later = await lab.startCoild(node, [
        ...ARGS,
        "--register-from-main",
      ]);
      const taken = ips.map(({ address }) => address.split("/")[0]);
      const other = await lab.createPod("other");
      for (const address of await later.addresses(other)) {
        assert.ok(!taken.includes(address), `${address} is given out twice`);
      }
      const used = 'coil_coild_addresses{pool="default",state="used"}';
      assert.equal(await later.metric(used), 2);
      await later.del(other);
      await later.del(pod);
    },
  );
});
