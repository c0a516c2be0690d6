// Pods that stay while a node changes from upstream's Coil v2 (Go) to ours and
// back, of both families and of each alone; each plugin with the other one's
// coild, and each controller under it.
import assert from "node:assert/strict";
import { PeerLab, type Side } from "./peer_lab.ts";
import { expectJoined, type PinnedPod, PinnedPods } from "./peer_pods.ts";

/** Each with a namespace of its name. */
const POOLS = {
  both: { ipv4: "10.2.0.0/28", ipv6: "fd02::/124" },
  four: { ipv4: "10.3.0.0/28" },
  six: { ipv6: "fd04::/124" },
} as const;

/** Of each pool how many addresses a pod has. */
const COUNTS = { both: 2, four: 1, six: 1 } as const;

const BOTH = ["ours", "peer"] as const;

type Pool = keyof typeof POOLS;
const NAMES = Object.keys(POOLS) as Pool[];

Deno.test("pods stay while their node changes from Coil v2 to ours and back", async (t) => {
  await using lab = await PeerLab.start("compatpods", {
    nodes: 1,
    families: ["ipv4", "ipv6"],
  });
  const { plane } = lab;
  const [node] = lab.nodes;
  assert.ok(node !== undefined);
  for (const name of NAMES) {
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name, finalizers: ["coil.cybozu.com"] },
      // One address in a block: an address is free when its block is gone.
      spec: { blockSizeBits: 0, subnets: [POOLS[name]] },
    });
    const annotations = { "coil.cybozu.com/pool": name };
    await plane.apply({
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, annotations },
    });
  }
  const pods = new PinnedPods(lab, node);
  const live: PinnedPod[] = [];
  // A step without the one before it would only repeat its failure.
  const step = async (name: string, run: () => Promise<void>) =>
    assert.ok(await t.step(name, run), `Cannot go on after "${name}"`);

  /** A pod of each pool; nobody has its addresses. */
  const addEach = async (name: string, plugin: Side) => {
    for (const namespace of NAMES) {
      const pod = { namespace, name: `${name}-${namespace}` };
      const added = await pods.add(pod, plugin);
      assert.equal(added.addresses.length, COUNTS[namespace]);
      const taken = live.flatMap(({ addresses }) => [...addresses]);
      for (const address of added.addresses) {
        assert.ok(!taken.includes(address), `${address} is taken`);
      }
      live.push(added);
    }
  };
  const expectAllKept = async (plugins: readonly Side[]) => {
    for (const pod of live) await pods.expectKept(pod, plugins);
    await expectJoined(live);
  };
  /** The pods of a name, one of each pool. */
  const deleteEach = async (name: string, plugin: Side) => {
    const gone = live.filter(({ sandbox }) =>
      sandbox.pod.startsWith(`${name}-`)
    );
    assert.equal(gone.length, NAMES.length);
    for (const pod of gone) {
      await pods.delete(pod, plugin);
      live.splice(live.indexOf(pod), 1);
    }
  };

  await step("made by upstream's coild, called by both plugins", async () => {
    await lab.runController("peer");
    await lab.runCoild(node, "peer");
    for (const name of ["kept", "gone", "lost"]) await addEach(name, "peer");
    await addEach("early", "ours");
    await expectAllKept(BOTH);
    await deleteEach("early", "ours");
    await expectAllKept(BOTH);
  });

  await step("taken over by ours: the same, for both plugins", async () => {
    await lab.applyCompat();
    await lab.runController("ours");
    await expectAllKept(BOTH);
    await lab.runCoild(node, "ours");
    await expectAllKept(BOTH);
  });

  await step("both plugins add and delete with our coild", async () => {
    await addEach("ours", "ours");
    await addEach("door", "peer");
    await expectAllKept(BOTH);
    await deleteEach("gone", "ours");
    await deleteEach("lost", "peer");
    await expectAllKept(BOTH);
  });

  await step(
    "given back to upstream's: the same, for both plugins",
    async () => {
      await lab.runController("peer");
      await expectAllKept(BOTH);
      await lab.runCoild(node, "peer");
      await expectAllKept(BOTH);
      await addEach("last", "peer");
      await addEach("late", "ours");
      await expectAllKept(BOTH);
    },
  );

  await step("upstream's deletes all, called by either plugin", async () => {
    for (const name of ["ours", "door", "kept", "last", "late"]) {
      await deleteEach(
        name,
        name === "ours" || name === "last" ? "peer" : "ours",
      );
      await expectAllKept(BOTH);
    }
    assert.deepEqual(live, []);
    await lab.untilClean(node);
  });
});
