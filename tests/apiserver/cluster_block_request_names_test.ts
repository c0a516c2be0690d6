// coild asks for a block although the name of its request is somebody else's.
import assert from "node:assert/strict";
import type { BlockRequest } from "../../lib/api/mod.ts";
import { awaitedLater, eventually } from "../lab/mod.ts";
import { CoildLab } from "./coild_lab.ts";

const REQUESTS = "/apis/coil.cybozu.com/v2/blockrequests";
const EVENTS = "/api/v1/namespaces/default/events";
const ARGS = ["--low-water=0"];
/** As upstream's coild would name it: of pool `default-node1`, node `x`, and others. */
const [FIRST, SECOND, THIRD] = ["req", "req2", "req3"]
  .map((start) => `${start}-default-node1`) as [string, string, string];

Deno.test("coild asks by another name when that of its request is taken", async (t) => {
  await using lab = await CoildLab.start({ name: "requestnames" });
  const { granter, plane } = lab;
  await lab.createPool("default", [{ ipv4: "10.126.0.0/24" }], 0);
  const take = (name: string) =>
    plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: { name },
      spec: { poolName: "other", nodeName: "other" },
    });
  const left = async () =>
    (await lab.list("blockrequests")).map(({ metadata }) => metadata.name);
  let coild = await lab.startCoild(lab.node(), ARGS);

  await t.step("the first is taken: it asks by the second", async () => {
    await take(FIRST);
    const adding = awaitedLater(
      lab.createPod("second").then((pod) => coild.add(pod)),
    );
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
      const runtime = new AbortController();
      const adding = coild.add(pod, { signal: runtime.signal });
      const cut = assert.rejects(adding, /hangs up/);
      await eventually(
        "the request",
        async () => (await left()).includes(SECOND),
      );
      runtime.abort(new Error("the runtime hangs up"));
      await cut;
      // As long as it runs, it waits for the answer: the next ADD would, too.
      await coild.process.kill9();
      await plane.request("DELETE", `${REQUESTS}/${FIRST}`);
      coild = await lab.startCoild(lab.node(), ARGS);
      const before = granter.granted.length;
      const again = awaitedLater(coild.add(pod));
      granter.start();
      await again;
      await granter.stop();
      assert.equal(granter.granted.length, before + 1, "one block, not two");
      await eventually(
        "the used request to be gone",
        async () => (await left()).length === 0,
      );
    },
  );

  await t.step(
    "all are taken: the answer and the pod's Event say which",
    async () => {
      for (const name of [FIRST, SECOND, THIRD]) await take(name);
      const pod = await lab.createPod("refused");
      const { message } = await coild.refused(coild.add(pod));
      const event = await eventually("the Event", async () => {
        const { items } = await plane.request("GET", EVENTS) as EventList;
        return items.find(({ involvedObject }) =>
          involvedObject.name === "refused"
        );
      });
      assert.equal(event.reason, "AddressPoolExhausted");
      for (const name of [FIRST, SECOND, THIRD]) {
        assert.ok(message.includes(`"${name}"`), message);
        assert.ok(event.message.includes(`"${name}"`), event.message);
      }
    },
  );
  await coild[Symbol.asyncDispose]();
});

interface EventList {
  readonly items: readonly {
    readonly reason: string;
    readonly message: string;
    readonly involvedObject: { readonly name: string };
  }[];
}
