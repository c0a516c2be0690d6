import assert from "node:assert/strict";
import { awaitedLater, eventually, sleep } from "../lab/mod.ts";
import { requestsOf, untilQuiet } from "./audited.ts";
import { type Coild, CoildLab, type Sandbox } from "./coild_lab.ts";
import { installCrds } from "./crds.ts";
import { patchStatus } from "./patch_status.ts";
import { addUntilRequested } from "./timed_out_add.ts";

const BLOCKS = "/apis/coil.cybozu.com/v2/addressblocks";
const POOLS = "/apis/coil.cybozu.com/v2/addresspools";
/** An ADD that has to wait for the granter is refused, and called again. */
const QUICK = ["--block-request-timeout=1s", "--cooldown=0s"];
const LOOKING = [...QUICK, "--addressblock-gc-interval=2s"];
const USER = "system:serviceaccount:kube-system:coild";
const MERGE = { contentType: "application/merge-patch+json" };

/** The pod's addresses; ADD comes again, as a runtime's does, while a new block takes longer than a call may wait. */
async function served(coild: Coild, pod: Sandbox): Promise<string[]> {
  return await eventually(
    "the pod to be served",
    () => coild.addresses(pod),
  );
}

Deno.test("coild outlives faults of the API server and the controller", async (t) => {
  await using lab = await CoildLab.start({
    name: "coildfaults",
    audit: "metadata",
  });
  const { granter, plane } = lab;
  const node = lab.node();
  const ipv4 = [{ ipv4: "10.101.0.0/24", ipv6: "fd02::101:0/120" }];
  await lab.createPool("default", ipv4, 2);
  let coild = await lab.startCoild(node, QUICK);
  const kept = await lab.createPod("kept");

  await t.step(
    "two-blocks: a request that is answered late costs one block",
    async () => {
      const error = await coild.refused(coild.add(kept));
      assert.deepEqual([error.status, error.code], ["DeadlineExceeded", 11]);
      assert.match(error.message, /coil-controller/);
      const hasOne = async () => (await lab.list("blockrequests")).length === 1;
      await addUntilRequested(coild, kept, hasOne);
      granter.start();
      await served(coild, kept);
      await eventually(
        "the request to be deleted",
        async () => (await lab.list("blockrequests")).length === 0,
      );
      assert.deepEqual(granter.granted, ["default-0"]);
    },
  );

  await t.step(
    "W14: a warm ADD and DEL make no request to the API server",
    async () => {
      const pod = await lab.createPod("w14");
      await coild.knows(pod);
      // Of what was before these may still be on their way, on a busy machine for longer.
      const isLate = (request: string) =>
        /\/(events|blockrequests)\b/.test(request);
      const asked = await eventually("no late request", async () => {
        const since = await untilQuiet(plane, USER);
        await coild.add(pod);
        await coild.check(pod);
        await coild.del(pod);
        await sleep(500);
        const requests = await requestsOf(plane, { user: USER, since });
        const own = requests.filter((request) => !isLate(request));
        return (own.length > 0 || requests.length === 0) && own;
      });
      assert.deepEqual(asked, []);
    },
  );

  const away = await lab.createPod("away");
  await t.step(
    "the API server away: warm ADD, CHECK and DEL go on",
    async () => {
      await coild.knows(away);
      await plane.killApiServer();
      await coild.add(away);
      await coild.check(away);
      await coild.del(away);
      await coild.add(away);
    },
  );

  await t.step(
    "W21: a start without the API server serves DEL and CHECK, tells ADD to come again, and is not ready",
    async () => {
      await coild.process.kill9();
      coild = await lab.spawnCoild(node, QUICK);
      await eventually("the socket to answer", async () => {
        const error = await coild.refused(coild.call("Status", undefined));
        assert.equal(error.code, 50);
        assert.match(error.message, /API server/);
        return true;
      });
      const pod = await lab.createSandbox("early");
      const error = await coild.refused(coild.add(pod));
      assert.deepEqual([error.status, error.code], ["Unavailable", 11]);
      assert.match(
        await coild.readyz(),
        /^\[-\]serves-pods failed: .*API server/m,
      );
      await coild.check(kept);
      const before = await routes("116");
      await coild.del(away);
      const left = await routes("116");
      assert.ok(left.length > 0 && left.length < before.length);
      await plane.startApiServer();
      await coild.ready();
      assert.match(await coild.readyz(), /^\[\+\]serves-pods ok$/m);
      await coild.check(kept);
    },
  );

  await t.step("CT-11: the request of another node is not ours", async () => {
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: {
        name: "req-default-other",
        labels: { "coil.cybozu.com/node": "other" },
      },
      spec: { nodeName: "other", poolName: "default" },
    });
    await eventually(
      "the other's block",
      async () => (await lab.blocks()).length > 1,
    );
    await sleep(300);
    const own = 'coil_coild_blocks{pool="default"}';
    assert.equal(await coild.metric(own), 1);
  });

  await t.step(
    "W7: nothing is given out of a block that is being deleted",
    async () => {
      // From here on it looks at its blocks more often than every five minutes.
      await coild.process.kill9();
      coild = await lab.startCoild(node, LOOKING);
      const [first] = await lab.blocks();
      await plane.request("DELETE", `${BLOCKS}/${first}`);
      const pod = await lab.createPod("w7");
      await eventually("the deletion to be seen", async () => {
        const log = await Deno.readTextFile(coild.process.logFile);
        return log.includes("A block is being deleted");
      });
      const [address] = await served(coild, pod);
      assert.equal(
        /^10\.101\.0\.[0-3]$/.test(address ?? ""),
        false,
        String(address),
      );
      await coild.check(kept);
      await coild.del(pod);
    },
  );

  await t.step(
    "W7: nor when coild finds it being deleted at its start",
    async () => {
      await coild.process.kill9();
      coild = await lab.startCoild(node, LOOKING);
      const pod = await lab.createPod("w7-start");
      const [address] = await served(coild, pod);
      assert.doesNotMatch(address ?? "", /^10\.101\.0\.[0-3]$/);
      await coild.check(kept);
      await coild.del(pod);
    },
  );

  await t.step(
    "a block edited by hand: the API server refuses it; where it does not, nothing more is given of the block, and its pods live on",
    async () => {
      const pod = await lab.createPod("edited");
      const [address = ""] = await served(coild, pod);
      const number = Math.floor(Number(address.split(".")[3]) / 4);
      const edit = () =>
        plane.request("PATCH", `${BLOCKS}/default-${number}`, {
          ipv4: "10.99.0.0/30",
        }, MERGE);
      await assert.rejects(edit, /status 422.*unchangeable/s);
      // Older definitions of the resource have no such rule.
      await installCrds(plane, { withoutRules: true });
      await eventually("the edit", async () => {
        await edit();
        return true;
      });
      await eventually("the edit to be seen", async () => {
        const log = await Deno.readTextFile(coild.process.logFile);
        return log.includes("A block was edited by hand");
      });
      const other = await lab.createPod("beside");
      const [next = ""] = await served(coild, other);
      assert.match(next, /^10\.101\.0\.\d+$/);
      assert.notEqual(Math.floor(Number(next.split(".")[3]) / 4), number);
      await coild.check(pod);
      await coild.del(pod);
      await coild.del(other);
      await installCrds(plane);
    },
  );

  await t.step(
    "foreign routes and links in our tables are left alone",
    async () => {
      await node.run(
        "ip",
        "route",
        "add",
        "192.0.2.0/24",
        "dev",
        "lo",
        "table",
        "119",
        "proto",
        "2",
      );
      await node.run(
        "ip",
        "route",
        "add",
        "192.0.2.7/32",
        "dev",
        "lo",
        "table",
        "116",
        "proto",
        "2",
      );
      await node.run("ip", "link", "add", "foreign0", "type", "bridge");
      await node.run("ip", "link", "set", "foreign0", "alias", "COIL:broken");
      await coild.stop();
      coild = await lab.startCoild(node, LOOKING);
      const pod = await lab.createPod("foreign");
      await served(coild, pod);
      await coild.del(pod);
      assert.match((await routes("119")).join("\n"), /192\.0\.2\.0\/24/);
      assert.match((await routes("116")).join("\n"), /192\.0\.2\.7/);
      await node.run("ip", "link", "show", "foreign0");
    },
  );

  await t.step(
    "W15: a changed InternalIP and a re-created Node are followed",
    async () => {
      const sources = async () => (await routes("116")).join("\n");
      await node.run("ip", "addr", "add", "10.9.9.9/32", "dev", "eth0");
      await patchStatus(plane, `/api/v1/nodes/${node.name}`, {
        addresses: [{ type: "InternalIP", address: "10.9.9.9" }],
      });
      await eventually(
        "the new source on pod routes",
        async () => (await sources()).includes("src 10.9.9.9"),
      );
      await plane.request("DELETE", `/api/v1/nodes/${node.name}`);
      await lab.registerAgain(node);
      await eventually(
        "the old source on pod routes",
        async () => (await sources()).includes(`src ${node.addresses[0]}`),
      );
      const found = await plane.request(
        "GET",
        `/api/v1/nodes/${node.name}`,
      ) as { metadata: { uid: string } };
      await granter.stop();
      await lab.createPool("fresh", [{ ipv4: "10.102.0.0/28" }], 2);
      await lab.createNamespace("fresh", { "coil.cybozu.com/pool": "fresh" });
      const pod = await lab.createPod("w15", { namespace: "fresh" });
      const own = await eventually("the node's request", async () => {
        await coild.refused(coild.add(pod));
        const requests = await lab.list("blockrequests");
        return requests.find((r) => r.metadata.name === "req-fresh-node1");
      });
      const [owner] = own.metadata.ownerReferences ?? [];
      assert.equal(owner?.uid, found.metadata.uid);
      granter.start();
      await served(coild, pod);
    },
  );

  await t.step(
    "deleting-pool: ADD says that the pool is being deleted",
    async () => {
      await lab.createPool("doomed", [{ ipv4: "10.103.0.0/28" }], 2);
      await lab.createNamespace("doomed", { "coil.cybozu.com/pool": "doomed" });
      const pod = await lab.createPod("d1", { namespace: "doomed" });
      await served(coild, pod);
      await plane.request("DELETE", `${POOLS}/doomed`);
      const second = await lab.createPod("d2", { namespace: "doomed" });
      await eventually("the pool's deletion to be seen", async () => {
        await coild.del(second);
        const error = await coild.refused(coild.add(second));
        assert.match(error.message, /pool "doomed".*being deleted.*annotation/);
        return true;
      });
      await coild.check(pod);
      await coild.del(pod);
    },
  );

  await t.step(
    "a pool that is paused gives no address, keeps what it gave, and goes on when the pause ends",
    async () => {
      await lab.createPool("idle", [{ ipv4: "10.105.0.0/28" }], 2);
      await lab.createNamespace("idle", { "coil.cybozu.com/pool": "idle" });
      const pod = await lab.createPod("i1", { namespace: "idle" });
      await served(coild, pod);
      const pause = (paused: true | null) =>
        plane.request("PATCH", `${POOLS}/idle`, { spec: { paused } }, MERGE);
      await pause(true);
      const second = await lab.createPod("i2", { namespace: "idle" });
      await eventually("the pause to be seen", async () => {
        await coild.del(second);
        const error = await coild.refused(coild.add(second));
        assert.match(error.message, /pool "idle".*is paused.*annotation/);
        return true;
      });
      await coild.check(pod);
      await served(coild, pod);
      await pause(null);
      await eventually("the end of the pause to be seen", async () => {
        await served(coild, second);
        return true;
      });
      await coild.del(pod);
      await coild.del(second);
    },
  );

  await t.step(
    "a namespace with a list of pools gets addresses of the first that has some",
    async () => {
      await lab.createPool("rare", [{ ipv4: "10.106.0.0/31" }], 1);
      await lab.createPool("spare", [{ ipv4: "10.107.0.0/29" }], 2);
      await lab.createNamespace("list", {
        "coil.cybozu.com/pool": "typo, rare,spare",
      });
      const pods = [];
      for (const name of ["l1", "l2", "l3"]) {
        const pod = await lab.createPod(name, { namespace: "list" });
        pods.push({ pod, address: (await served(coild, pod))[0] });
      }
      const addresses = pods.map(({ address }) => address).sort();
      assert.deepEqual(addresses, ["10.106.0.0", "10.106.0.1", "10.107.0.0"]);
      const [first, , third] = pods;
      assert.ok(first && third);
      await coild.del(first.pod);
      // Its first pool has room again, but it is the same attachment.
      assert.equal((await served(coild, third.pod))[0], third.address);
      await coild.check(third.pod);
      for (const { pod } of pods) await coild.del(pod);
    },
  );

  await t.step(
    "a block deleted by hand, finalizer and all, quarantines its pods",
    async () => {
      await lab.createPool("hand", [{ ipv4: "10.104.0.0/28" }], 2);
      await lab.createNamespace("hand", { "coil.cybozu.com/pool": "hand" });
      const pod = await lab.createPod("h1", { namespace: "hand" });
      const [address] = await served(coild, pod);
      const [name] = await lab.blocks("hand");
      // The controller would give out the same addresses again at once.
      await granter.stop();
      await plane.request("PATCH", `${BLOCKS}/${name}`, {
        metadata: { finalizers: null },
      }, MERGE);
      await plane.request("DELETE", `${BLOCKS}/${name}`);
      await eventually(
        "the quarantine",
        async () =>
          await coild.metric(
            'coil_coild_addresses{pool="hand",state="quarantined"}',
          ) === 1,
      );
      granter.start();
      const other = await lab.createPod("h2", { namespace: "hand" });
      assert.notEqual((await served(coild, other))[0], address);
      await coild.del(pod);
      await coild.del(other);
    },
  );

  await t.step(
    "an ADD that waits is shown to administrators, and an Event says what it waits for",
    async () => {
      await coild.stop();
      coild = await lab.startCoild(node, ["--block-request-timeout=1h"]);
      await lab.createPool("late", [{ ipv4: "10.108.0.0/28" }], 2);
      await lab.createNamespace("late", { "coil.cybozu.com/pool": "late" });
      const pod = await lab.createPod("waits", { namespace: "late" });
      await granter.stop();
      const timeoutMs = 3_600_000;
      const add = awaitedLater(coild.add(pod, { timeoutMs }));
      await eventually("the Event", async () => {
        const events = await plane.kubectl(
          ...[
            "-n",
            "late",
            "get",
            "events",
            "-o",
            "jsonpath={.items[*].message}",
          ],
        );
        return events.includes("waits for an address");
      });
      const [call, ...others] = JSON.parse(
        await node.run(
          ...["curl", "-sS", "--unix-socket", `${coild.socketPath}.admin`],
          "http://coild/v1/calls",
        ),
      );
      assert.deepEqual(others, []);
      const { seconds, phaseSeconds, ...where } = call;
      assert.deepEqual(where, {
        method: "Add",
        containerId: pod.containerId,
        ifname: "eth0",
        namespace: "late",
        pod: "waits",
        phase: "address",
      });
      assert.ok(
        seconds >= phaseSeconds && phaseSeconds >= 4,
        `${phaseSeconds}`,
      );
      granter.start();
      await add;
      await coild.del(pod);
    },
  );

  await coild.stop();

  async function routes(table: string): Promise<string[]> {
    const text = await node.run("ip", "route", "show", "table", table);
    return text.trim().split("\n").filter((line) => line !== "");
  }
});
