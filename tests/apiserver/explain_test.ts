import assert from "node:assert/strict";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { type ControlPlane, startCoilPlane } from "../lab/mod.ts";
import { untilAllowed } from "./access.ts";
import { addPod, populate } from "./ipam_books.ts";

/** An Egress with its Service, and one gateway. */
async function addEgress(
  plane: ControlPlane,
  name: string,
  clusterIP: string,
): Promise<void> {
  const metadata = { namespace: "nat", name };
  const port = 5555;
  await plane.apply(
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata,
      spec: {
        destinations: ["0.0.0.0/0"],
        template: { spec: { containers: [{ name: "egress" }] } },
      },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata,
      spec: { clusterIP, ports: [{ port, protocol: "UDP" }] },
    },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        ...metadata,
        labels: { "kubernetes.io/service-name": name },
      },
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.2.0.50"], conditions: { ready: true } }],
      ports: [{ port, protocol: "UDP" }],
    },
  );
}

Deno.test("coil explain says who has an address and how a pod's packets leave", async (t) => {
  await using plane = await startCoilPlane({ name: "explain" });
  await populate(plane);
  await plane.createNamespace("nat");
  await addEgress(plane, "internet", "10.96.0.77");
  const annotation = "egress.coil.cybozu.com/nat=internet";
  await plane.kubectl("-n", "apps", "annotate", "pod/web-1", annotation);
  const now = new Date(Date.now() + 3_600_000);
  const explain = (...args: readonly string[]): Promise<Output> =>
    coil(["explain", ...args, `--kubeconfig=${plane.kubeconfig}`], {
      now: () => now,
    });

  const sessions = await testedSessions("docs/roles/coil.md", import.meta.url);
  assert.equal(sessions.length, 2);
  for (const { command, output } of sessions) {
    await t.step(`the document shows what it prints: ${command}`, async () => {
      const [program, ...args] = command.split(" ");
      assert.equal(program, "coil");
      const { code, out, err } = await coil(
        [...args, `--kubeconfig=${plane.kubeconfig}`],
        { now: () => now },
      );
      assert.deepEqual([out, err], [output, ""]);
      assert.equal(code, args.includes("apps/lost") ? 3 : 0);
    });
  }

  await t.step("of a pod with two addresses it explains both", async () => {
    const { code, out } = await explain("apps/web-1", "-o=json");
    assert.equal(code, 0);
    const { addresses } = JSON.parse(out);
    assert.deepEqual(
      addresses.map((
        { address, use, blocks: [{ name }] }: {
          address: string;
          use: string;
          blocks: [{ name: string }];
        },
      ) => [address, use, name]),
      [["10.2.0.9", "in-use", "default-0"], ["fd02::9", "in-use", "default-0"]],
    );
  });

  await t.step("a free address, and one that is no pool's", async () => {
    assert.match(
      (await explain("10.2.0.11")).out,
      /^10.2.0.11 is free: .*Node node1 may get it\n {2}Pod apps\/done on Node node1 had it until it ended \(Succeeded\)/,
    );
    assert.match(
      (await explain("10.2.0.201")).out,
      /^10.2.0.201 is free: no node has a block of AddressPool "default"/,
    );
    assert.match(
      (await explain("10.96.0.77")).out,
      /^10.96.0.77 is not Coil's: .* It belongs to Service nat\/internet\n$/,
    );
    assert.match(
      (await explain("172.30.0.11")).out,
      /It belongs to Pod apps\/host on the host network/,
    );
  });

  await t.step("two holders are a problem", async () => {
    await addPod(plane, ["default", "twin", "node2"], ["10.2.0.9"]);
    const { code, out } = await explain("10.2.0.9");
    assert.equal(code, 3);
    assert.match(out, /in use by Pod apps\/web-1 and Pod default\/twin\n/);
    assert.match(out, /2 problems:\n/);
    await plane.kubectl("delete", "pod/twin", "--force", "--grace-period=0");
  });

  await t.step("a pod without an address, or that does not exist", async () => {
    await addPod(plane, ["apps", "waits", "node1"], [], { phase: "Pending" });
    const { code, out } = await explain("apps/waits");
    assert.equal(code, 0);
    assert.match(
      out,
      /^Pod apps\/waits \(Pending, Node node1\) has no address\..*describe pod waits\n$/,
    );
    const missing = await explain("apps/wbe");
    assert.equal(missing.code, 1);
    assert.match(missing.err, /Pod "apps\/wbe": it does not exist/);
    const nobody = await explain("10.2.0.12", "--to=8.8.8.8");
    assert.match(nobody.err, /"10.2.0.12" leave: no pod has it/);
  });

  await t.step(
    "what may not be read is named, and is no free address",
    async () => {
      const user = await plane.kubeconfigFor({ user: "reader" });
      const role = ["create", "clusterrole", "block-reader"];
      const resources = "addresspools,addressblocks";
      await plane.kubectl(
        ...role,
        "--verb=list",
        `--resource=${
          resources.split(",").map((name) => `${name}.coil.cybozu.com`).join()
        }`,
      );
      const bind = ["create", "clusterrolebinding", "block-reader"];
      await plane.kubectl(
        ...bind,
        "--clusterrole=block-reader",
        "--user=reader",
      );
      await untilAllowed(plane, {
        user: "reader",
        verb: "list",
        group: "coil.cybozu.com",
        resource: "addressblocks",
      });
      const { code, out } = await coil([
        "explain",
        "10.2.0.9",
        `--kubeconfig=${user}`,
      ]);
      assert.equal(code, 1);
      assert.match(out, /^10.2.0.9 is unknown: .*AddressPool default\n/s);
      assert.match(out, /Not looked at: pods \(forbidden\)/);
    },
  );
});
