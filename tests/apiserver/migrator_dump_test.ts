// coil migrate dump against a real etcd, API server and garbage collector:
// what it writes, what it removes, and what comes of the manifest.
import assert from "node:assert/strict";
import { type ControlPlane, eventually } from "../lab/mod.ts";
import { installCrds } from "./crds.ts";
import { ALL_OF_V1, DumpLab, startPlane } from "./migrator_dump_lab.ts";
import { migrate, v1Objects } from "./migrator_testing.ts";

let plane: ControlPlane;

Deno.test.beforeAll(async () => {
  plane = await startPlane("migrate-dump");
});

Deno.test.afterAll(async () => {
  await plane[Symbol.asyncDispose]();
});

/** A pod on node1 that has an address. */
async function createPod(
  { namespace, name, ip }: Record<"namespace" | "name" | "ip", string>,
): Promise<void> {
  // The namespace's service account may yet have to be made.
  await eventually("the pod", async () => {
    await plane.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name },
      spec: {
        nodeName: "node1",
        containers: [{ name: "main", image: "none" }],
      },
    });
    return true;
  });
  const status = { phase: "Running", podIP: ip, podIPs: [{ ip }] };
  await plane.kubectl(
    ...["patch", "pod", "-n", namespace, name, "--subresource=status"],
    ...["--type=merge", "-p", JSON.stringify({ status })],
  );
}

Deno.test("migrate dump: nothing happens without a yes, nor in a dry run", async () => {
  await using lab = await DumpLab.start(plane);
  const untouched = async () => {
    assert.equal((await v1Objects(lab.plane)).length, ALL_OF_V1);
    assert.equal(await lab.hasManifest(), false);
    assert.deepEqual(await lab.record(), {});
  };
  const dry = await lab.dump(["--dry-run"]);
  assert.equal(dry.code, 0, dry.err);
  assert.match(dry.err, /2 pools, 3 blocks on nodes, 1 namespace/);
  assert.match(dry.err, /node gone: it has 1 block in v1/);
  assert.match(dry.err, /DaemonSet kube-system\/coil-node/);
  await untouched();
  const nobody = await lab.dump();
  assert.equal(nobody.code, 1);
  assert.match(nobody.err, /stdin is not a terminal\nUse --yes/);
  await untouched();
  const declined = await lab.dump([], { answer: false });
  assert.equal(declined.code, 0);
  assert.match(declined.err, /Go on: [^]*Aborted/);
  await untouched();

  // A manifest for somebody else's eyes: v1 stays.
  const printed = await lab.dump(["--output=-"]);
  assert.equal(printed.code, 0, printed.err);
  assert.match(printed.out, /^# Coil v1's state/);
  await untouched();

  // Where the manifest cannot be written, nothing is deleted.
  const nowhere = await lab.dump(["--yes", "--output=/proc/nowhere/m.yaml"]);
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.err, /Cannot write manifest "\/proc\/nowhere\/m.yaml"/);
  await untouched();

  // v1 can be left in place, too.
  const kept = await lab.dump(["--skip-uninstall"]);
  assert.equal(kept.code, 0, kept.err);
  assert.equal((await v1Objects(lab.plane)).length, ALL_OF_V1);
  assert.equal(await lab.text(), printed.out);
});

Deno.test("migrate dump: the manifest is there before v1 goes, and what v1 did until then is in it", async () => {
  await using lab = await DumpLab.start(plane);
  let before = "";
  const pending: Promise<unknown>[] = [];
  const { code, err } = await lab.dump([], {
    answer: true,
    onText: (text) => {
      if (before !== "" || !text.includes("deleting DaemonSet")) return;
      before = Deno.readTextFileSync(lab.manifest);
      // v1 gives out one more block while it is being removed.
      pending.push(lab.etcd.put({
        "block/web/10.65.0.0": {
          free: null,
          nodes: { node1: ["10.65.0.1/32", "10.65.0.2/32"] },
        },
      }));
    },
  });
  await Promise.all(pending);
  assert.equal(code, 0, err);
  assert.deepEqual(await v1Objects(lab.plane), []);
  assert.match(before, /name: web-2-v1/);
  assert.doesNotMatch(before, /name: web-1-v1/);
  assert.match(err, /v1's state has changed since/);
  assert.match(await lab.text(), /name: web-1-v1[^]*name: web-2-v1/);
  const record = await lab.record();
  assert.equal(record["blocks"], "4");
  assert.ok(record["v1RemovedAt"]);
  await assert.rejects(Deno.stat(`${lab.manifest}.part`), Deno.errors.NotFound);

  // Again: the same manifest, nothing to ask, nothing to do.
  const text = await lab.text();
  const again = await lab.dump();
  assert.equal(again.code, 0, again.err);
  assert.match(again.err, /is up to date/);
  assert.equal(await lab.text(), text);
});

Deno.test("migrate dump: what cannot be carried over is told, and the order in which etcd got it does not matter", async () => {
  await using lab = await DumpLab.start(plane);
  const state = {
    "pool/default": { subnets: ["10.70.0.0/26"], block_size: 3 },
    "pool/twin": { subnets: ["10.70.0.32/27"], block_size: 3 },
    "pool/empty": { subnets: [], block_size: 0 },
    // Of another size than its pool's, and in no subnet of it.
    "block/default/10.70.0.0": {
      nodes: { node1: ["10.70.0.0/28", "10.70.9.0/29"] },
    },
    // In no block.
    "ip/10.70.0.16/1": { namespace: "web", pod: "a", container_id: "c" },
  };
  await createPod({ namespace: "web", name: "a", ip: "10.70.0.17" });
  const printed: string[] = [];
  for (const keys of [Object.keys(state), Object.keys(state).reverse()]) {
    const prefix = `odd${printed.length}/`;
    for (const key of keys) {
      await lab.etcd.put({ [prefix + key]: state[key as keyof typeof state] });
    }
    const { code, out, err } = await lab.dump([
      ...["--output=-", `--etcd-prefix=/coil/${prefix}`],
    ]);
    assert.equal(code, 0, err);
    for (
      const told of [
        /warning: block 10.70.0.0\/28 of pool default on node node1: it has 16 addresses/,
        /loss: block 10.70.9.0\/29 of pool default on node node1: it is in no subnet/,
        /loss: pool empty: /,
        /warning: pool (default|twin): .*10.70.0.32\/27/,
        /warning: pod web\/a: .*10.70.0.17/,
      ]
    ) assert.match(err, told);
    printed.push(out);
  }
  assert.equal(printed[0], printed[1]);
  await plane.kubectl("delete", "pod", "-n", "web", "a", "--force");
});

Deno.test("migrate dump: a manifest that was edited, cut short or is another's is not overwritten", async () => {
  await using lab = await DumpLab.start(plane);
  const first = await lab.dump(["--skip-uninstall"]);
  assert.equal(first.code, 0, first.err);
  const text = await lab.text();
  const cases: readonly (readonly [string, RegExp])[] = [
    [text.replace("10.64.0.0/29", "10.64.0.0/28"), /it was edited/],
    [text.slice(0, text.indexOf("name: web-2-v1")), /it is not whole/],
    ["", /it is not a manifest/],
    ["apiVersion: v1\nkind: Secret\n", /it is not a manifest/],
  ];
  for (const [content, why] of cases) {
    await Deno.writeTextFile(lab.manifest, content);
    const refused = await lab.dump(["--yes"]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, why);
    assert.match(refused.err, /--overwrite/);
    assert.equal(await lab.text(), content);
    assert.equal((await v1Objects(lab.plane)).length, ALL_OF_V1);
  }
  const status = await migrate(lab.plane, [
    "status",
    `--manifest=${lab.manifest}`,
  ]);
  assert.equal(status.code, 0, status.err);
  assert.match(status.out, /problem: manifest .* is not of coil migrate dump/);
  const overwritten = await lab.dump(["--yes", "--overwrite"]);
  assert.equal(overwritten.code, 0, overwritten.err);
  assert.equal(await lab.text(), text);
});

Deno.test("migrate: the manifest is applied twice, either way; without CRDs it is said what to do; v2 at work is left alone", async () => {
  await using lab = await DumpLab.start(plane);
  assert.equal((await lab.dump(["--yes"])).code, 0);
  for (const command of [["replace", "--yes"], ["replace", "--dry-run"]]) {
    const { code, err } = await migrate(plane, command);
    assert.equal(code, 1);
    assert.match(err, /resources are not installed[^]*kubectl apply -f crds/);
  }
  const bare = await migrate(plane, ["status"]);
  assert.match(bare.out, /Phase +dumped/);
  assert.match(bare.out, /Coil v2 +resources not installed/);
  await assert.rejects(plane.kubectl("apply", "-f", lab.manifest));

  await installCrds(plane);
  const state = async () => {
    const list = await plane.kubectl(
      ...["get", "addresspools,addressblocks", "-o"],
      "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.labels} {.spec.subnets} {.ipv4}{'\\n'}{end}",
    );
    return list;
  };
  const serverSide = ["--server-side", "--field-manager=coil-migrator"];
  await eventually("the new resources", async () => {
    await plane.kubectl("apply", ...serverSide, "-f", lab.manifest);
    return true;
  });
  const applied = await state();
  assert.equal(applied.match(/-v1 /g)?.length, 3);
  await plane.kubectl("apply", ...serverSide, "-f", lab.manifest);
  await plane.kubectl("apply", "-f", lab.manifest);
  assert.equal(await state(), applied);
  const web = await plane.kubectl("get", "ns", "web", "-o", "json");
  const { labels, annotations } = JSON.parse(web).metadata;
  assert.equal(labels.team, "a");
  assert.equal(annotations.note, "b");
  assert.equal(annotations["coil.cybozu.com/pool"], "web");

  const compared = await migrate(plane, [
    ...["status", "-o", "json", `--manifest=${lab.manifest}`],
  ]);
  assert.deepEqual(JSON.parse(compared.out).manifest, {
    state: "intact",
    missing: [],
    problems: [],
  });
  await plane.kubectl("delete", "addressblock", "web-2-v1");
  const partly = await migrate(plane, ["status", `--manifest=${lab.manifest}`]);
  assert.match(partly.out, /Phase +manifest applied in part/);
  assert.match(partly.out, /2 of the 3 reserved blocks/);
  assert.match(partly.out, /not in the cluster: AddressBlock web-2-v1/);
  const refused = await migrate(plane, ["replace", "--yes"]);
  assert.equal(refused.code, 1);
  assert.match(
    refused.err,
    /manifest has 3 reserved blocks, the cluster only 2/,
  );

  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: "default-7",
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node1",
      },
    },
    index: 7,
    ipv4: "10.64.0.56/29",
  });
  const text = await lab.text();
  const late = await lab.dump(["--yes", "--overwrite"]);
  assert.equal(late.code, 1);
  assert.match(
    late.err,
    /v2 already assigns addresses, see AddressBlock "default-7"/,
  );
  assert.equal(await lab.text(), text);

  // v2 was first: its block has addresses of a reserved one.
  const doubled =
    /AddressBlock default-0 of v2 \(10.64.0.0\/29, node node2\) has addresses of the reserved default-0-v1/;
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: "default-0",
      labels: {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": "node2",
      },
    },
    index: 0,
    ipv4: "10.64.0.0/29",
  });
  assert.match((await migrate(plane, ["status"])).out, doubled);
  const first = await migrate(plane, ["replace", "--yes"]);
  assert.equal(first.code, 1);
  assert.match(first.err, doubled);
});
