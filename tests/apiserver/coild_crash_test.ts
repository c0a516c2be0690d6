import assert from "node:assert/strict";
import { ConnectError } from "../../lib/grpc/testing.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { CallError, type Coild, CoildLab, type Sandbox } from "./coild_lab.ts";
import { assertNoDuplicates } from "./pod_addresses.ts";
import { patchStatus } from "./patch_status.ts";

const ROUNDS = 12;
const PODS = 6;
const WAVE = 110;
const ARGS = ["--cooldown=0s"];

/** Whether a call was answered before the daemon was killed. */
async function isAnswered(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    const isCut = error instanceof ConnectError ||
      error instanceof CallError && error.status === "Unavailable";
    if (isCut) return false;
    throw error;
  }
}

Deno.test("coild loses nothing when it is killed, and serves waves", async (t) => {
  await using lab = await CoildLab.start({ name: "coildcrash" });
  const node = lab.node();
  await lab.createPool("default", [{
    ipv4: "10.110.0.0/22",
    ipv6: "fd02::110:0/118",
  }], 5);
  await using _controller = await lab.startController();
  let coild: Coild = await lab.startCoild(node, ARGS);

  await t.step(
    `kill -9 at ${ROUNDS} random moments of ADD and DEL: no address twice, no leak after DEL`,
    async () => {
      const pods: Sandbox[] = [];
      for (let n = 0; n < PODS; n++) {
        pods.push(await lab.createPod(`crash${n}`));
      }
      const attached = new Set<Sandbox>();
      /** A DEL of theirs had no answer: they are whole, or gone. */
      const doubtful = new Set<Sandbox>();
      for (let round = 0; round < ROUNDS; round++) {
        const calls = pods.map(async (pod) => {
          if (!attached.has(pod)) {
            if (await isAnswered(coild.add(pod))) attached.add(pod);
          } else if (await isAnswered(coild.del(pod))) {
            attached.delete(pod);
            doubtful.delete(pod);
          } else doubtful.add(pod);
        });
        await sleep(Math.random() * 40);
        await coild.process.kill9();
        await Promise.all(calls);
        coild = await lab.startCoild(node, ARGS);
        await assertNoDuplicates(pods);
        for (const pod of attached) {
          if (!doubtful.has(pod)) await coild.check(pod);
        }
        // What an interrupted ADD left is the runtime's to retry or to delete.
        for (const pod of pods) {
          if (!attached.has(pod) && round % 2 === 0) await coild.del(pod);
        }
      }
      for (const pod of pods) await coild.add(pod);
      await assertNoDuplicates(pods);
      for (const pod of pods) await coild.check(pod);
      for (const pod of pods) await coild.del(pod);
      await eventually("all veths and routes to be gone", async () => {
        const links = await node.run("ip", "-br", "link");
        const routes = await node.run("ip", "route", "show", "table", "116");
        const used = 'coil_coild_addresses{pool="default",state="used"}';
        return !links.includes("veth") && routes.trim() === "" &&
          (await coild.metric(used) ?? 0) === 0;
      });
    },
  );

  await t.step(
    `${WAVE} ADDs at once, then ${WAVE} DELs: none fails`,
    async () => {
      const pods: Sandbox[] = [];
      for (let n = 0; n < WAVE; n++) pods.push(await lab.createPod(`wave${n}`));
      const results = await Promise.all(
        pods.map((pod) => coild.addresses(pod)),
      );
      assert.equal(new Set(results.flat()).size, 2 * WAVE);
      const memory = await coild.metric("process_resident_memory_bytes");
      assert.ok((memory ?? 0) > 0);
      await coild.process.kill9();
      coild = await lab.startCoild(node, ARGS);
      const used = 'coil_coild_addresses{pool="default",state="used"}';
      assert.equal(await coild.metric(used), WAVE);
      await Promise.all(pods.map((pod) => coild.check(pod)));
      await Promise.all(pods.map((pod) => coild.del(pod)));
      await eventually(
        "all addresses to be free",
        async () =>
          (await coild.metric(used) ?? 0) === 0 &&
          (await coild.metric("coil_coild_husks")) === 0,
      );
    },
  );

  await t.step(
    "SIGTERM finishes the teardowns that were answered",
    async () => {
      const pods: Sandbox[] = [];
      for (let n = 0; n < 10; n++) pods.push(await lab.createPod(`term${n}`));
      await Promise.all(pods.map((pod) => coild.add(pod)));
      await Promise.all(pods.map((pod) => coild.del(pod)));
      const status = await coild.stop();
      assert.equal(status.code, 0);
      assert.equal(
        (await node.run("ip", "-br", "link")).includes("veth"),
        false,
      );
    },
  );

  await t.step(
    "SV-11: the export table is emptied at the end only when the Node is gone and the flag is on",
    async () => {
      const table = () => node.run("ip", "route", "show", "table", "119");
      coild = await lab.startCoild(node, ARGS);
      const pod = await lab.createPod("sv11");
      await coild.add(pod);
      const flag = "--clear-routes-on-shutdown";
      await coild.stop();
      assert.match(await table(), /dev lo/);
      coild = await lab.startCoild(node, [...ARGS, flag]);
      await coild.stop();
      assert.match(await table(), /dev lo/);
      coild = await lab.startCoild(node, [...ARGS, flag]);
      await lab.plane.request("DELETE", `/api/v1/nodes/${node.name}`);
      await lab.tokenRefused(node);
      await coild.stop();
      assert.equal((await table()).trim(), "", await coild.process.logs());
      await lab.registerAgain(node);
    },
  );

  await t.step(
    "W20: a node without an IPv4 address serves IPv4 pods",
    async () => {
      await patchStatus(lab.plane, `/api/v1/nodes/${node.name}`, {
        addresses: [{ type: "Hostname", address: node.name }],
      });
      coild = await lab.startCoild(node, ARGS);
      const pod = await lab.createPod("w20");
      const [ipv4] = await coild.addresses(pod);
      await node.run("ping", "-c1", "-w20", ipv4 ?? "");
      await coild.del(pod);
    },
  );

  await t.step(
    "GC releases what the runtime does not name, of its network only",
    async () => {
      const keep = await lab.createPod("gc-keep");
      const drop = await lab.createPod("gc-drop");
      const other = await lab.createPod("gc-other");
      await coild.add(keep);
      await coild.add(drop);
      await coild.add(other, { config: { name: "another-network" } });
      const unknown = await coild.refused(
        coild.call("Gc", undefined, {
          config: { "cni.dev/valid-attachments": null },
        }),
      );
      assert.equal(unknown.code, 7);
      assert.match(unknown.message, /"k8s-pod-network".* is null/);
      await coild.check(keep);
      await coild.call("Gc", undefined, { valid: [keep] });
      await coild.check(keep);
      await coild.check(other);
      await coild.refused(coild.check(drop));
      for (const pod of [keep, other]) await coild.del(pod);
    },
  );

  await t.step(
    "GC after a restart keeps an attachment whose address a pod has",
    async () => {
      const live = await lab.createPod("gc-live");
      const dead = await lab.createPod("gc-dead");
      const addresses = await coild.addresses(live);
      await coild.add(dead);
      await lab.plane.request(
        "PATCH",
        "/api/v1/namespaces/default/pods/gc-live/status",
        {
          status: {
            podIP: addresses[0],
            podIPs: addresses.map((ip) => ({ ip })),
          },
        },
        { contentType: "application/merge-patch+json" },
      );
      await coild.process.kill9();
      coild = await lab.startCoild(node, ARGS);
      await coild.call("Gc", undefined, { valid: [] });
      await coild.check(live);
      await coild.refused(coild.check(dead));
      await coild.del(live);
    },
  );

  await t.step(
    "DEL after the namespace is gone frees the address",
    async () => {
      const pod = await lab.createPod("nons");
      const first = await coild.addresses(pod);
      await lab.deleteNetns(pod);
      await coild.del(pod);
      const used = 'coil_coild_addresses{pool="default",state="used"}';
      await eventually(
        "the address to be free",
        async () => await coild.metric(used) === 0,
        {},
      );
      assert.equal(first.length, 2);
    },
  );

  await coild.stop();
});
