import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { type Coild, CoildLab, type Sandbox } from "./coild_lab.ts";
import { assertNoDuplicates } from "./pod_addresses.ts";

const POOL = "/apis/coil.cybozu.com/v2/addresspools/default";
const ARGS = ["--cooldown=0s"];

/** The last numbers of the pod's addresses, which are the same in both families: "1" of 10.108.0.1 and fd02::108:1. */
async function numberOf(coild: Coild, pod: Sandbox): Promise<number> {
  const [ipv4 = "", ipv6 = ""] = await coild.addresses(pod);
  const number = Number(ipv4.split(".").at(-1));
  assert.equal(parseInt(ipv6.split(":").at(-1) || "0", 16), number);
  return number;
}

Deno.test("coild never gives reserved addresses, from when they are reserved", async (t) => {
  await using lab = await CoildLab.start({ name: "coildreserved" });
  const { plane } = lab;
  const reserve = (...reserved: string[]) =>
    plane.request("PATCH", POOL, { spec: { reserved } }, {
      contentType: "application/merge-patch+json",
    });
  const subnet = { ipv4: "10.108.0.0/28", ipv6: "fd02::108:0/124" };
  await lab.createPool("default", [subnet], 4);
  await reserve("10.108.0.0-10.108.0.3", "fd02::108:5");
  lab.granter.start();
  let coild = await lab.startCoild(lab.node(), ARGS);
  const first = await lab.createPod("first");
  const pods: Sandbox[] = [first];

  await t.step("from the first pod on, of either family", async () => {
    assert.equal(await numberOf(coild, first), 4);
    const second = await lab.createPod("second");
    pods.push(second);
    assert.equal(await numberOf(coild, second), 6);
  });

  await t.step("while pods start and end", async () => {
    const churn = await Promise.all(
      Array.from({ length: 4 }, (_, n) => lab.createPod(`churn${n}`)),
    );
    let isSeen = false;
    const busy = churn.map(async (pod) => {
      // Three rounds after it was seen, also in the middle of one.
      for (let left = 3; left > 0;) {
        const wasSeen = isSeen;
        const number = await numberOf(coild, pod);
        if (wasSeen) {
          assert.ok(number > 10, `${number}`);
          left--;
        }
        await coild.del(pod);
      }
    });
    await reserve("fd02::108:0/125", "10.108.0.8-10.108.0.10");
    const sample = 'coil_coild_addresses{pool="default",state="reserved"}';
    // 11 positions, of which "first" and "second" have two.
    await eventually("the reserved addresses to be known", async () => {
      return await coild.metric(sample) === 9;
    });
    isSeen = true;
    await Promise.all(busy);
  });

  await t.step("who has one keeps it", async () => {
    await coild.check(first);
    assert.equal(await numberOf(coild, first), 4);
    await assertNoDuplicates(pods);
  });

  await t.step("after a restart, too", async () => {
    await coild[Symbol.asyncDispose]();
    coild = await lab.startCoild(lab.node(), ARGS);
    assert.equal(await numberOf(coild, first), 4);
    for (let n = 0; n < 5; n++) {
      const pod = await lab.createPod(`late${n}`);
      pods.push(pod);
      assert.ok(await numberOf(coild, pod) > 10);
    }
    const pod = await lab.createPod("toomany");
    const error = await coild.refused(coild.add(pod));
    assert.match(error.message, /pool "default"/);
    await reserve();
    await eventually("room", async () => await numberOf(coild, pod) < 11);
    pods.push(pod);
    await assertNoDuplicates(pods);
  });
});
