import assert from "node:assert/strict";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { startCoilPlane } from "../lab/mod.ts";
import { addEgress, type GatewayPod } from "./egresses.ts";
import { patchStatus } from "./patch_status.ts";
import { addViewer } from "./viewer.ts";

/** As many as an Egress usually has. */
function gatewaysOf(name: string): GatewayPod[] {
  return ["node1", "node2"].map((node, i) => ({
    node,
    address: `10.2.${i}.${name.length}`,
    isReady: true,
  }));
}

function client(name: string, address: string): object {
  return {
    namespace: "apps",
    name,
    uid: name,
    nodeName: "node1",
    addresses: [address],
  };
}

Deno.test("coil egress show tells clients, gateways and sources", async (t) => {
  await using plane = await startCoilPlane({ name: "egressshow" });
  await plane.createNamespace("nat");
  const since = new Date();
  const now = new Date(since.getTime() + 3_600_000);
  const web = client("web-1", "10.2.0.9");
  await addEgress(plane, "internet", {
    clients: [web, client("web-2", "10.2.0.10")],
    gateways: gatewaysOf("internet"),
    since,
  });
  await addEgress(plane, "office", {
    clients: [client("db", "10.2.0.40")],
    gateways: gatewaysOf("office"),
    since,
  });
  await patchStatus(
    plane,
    "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/internet",
    {
      gateways: [
        { name: "internet-0", addresses: ["10.2.0.8"], probingNodes: 9 },
        {
          name: "internet-1",
          probingNodes: 12,
          draining: true,
          translated: [{
            address: "10.2.1.8",
            seenAs: "192.0.2.12",
            destination: "203.0.113.9",
          }],
          losses: [{
            address: "10.2.0.8",
            nodes: 2,
            nodeNames: ["node5", "node7"],
            since: new Date(now.getTime() - 180_000).toISOString(),
            endedConnections: 41,
          }],
          suspects: [{
            address: "10.2.0.8",
            nodes: 1,
            nodeNames: ["node6"],
          }],
        },
      ],
    },
  );
  const config = `--kubeconfig=${plane.kubeconfig}`;
  const show = (...args: readonly string[]): Promise<Output> =>
    coil(["egress", "show", ...args, config], { now: () => now });

  const sessions = await testedSessions("docs/roles/coil.md", import.meta.url);
  assert.equal(sessions.length, 3);
  for (const { command, output } of sessions) {
    await t.step(`the document shows what it prints: ${command}`, async () => {
      const [, ...args] = command.split(" ");
      const shown = await coil([...args, config], { now: () => now });
      assert.deepEqual(shown, { code: 0, out: output, err: "" });
    });
  }

  await t.step("-o json has the same as data", async () => {
    const { out } = await show("sources", "nat/office", "-o=json");
    assert.deepEqual(JSON.parse(out), {
      sources: [0, 1].map((i) => ({
        egress: "nat/office",
        address: `10.2.${i}.6`,
        seenAs: [],
        gateway: `nat/office-${i}`,
        node: `node${i + 1}`,
        state: "ready",
      })),
    });
  });

  await t.step("--pod shows only Egresses that it uses", async () => {
    const { out } = await show("gateways", "--pod=apps/db", "--no-headers");
    assert.deepEqual(
      out.trim().split("\n").map((line) => line.split(/ +/)[1]),
      ["nat/office-0", "nat/office-1"],
    );
    const nobody = await show("sources", "--pod=apps/nobody");
    assert.deepEqual([nobody.code, nobody.err], [0, "No sources found\n"]);
  });

  await t.step("an Egress that does not exist is an error", async () => {
    const { code, err } = await show("clients", "nat/intranet");
    assert.equal(code, 1);
    assert.match(err, /Cannot show Egress "nat\/intranet": it does not exist/);
    // A name that would be another selector is only a name.
    const odd = await show("clients", "nat/x,metadata.name!=x");
    assert.match(
      odd.err,
      /Egress "nat\/x,metadata.name!=x": it does not exist/,
    );
  });

  await t.step("the ClusterRole view allows all of it", async () => {
    const viewer = await addViewer(plane, ["coilv2-egress-viewer-role"]);
    for (const subject of ["clients", "gateways", "sources"]) {
      const args = ["egress", "show", subject, "nat/office"];
      const shown = await coil([...args, `--kubeconfig=${viewer}`]);
      assert.equal(shown.code, 0, shown.err);
    }
  });
});
