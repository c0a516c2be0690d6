// coil ipam drain: pods that real controllers make, with addresses of a real
// coild and a real coil-controller.
import assert from "node:assert/strict";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { eventually } from "../lab/mod.ts";
import { pool } from "./ipam_books.ts";
import { MigrationLab } from "./migrator_testing.ts";

const OLD = "10.70.0.0/28";

async function start(): Promise<MigrationLab> {
  const lab = await MigrationLab.start({ name: "drain", nodes: 2, pools: [] });
  const { plane, kubelet } = lab;
  await plane.apply(
    withBits(pool("old", [{ ipv4: OLD }, { ipv4: "10.71.0.0/26" }])),
    withBits(pool("new", [{ ipv4: "10.72.0.0/26" }])),
  );
  await lab.installV2();
  await lab.lab.createNamespace("apps", {
    "coil.cybozu.com/pool": "old",
  });
  await lab.workload("Deployment", "apps/web", { replicas: 3 });
  await lab.workload("StatefulSet", "apps/store", { replicas: 2 });
  await lab.pod("apps/lonely", { node: "node1" });
  await kubelet.settled(6);
  return lab;
}

/** Blocks of two addresses: pods have several blocks soon. */
function withBits(made: object): object {
  const { spec, ...rest } = made as { spec: object };
  return { ...rest, spec: { blockSizeBits: 1, ...spec } };
}

/** Addresses of the running pods that begin so, sorted. */
function addresses(lab: MigrationLab, prefix: string): string[] {
  return lab.kubelet.running.map(({ address }) => address)
    .filter((address) => address.startsWith(prefix)).sort();
}

Deno.test("coil ipam drain: takes a range and a pool out of use, with real controllers", async (t) => {
  await using lab = await start();
  const { plane, kubelet } = lab;
  const drain = async (...args: readonly string[]): Promise<Output> =>
    await coil(["ipam", "drain", ...args, `--kubeconfig=${plane.kubeconfig}`]);
  const spec = async (name: string) =>
    JSON.parse(
      await plane.kubectl(
        ...["get", "addresspool", name, "-o", "jsonpath={.spec}"],
      ),
    );

  await t.step("what it refuses changes nothing", async () => {
    for (
      const [args, code, text] of [
        [[], 2, /needs the name of an AddressPool/],
        [["old", "new"], 2, /unexpected argument: new/],
        [["old", "--force"], 2, /--force needs --evict/],
        [["none"], 1, /Cannot drain AddressPool "none": it does not exist/],
        [["old", "--range=10.9.0.0/29"], 1, /10\.70\.0\.0\/28, 10\.71/],
        [["old", "--evict"], 1, /no other pool that gives addresses: apps/],
      ] as const
    ) {
      const output = await drain(...args);
      assert.equal(output.code, code, output.err);
      assert.match(output.err, text);
    }
    const dry = await drain("old", "--dry-run");
    assert.equal(dry.code, 3, dry.err);
    assert.match(dry.err, /6 pods with addresses[^]*nothing was changed/);
    const { paused, reserved } = await spec("old");
    assert.deepEqual([paused, reserved], [undefined, undefined]);
  });

  await t.step("a range gives no more, and its pods keep theirs", async () => {
    await plane.kubectl(
      ...["patch", "addresspool", "old", "--type=merge"],
      ...["-p", '{"spec":{"reserved":["10.71.0.63"]}}'],
    );
    const [session] = await testedSessions(
      "docs/roles/coil.md",
      import.meta.url,
    );
    const [, ...args] = session?.command.split(" ").slice(2) ?? [];
    const { code, out, err } = await drain(...args);
    assert.equal(code, 3, err);
    assert.equal(err + out, session?.output);
    assert.deepEqual((await spec("old")).reserved, ["10.71.0.63", OLD]);
    assert.equal(addresses(lab, "10.70.").length, 6);
  });

  await t.step(
    "--evict replaces them one after the other, but for one without a controller",
    async () => {
      let [fewest, ofStore] = [Infinity, Infinity];
      kubelet.beforeEnd = () => {
        const live = kubelet.running.filter(({ deleting }) => !deleting);
        fewest = Math.min(fewest, live.length);
        const store = live.filter(({ name }) => name.startsWith("store"));
        ofStore = Math.min(ofStore, store.length);
        return Promise.resolve();
      };
      const { code, out, err } = await drain(
        "old",
        `--range=${OLD}`,
        "--evict",
      );
      assert.equal(code, 3, err);
      assert.match(err, /apps\/lonely on node node1: kept: no controller/);
      assert.match(err, /\[5\/5\] apps\/\S+ on node node\d: replaced/);
      assert.match(out, /^1 pod left/);
      assert.deepEqual([fewest, ofStore], [5, 1]);
      await kubelet.settled(6);
      assert.equal(addresses(lab, "10.70.").length, 1);
      assert.equal(addresses(lab, "10.71.").length, 5);
    },
  );

  await t.step("--force deletes that one; blocks return", async () => {
    const range = `--range=${OLD}`;
    const { code, out, err } = await drain("old", range, "--evict", "--force");
    assert.equal(code, 0, err);
    assert.match(err, /apps\/lonely on node node1: no controller, deleted for/);
    assert.match(out, /^No pod has an address of 10\.70\.0\.0\/28/);
    await eventually("no block of the range", async () => {
      const blocks = await plane.kubectl(
        ...["get", "addressblocks", "-o", "jsonpath={.items[*].ipv4}"],
      );
      return !blocks.includes("10.70.");
    });
    const again = await drain("old", range, "--evict");
    assert.equal(again.code, 0, again.err);
  });

  await t.step(
    "a budget that allows nothing stops it, and it goes on",
    async () => {
      await plane.apply({
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { name: "strict", namespace: "apps" },
        spec: {
          maxUnavailable: 0,
          selector: { matchLabels: { app: "store" } },
        },
      });
      await plane.kubectl(
        ...["annotate", "namespace", "apps", "--overwrite"],
        "coil.cybozu.com/pool=old,new",
      );
      const stopped = await drain("old", "--evict", "--eviction-timeout=3s");
      assert.equal(stopped.code, 1);
      assert.match(stopped.err, /Cannot evict pod apps\/store-\d: [^]*budget/i);
      assert.equal((await spec("old")).paused, true);
      await plane.kubectl("delete", "pdb", "-n", "apps", "strict");
      const { code, out, err } = await drain("old", "--evict", "--parallel=4");
      assert.equal(code, 0, err);
      assert.match(out, /^No pod has an address of AddressPool "old"/);
      await kubelet.settled(5);
      assert.equal(addresses(lab, "10.72.").length, 5);
      assert.deepEqual(kubelet.violations, []);
    },
  );
});
