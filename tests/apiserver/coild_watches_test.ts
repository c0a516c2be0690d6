// Which watches a node's coild opens: with thousands of nodes each of them
// counts. Only names, a namespace and a pod's node are in an index of the API
// server; what is selected otherwise it compares with every write.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { EgressLab } from "./coild_egress_lab.ts";

const USER = "system:serviceaccount:kube-system:coild";
const ALL = { destinations: ["0.0.0.0/0", "::/0"] };
const GROUP = "/apis/coil.cybozu.com/v2";

/** `/api/v1/pods spec.nodeName=node1`. */
function lineOf(uri: string): string {
  const { pathname, searchParams } = new URL(uri, "https://server");
  const selectors = ["fieldSelector", "labelSelector"]
    .flatMap((name) => searchParams.get(name) ?? []);
  return [pathname, ...selectors].join(" ");
}

Deno.test("coild watches what its node needs, and Egresses only where pods of the node name some", async (t) => {
  await using egress = await EgressLab.start("watches", { audit: "metadata" });
  const { plane } = egress.lab;
  const node = egress.lab.node().name;
  const since = new Date();
  const watches = async () => {
    const requests = await plane.auditRequests({ since, user: USER });
    const lines = requests.filter(({ verb }) => verb === "watch")
      .map(({ uri }) => lineOf(uri));
    return [...new Set(lines)].sort();
  };
  const own = [
    "/api/v1/namespaces",
    `/api/v1/nodes metadata.name=${node}`,
    `/api/v1/pods spec.nodeName=${node}`,
    `${GROUP}/addresspools`,
  ];
  await egress.createEgress("internet", ALL, [
    { address: "10.9.0.1", pod: "gw1" },
  ]);
  await using coild = await egress.coild();

  await t.step("without clients", async () => {
    await eventually("all watches", async () => {
      assert.deepEqual(await watches(), own);
      return true;
    });
    // Another node's Egresses are none of its business.
    await egress.createEgress("other", ALL, []);
    const pod = await egress.lab.createPod("plain");
    await coild.add(pod);
    const request = `${GROUP}/blockrequests metadata.name=req-default-${node}`;
    assert.deepEqual(
      (await watches()).filter((line) => line !== request),
      own,
    );
  });

  await t.step("with a client", async () => {
    await coild.add(await egress.createClient("client", "internet"));
    const [first = ""] = (await watches()).filter((line) =>
      line.includes("/egresses")
    );
    const namespace = first.split("/").at(-2);
    const selector =
      "app.kubernetes.io/name=coil,app.kubernetes.io/component=egress";
    const more = [
      `/api/v1/namespaces/${namespace}/services ${selector}`,
      `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices ${selector}`,
      `${GROUP}/namespaces/${namespace}/egresses`,
    ];
    await eventually("its namespace's watches", async () => {
      const lines = (await watches()).filter((line) =>
        !line.includes("blockrequests")
      );
      assert.deepEqual(lines, [...own, ...more].sort());
      return true;
    });
  });
});
