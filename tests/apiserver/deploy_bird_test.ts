// BRD: routes between nodes by a real BIRD that reads table 119 with the files
// of deploy/bird; no coil-router. BGP runs between the nodes themselves.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { ensureBird } from "../lab/bird.ts";
import { startBirds } from "../lab/bird_sessions.ts";
import { CoilCluster, type LabPod } from "../lab/coil.ts";
import { eventually, inNetns, type LabNode, run } from "../lab/mod.ts";

const DEPLOY = new URL("../../deploy/bird/", import.meta.url).pathname;

async function startPod(
  cluster: CoilCluster,
  node: LabNode,
  name: string,
  { namespace = "default" }: { readonly namespace?: string } = {},
): Promise<LabPod> {
  const pod = { namespace, name };
  return await cluster.add(node, await cluster.createSandbox(node, pod));
}

/** The routes that a node has of BIRD: to other nodes' blocks by their nodes, to its own as unreachable. */
async function routes(node: LabNode): Promise<string[]> {
  const found: string[] = [];
  for (const family of ["-4", "-6"]) {
    const args = [family, "route", "show", "proto", "bird"];
    const text = await inNetns(node.netns, "ip", args);
    found.push(...text.trim().split("\n").filter(Boolean));
  }
  return found.map((line) => line.split(" ").slice(0, 3).join(" "));
}

/** A pool whose blocks have room for more than one pod. */
const WIDE = {
  namespace: "wide",
  blocks: ["10.3.0.0/30", "fd03::/126"],
} as const;

Deno.test("deploy/bird/bird.conf is a configuration", async () => {
  const { program, env } = await ensureBird();
  await run(program, ["-p", "-c", `${DEPLOY}bird.conf`], { env });
});

Deno.test("two nodes tell each other their blocks by BGP, and pods reach each other", async (t) => {
  await using cluster = await CoilCluster.start({
    name: "bird",
    executable: await buildExecutable(),
    nodes: 2,
  });
  await using daemons = new AsyncDisposableStack();
  const [first, second] = cluster.nodes;
  assert.ok(first !== undefined && second !== undefined);
  await cluster.plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: {
      blockSizeBits: 0,
      subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }],
    },
  });
  await cluster.startController();
  for (const node of cluster.nodes) {
    await cluster.startCoild(node, [
      ...["--block-return-delay=1s", "--cooldown=0s", "--low-water=0"],
    ]);
  }
  for (const bird of await startBirds(cluster.plane, cluster.nodes)) {
    daemons.use(bird);
  }
  const one = await startPod(cluster, first, "one");
  const two = await startPod(cluster, second, "two");

  await t.step(
    "each node has a route to the other's pod, of each family",
    async () => {
      for (
        const [node, other, pod] of [[first, second, two], [
          second,
          first,
          one,
        ]] as const
      ) {
        const wanted = pod.addresses.map((address, i) =>
          `${address} via ${other.addresses[i]}`
        );
        await eventually(`routes of ${node.name}: ${wanted}`, async () => {
          const found = await routes(node);
          return wanted.every((line) => found.includes(line));
        });
      }
    },
  );

  await t.step("pods reach each other", async () => {
    for (const address of two.addresses) {
      await cluster.exec(one.sandbox, "ping", "-c1", "-w20", address);
    }
  });

  await t.step(
    "what comes for a pod that is gone is refused by its node",
    async () => {
      const { namespace, blocks } = WIDE;
      await cluster.plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressPool",
        metadata: { name: namespace },
        spec: {
          blockSizeBits: 2,
          subnets: [{ ipv4: "10.3.0.0/24", ipv6: "fd03::/120" }],
        },
      });
      await cluster.plane.apply({
        apiVersion: "v1",
        kind: "Namespace",
        metadata: {
          name: namespace,
          annotations: { "coil.cybozu.com/pool": namespace },
        },
      });
      const three = await startPod(cluster, second, "three", { namespace });
      for (const [i, block] of blocks.entries()) {
        await eventually(`routes to ${block}`, async () => {
          const own = await routes(second);
          const others = await routes(first);
          return own.some((line) => line.startsWith(`unreachable ${block}`)) &&
            others.includes(`${block} via ${second.addresses[i]}`);
        });
      }
      for (const address of three.addresses) {
        await cluster.exec(one.sandbox, "ping", "-c1", "-w20", address);
      }
      // The last address of a block, which no pod has. By another route it would
      // leave the node, and the next router would refuse it.
      for (const [i, address] of ["10.3.0.3", "fd03::3"].entries()) {
        const ping = ["-c", `ping -n -c1 -W5 ${address} || true`];
        const sender = second.addresses[i]?.replaceAll(".", "\\.");
        const refusal = new RegExp(`^From ${sender}:? .*unreachable`, "im");
        // Before Linux 6.12 all namespaces share a limit of ICMP errors: 50 at once, 1000 a second.
        const text = await eventually(
          `an answer about ${address}`,
          async () => {
            const output = await cluster.exec(one.sandbox, "sh", ...ping);
            return /^From |bytes from/im.test(output) && output;
          },
        );
        assert.match(text, refusal);
      }
      await cluster.del(second, three.sandbox);
      await cluster.removeSandbox(three.sandbox);
      await eventually("no route of the block", async () => {
        const found = await routes(second);
        return !found.some((line) => line.includes("3.0.0/30"));
      });
    },
  );

  await t.step("a block that is given back is told no more", async () => {
    await cluster.del(second, two.sandbox);
    await cluster.removeSandbox(two.sandbox);
    await eventually("no route to the block", async () => {
      const found = await routes(first);
      return !found.some((line) =>
        two.addresses.some((address) => line.startsWith(`${address} `))
      );
    });
  });

  await t.step("coild's own table is as coild left it", async () => {
    const args = ["route", "show", "table", "119"];
    const text = await inNetns(first.netns, "ip", args);
    assert.match(text, new RegExp(`^${one.addresses[0]} dev lo proto 30`, "m"));
  });
});
