import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "./controller_testing.ts";
import { patchPodStatus } from "./patch_status.ts";

const NAMESPACE = "/api/v1/namespaces/default/pods";

interface PodFacts {
  readonly ips: readonly string[];
  readonly phase?: string;
  readonly hostNetwork?: boolean;
}

Deno.test("coil-controller counts what pods use of a pool", async (t) => {
  await using lab = await ControllerLab.start("ctlusage", ["node1"]);
  const { plane } = lab;
  await lab.createPool("dual", {
    blockSizeBits: 2,
    subnets: [{ ipv4: "10.4.0.0/28", ipv6: "fd02::/124" }],
  });

  async function setStatus(name: string, facts: PodFacts): Promise<void> {
    await patchPodStatus(plane, { namespace: "default", name }, facts);
  }
  async function addPod(name: string, facts: PodFacts): Promise<void> {
    await plane.request("POST", NAMESPACE, {
      metadata: { name },
      spec: {
        nodeName: "node1",
        hostNetwork: facts.hostNetwork ?? false,
        containers: [{ name: "c", image: "example.com/c" }],
      },
    });
    await setStatus(name, facts);
  }
  async function untilUsed(ipv4: string, ipv6: string): Promise<void> {
    await eventually(`${ipv4} and ${ipv6} addresses in use`, async () => {
      const { status } = await lab.pool("dual");
      return status?.ipv4?.used === ipv4 && status.ipv6?.used === ipv6;
    });
  }

  await using _controller = lab.startController();
  assert.equal(await lab.ask("dual", "node1"), "block dual-0");

  await t.step("pods that start", async () => {
    await addPod("both", { ips: ["10.4.0.0", "fd02::"] });
    await addPod("ipv4", { ips: ["10.4.0.1"] });
    await addPod("host", { ips: ["10.4.0.2", "fd02::2"], hostNetwork: true });
    await addPod("done", { ips: ["10.4.0.3"], phase: "Succeeded" });
    await addPod("foreign", { ips: ["192.0.2.7", "2001:db8::7"] });
    await addPod("blockless", { ips: ["10.4.0.9", "fd02::9"] });
    await untilUsed("2", "1");
    assert.equal(
      await plane.kubectl(
        "get",
        "apool",
        "dual",
        "-o=jsonpath={.status.usage}",
      ),
      "2/16 (12%)",
    );
  });

  await t.step("a pod that has a reserved address is named", async () => {
    const reserve = (reserved: readonly string[] | null) =>
      lab.merge("addresspools/dual", { spec: { reserved } });
    const condition = async () =>
      (await lab.pool("dual")).status?.conditions
        ?.find(({ type }) => type === "ReservedInUse");
    // The rest of the blocks is reserved whole.
    await reserve(["fd02::", "10.4.0.9", "10.4.0.4-10.4.0.15"]);
    await eventually(
      "the condition",
      async () =>
        (await condition())?.message.includes("fd02:: (default/both)"),
    );
    assert.match(
      await lab.ask("dual", "node1"),
      /^failed out of blocks: /,
    );
    const { status } = await lab.pool("dual");
    assert.equal(status?.blocks?.unavailable, 3);
    assert.deepEqual([status?.ipv4?.free, status?.ipv6?.free], ["0", "0"]);
    await reserve(null);
    await eventually(
      "the end of it",
      async () => await condition() === undefined,
    );
  });

  await t.step("pods that end, and one that goes", async () => {
    await setStatus("ipv4", { ips: ["10.4.0.1"], phase: "Failed" });
    await plane.request("DELETE", `${NAMESPACE}/both?gracePeriodSeconds=0`);
    await untilUsed("0", "0");
  });

  await t.step("pods that were there before their block", async () => {
    assert.equal(await lab.ask("dual", "node1"), "block dual-1");
    assert.equal(await lab.ask("dual", "node1"), "block dual-2");
    await untilUsed("1", "1");
  });
});
