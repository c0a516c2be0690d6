// coild asks for a block although the name of its request is somebody else's.
import assert from "node:assert/strict";
import type { BlockRequest } from "../../lib/api/mod.ts";
import { eventually } from "../lab/mod.ts";
import { CoildLab } from "./coild_lab.ts";

const REQUESTS = "/apis/coil.cybozu.com/v2/blockrequests";
/** As upstream's coild would name it: of pool `default-node1`, node `x`, and others. */
const [FIRST, SECOND, THIRD] = ["req", "req2", "req3"]
  .map((start) => `${start}-default-node1`) as [string, string, string];

Deno.test("coild asks by another name when that of its request is taken", async (t) => {
  await using lab = await CoildLab.start({ name: "requestnames" });
  const { granter, plane } = lab;
  await lab.createPool("default", [{ ipv4: "10.126.0.0/24" }], 0);
  const take = (name: string) =>
    plane.apply({
      ...{ apiVersion: "coil.cybozu.com/v2", kind: "BlockRequest" },
      metadata: { name },
      spec: { poolName: "other", nodeName: "other" },
    });
  const left = async () =>
    (await lab.list("blockrequests")).map(({ metadata }) => metadata.name);
  await using coild = await lab.startCoild(lab.node(), ["--low-water=0"]);

  await t.step("the first is taken: it asks by the second", async () => {
    await take(FIRST);
    const adding = lab.createPod("second").then((pod) => coild.add(pod));
    await eventually(
      "the request",
      async () => (await left()).includes(SECOND),
    );
    const request = await plane.request(
      "GET",
      `${REQUESTS}/${SECOND}`,
    ) as BlockRequest;
    assert.deepEqual(request.spec, { poolName: "default", nodeName: "node1" });
    granter.start();
    await adding;
    await granter.stop();
    await eventually(
      "the used request to be gone, and the other's left alone",
      async () => (await left()).join() === FIRST,
    );
  });

  await t.step(
    "a request under way is found again under its name, though the first has become free",
    async () => {
      const pod = await lab.createPod("again");
      const impatient = coild.add(pod, { timeoutMs: 1_500 });
      await assert.rejects(impatient);
      await eventually(
        "the request",
        async () => (await left()).includes(SECOND),
      );
      await plane.request("DELETE", `${REQUESTS}/${FIRST}`);
      const before = granter.granted.length;
      const adding = coild.add(pod);
      granter.start();
      await adding;
      await granter.stop();
      assert.equal(granter.granted.length, before + 1, "one block, not two");
    },
  );

  await t.step("all are taken: the pod's Event says which", async () => {
    for (const name of [FIRST, SECOND, THIRD]) await take(name);
    const pod = await lab.createPod("refused");
    const error = await coild.refused(coild.add(pod));
    for (const name of [FIRST, SECOND, THIRD]) {
      assert.ok(error.message.includes(`"${name}"`), error.message);
    }
  });
});
