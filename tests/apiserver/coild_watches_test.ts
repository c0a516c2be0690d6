// Which collections a node's coild lists and watches: with thousands of nodes
// each of them counts. Only names, a namespace and a pod's node are in an index
// of the API server; what is selected otherwise it compares with every write.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { collectionsOf, listsOf, untilQuiet } from "./audited.ts";
import { EgressLab, NAMESPACE } from "./coild_egress_lab.ts";

const USER = "system:serviceaccount:kube-system:coild";
const ALL = { destinations: ["0.0.0.0/0", "::/0"] };
const GROUP = "/apis/coil.cybozu.com/v2";

Deno.test("W13: coild lists and watches what its node needs, and Egresses only where pods of the node name some", async (t) => {
  await using egress = await EgressLab.start("watches", { audit: "metadata" });
  const { plane } = egress.lab;
  const node = egress.lab.node().name;
  const since = new Date();
  const read = () => collectionsOf(plane, { since, user: USER });
  const ofNode = `coil.cybozu.com/node=${node}`;
  const lists = [
    `${GROUP}/addressblocks ${ofNode}`,
    `${GROUP}/blockrequests ${ofNode}`,
  ];
  const assertListed = async (when: string) =>
    assert.deepEqual(await listsOf(plane, { since, user: USER }), lists, when);
  const own = [
    ...lists.map((line) => `list ${line}`),
    "watch /api/v1/namespaces",
    `watch /api/v1/nodes metadata.name=${node}`,
    `watch /api/v1/pods spec.nodeName=${node}`,
    `watch ${GROUP}/addresspools`,
  ];
  const request =
    `watch ${GROUP}/blockrequests metadata.name=req-default-${node}`;
  await egress.createEgress("internet", ALL, [
    { address: "10.9.0.1", pod: "gw1" },
  ]);
  await using coild = await egress.coild();

  await t.step("without clients", async () => {
    await eventually("all that it reads", async () => {
      assert.deepEqual(await read(), own);
      return true;
    });
    await assertListed("once each, at the start");
    // Another node's Egresses are none of its business.
    await egress.createEgress("other", ALL, []);
    const pod = await egress.lab.createPod("plain");
    await coild.add(pod);
    assert.deepEqual(
      (await read()).filter((line) => line !== request),
      own,
    );
  });

  await t.step("with a client", async () => {
    await coild.add(await egress.createClient("client", "internet"));
    const selector =
      "app.kubernetes.io/name=coil,app.kubernetes.io/component=egress";
    const more = [
      `watch /apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices ${selector}`,
      `watch ${GROUP}/namespaces/${NAMESPACE}/egresses`,
    ];
    await eventually("its namespace's watches", async () => {
      const lines = (await read()).filter((line) => line !== request);
      assert.deepEqual(lines, [...own, ...more].sort());
      return true;
    });
    // Nothing else is left to do.
    await untilQuiet(plane, USER);
    await assertListed("and no more since");
  });
});
