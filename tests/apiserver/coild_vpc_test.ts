// Pods with addresses of the VPC: a whole coild, a real API server, EC2 and the
// metadata service as a process, and packets in a fabric that drops what has no
// source of its ENI.
import assert from "node:assert/strict";
import {
  VPC_NFT_TABLE,
  VPC_PROTOCOL,
  VPC_REST_TABLE,
} from "../../lib/names/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { eventually, sleep } from "../lab/mod.ts";
import type { Coild, Sandbox } from "./coild_lab.ts";
import { OUTSIDE, PEER } from "../lab/cloud/site.ts";
import { BARE, VpcLab } from "./coild_vpc_lab.ts";
import { VpcPods } from "./coild_vpc_pods.ts";

async function restsOf(vpc: VpcLab): Promise<string[]> {
  const text = await vpc.lab.node().run(
    "ip",
    ...["-4", "-j", "route", "show", "table", `${VPC_REST_TABLE}`],
  ).catch(() => "[]");
  const routes = JSON.parse(text || "[]") as { dst: string }[];
  return routes.map(({ dst }) => dst);
}

/** Addresses rest longer than the test takes. */
const RESTING = [...BARE, "--cooldown=1h"];

/** ADD gets no address, and says why as soon as coild knows: until then it is to come again. */
async function refused(
  vpc: VpcLab,
  { coild, pod, why }: {
    readonly coild: Coild;
    readonly pod: Sandbox;
    readonly why: RegExp;
  },
): Promise<void> {
  await eventually(`${why}`, async () => {
    const { code, output } = await vpc.plugin(coild, "ADD", pod);
    assert.notEqual(code, 0);
    assert.match(output, why);
    return true;
  });
}

Deno.test("coild --addresses=vpc gives pods addresses of ENIs, from none to all that a t3.small has", async (t) => {
  await using vpc = await VpcLab.start("coildvpc");
  const { lab } = vpc;
  let coild = await vpc.start(RESTING);
  const pods = new Map<string, { pod: Sandbox; address: string }>();
  const add = async (pod: Sandbox) => {
    const [address = ""] = await vpc.add(coild, pod);
    pods.set(pod.name, { pod, address });
    return { pod, address };
  };

  await t.step("one pod", async () => {
    const { pod, address } = await add(await lab.createPod("pod0"));
    assert.match(address, /^10\.0\.1\.\d+$/);
    assert.ok(await vpc.pings(pod, PEER), "to a peer in the VPC");
    assert.ok(await vpc.pings(pod, OUTSIDE), "to the Internet");
    await vpc.site.assertNoDrops();
  });

  await t.step(
    "nine pods: the first of eight that are bound at once makes coild ask EC2 for all, by three calls",
    async () => {
      const names = Array.from({ length: 8 }, (_, n) => `pod${n + 1}`);
      await vpc.site.expectLayout(lab.node(), [2]);
      const { AssignPrivateIpAddresses: before = 0 } = await vpc.site.changes();
      const bound = await Promise.all(names.map((name) => lab.createPod(name)));
      await coild.knows(...bound);
      for (const first of bound.splice(0, 1)) await add(first);
      await vpc.site.expectLayout(lab.node(), [3, 3, 3]);
      await Promise.all(bound.map(add));
      const addresses = [...pods.values()].map(({ address }) => address);
      assert.equal(new Set(addresses).size, 9);
      for (const { pod, address } of pods.values()) {
        assert.ok(await vpc.pings(pod, PEER), `${address} to a peer`);
        assert.ok(await vpc.pings(pod, OUTSIDE), `${address} to the Internet`);
      }
      const last = pods.get("pod8");
      assert.ok(last);
      assert.ok(await vpc.pings(last.pod, pods.get("pod0")?.address ?? ""));
      await vpc.site.assertNoDrops();
      const changes = await vpc.site.changes();
      assert.equal(changes["CreateNetworkInterface"], 2);
      assert.equal(changes["AssignPrivateIpAddresses"], before + 1);
    },
  );

  await t.step(
    "the tenth pod's error and Event say why it gets no address",
    async () => {
      const pod = await lab.createPod("pod9");
      await refused(vpc, { coild, pod, why: /the node's ENIs are full/ });
      await eventually("an Event on the pod", async () => {
        const { items } = await lab.plane.request(
          "GET",
          "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=pod9",
        ) as { items: { message: string }[] };
        return items.some(({ message }) => message.includes("ENIs are full"));
      });
    },
  );

  await t.step(
    "an address rests for 30 s, although coild is killed",
    async () => {
      const gone = pods.get("pod0");
      assert.ok(gone);
      const before = await vpc.site.changes();
      const deletedMs = performance.now();
      await vpc.remove(coild, gone.pod);
      pods.delete("pod0");
      assert.deepEqual(await restsOf(vpc), [gone.address]);
      await coild.process.kill9();
      coild = await vpc.start(RESTING);
      for (const { pod } of pods.values()) {
        await coild.check(pod);
        assert.ok(await vpc.pings(pod, PEER));
      }
      assert.deepEqual(await vpc.site.changes(), before);
      const pod = await lab.createPod("next");
      const why = /1 of its addresses are in cooldown/;
      await refused(vpc, { coild, pod, why });
      await coild.process.kill9();
      coild = await vpc.start(BARE);
      await eventually("the address", async () => {
        const { code, output } = await vpc.plugin(coild, "ADD", pod);
        return code === 0 && output.includes(`"${gone.address}/32"`);
      });
      assert.ok(performance.now() - deletedMs >= 30_000);
      assert.ok(await vpc.pings(pod, PEER));
      await vpc.site.assertNoDrops();
    },
  );
  await coild[Symbol.asyncDispose]();

  await t.step(
    "what coild leaves goes by the commands to uninstall it",
    async () => {
      const left = async () => {
        const node = lab.node();
        const lines = await Promise.all([
          node.run("ip", "rule"),
          node.run("ip", "-6", "rule"),
          node.run("ip", "route", "show", "table", "all"),
          node.run("ip", "-6", "route", "show", "table", "all"),
          node.run("nft", "list", "tables"),
        ]);
        const ours = new RegExp(
          `proto ${VPC_PROTOCOL}\\b|table ${VPC_REST_TABLE}\\b|${VPC_NFT_TABLE}$`,
        );
        return lines.join("\n").split("\n").map((line) => line.trim())
          .filter((line) => ours.test(line));
      };
      assert.ok((await left()).length > 5, "nothing to remove");
      const blocks = await testedCommands("docs/uninstall.md", import.meta.url);
      for (const command of blocks.flat()) {
        await lab.node().run("sh", "-c", command);
      }
      assert.deepEqual(await left(), []);
    },
  );
});

Deno.test("coild --addresses=vpc waits for EC2 at start and at its end, and refuses what cannot be", async (t) => {
  await using vpc = await VpcLab.start("coildvpcwait");
  const { lab } = vpc;
  for (const call of ["DescribeInstanceTypes", "DescribeNetworkInterfaces"]) {
    const code = "RequestLimitExceeded";
    await vpc.cloud.ask.fault({ call, kind: "error", code, times: 3 });
  }
  await using coild = await vpc.start(BARE);

  await t.step("a namespace that names a pool", async () => {
    await lab.createNamespace("pooled", { "coil.cybozu.com/pool": "other" });
    const pod = await lab.createPod("pod", { namespace: "pooled" });
    const { code, output } = await vpc.plugin(coild, "ADD", pod);
    assert.notEqual(code, 0);
    assert.match(
      output,
      /this node's pods have addresses of the VPC; remove annotation/,
    );
    // As long as it is there, an address is kept for it, which goes when it has been unused for 30 s.
    await lab.deletePod(pod);
    // EC2 may be asked for it until coild has seen that it is gone.
    await vpc.site.quiet();
    await vpc.site.expectLayout(lab.node(), [1]);
  });

  await t.step("SIGTERM while a call is under way", async () => {
    await vpc.site.quiet();
    await vpc.cloud.ask.fault({
      call: "AssignPrivateIpAddresses",
      kind: "late",
      times: 1,
    });
    const assigned = async () =>
      (await vpc.site.changes())["AssignPrivateIpAddresses"] ?? 0;
    const before = await assigned();
    await vpc.add(coild, await lab.createPod("first"));
    await eventually(
      "a call under way",
      async () => await assigned() > before,
    );
    const stopping = coild.stop();
    await eventually(
      "the wait for it",
      async () =>
        (await coild.process.logs()).includes("Waiting for calls to EC2"),
    );
    await sleep(1_000);
    assert.ok(coild.process.isRunning, "it waits");
    await vpc.cloud.ask.clearFaults();
    assert.equal((await stopping).code, 0);
  });

  await t.step("killed before EC2 has answered what it did", async () => {
    const pods = new VpcPods(vpc, await vpc.start(BARE));
    const { ask } = vpc.cloud;
    const earlier = await vpc.site.changes();
    const { AssignPrivateIpAddresses: before = 0 } = earlier;
    const late = (call: string) => ask.fault({ call, kind: "late", times: 1 });
    const killAfter = async (call: string, count: number) => {
      await eventually(call, async () => {
        const changes = await vpc.site.changes();
        return changes[call] === count;
      });
      await pods.coild.process.kill9();
    };
    await vpc.site.expectLayout(lab.node(), [2]);
    await late("AssignPrivateIpAddresses");
    await pods.add(1);
    await killAfter("AssignPrivateIpAddresses", before + 1);
    await late("CreateNetworkInterface");
    pods.coild = await vpc.start(BARE);
    await pods.add(1);
    await killAfter("CreateNetworkInterface", 1);
    await late("AttachNetworkInterface");
    pods.coild = await vpc.spawn(BARE);
    await killAfter("AttachNetworkInterface", 1);
    pods.coild = await vpc.start(BARE);
    await pods.add(1);
    await vpc.site.expectLayout(lab.node(), [3, 2]);
    await pods.assertReachable();
    await pods.coild.stop();
    const changes = await vpc.site.changes();
    assert.deepEqual(changes, {
      ...earlier,
      AssignPrivateIpAddresses: before + 2,
      CreateNetworkInterface: 1,
      AttachNetworkInterface: 1,
      ModifyNetworkInterfaceAttribute: 1,
    });
  });

  await t.step("wrong flags", async () => {
    for (
      const [args, message] of [
        [
          ["--warm-prefixes=0"],
          /--warm-prefixes, --warm-ips and --min-ips are all 0/,
        ],
        [["--low-water=3"], /--low-water has no effect with --addresses=vpc/],
        [["--eni-limits=9,9"], /enis is 9, the instance type has 3/],
      ] as const
    ) {
      const wrong = await vpc.spawn(args);
      const { code } = await wrong.process.exited;
      assert.notEqual(code, 0);
      assert.match(await wrong.process.logs(), message);
    }
  });
});
