// Clusters of one IP version, and one whose first is IPv6: pods, Services, and Coil's own programs in them.
import assert from "node:assert/strict";
import { hostPort } from "../../lib/inet/mod.ts";
import { SERVICES } from "../../lib/kube/mod.ts";
import type { LabFamily } from "../lab/mod.ts";
import { assertAgreement } from "./agreement.ts";
import { Installation } from "./installation.ts";
import { HTTP_PORT } from "./pods.ts";
import { answerOf, assertReaches } from "./reach.ts";

const CLUSTERS: readonly (readonly LabFamily[])[] = [
  ["ipv4"],
  ["ipv6"],
  ["ipv6", "ipv4"],
];

/** The IP version of an address. */
function familyOf(address: string): LabFamily {
  return address.includes(":") ? "ipv6" : "ipv4";
}

for (const families of CLUSTERS) {
  Deno.test(`E2E-1 E2E-2: a cluster of ${families.join(", then ")}`, async (t) => {
    await using site = await Installation.create({
      name: `e2e${families.join("")}`,
      nodes: 2,
      by: "overlay router",
      families,
    });

    await t.step(
      "pods have an address of each version, and reach each other on two nodes",
      async () => {
        const [near, far] = await Promise.all([
          site.pods.run({ name: "near", node: "node1" }),
          site.pods.run({ name: "far", node: "node2" }),
        ]);
        assert.deepEqual(near.addresses.map(familyOf), families);
        await assertReaches(site, { from: near, to: far });
        await assertAgreement(site);
        await site.pods.remove(near, far);
      },
    );

    await t.step("a Service leads to a pod of the other node", async () => {
      const service = { name: "web", namespace: "default" };
      const [server, client] = await Promise.all([
        site.pods.run({ name: "web", node: "node1" }),
        site.pods.run({ name: "visitor", node: "node2" }),
      ]);
      const { spec } = await site.client.create(SERVICES, {
        metadata: service,
        spec: {
          selector: { app: "web" },
          ipFamilyPolicy: "PreferDualStack",
          ports: [{ port: 80, targetPort: HTTP_PORT }],
        },
      });
      const addresses = spec?.clusterIPs ?? [];
      assert.deepEqual(addresses.map(familyOf), families);
      for (const address of addresses) {
        const url = `http://${hostPort(address, 80)}/`;
        assert.match(await answerOf(site, url, { from: client }), /^web /);
      }
      await site.client.delete(SERVICES, service);
      await site.pods.remove(server, client);
    });
  });
}
