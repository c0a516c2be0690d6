// The demo's chapters, in order; each checks what it shows.
import assert from "node:assert/strict";
import { sleep } from "../../lib/async/mod.ts";
import { type CoilCluster, type LabPod, PluginError } from "../lab/coil.ts";
import { eventually } from "../lab/mod.ts";
import { run } from "../lab/command.ts";
import {
  bold,
  chapter,
  dim,
  green,
  line,
  shown,
  step,
  table,
} from "./stage.ts";

// Released addresses rest, and empty blocks stay, for half a minute each by default.
const HASTE = ["--cooldown=1s", "--block-return-delay=2s"];

const POOL = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressPool",
  metadata: { name: "default" },
  spec: {
    blockSizeBits: 3,
    subnets: [{ ipv4: "10.100.0.0/24", ipv6: "fd10:100::/120" }],
  },
};
const TINY = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressPool",
  metadata: { name: "tiny" },
  spec: { blockSizeBits: 0, subnets: [{ ipv4: "10.200.0.0/31" }] },
};
const TINY_NAMESPACE = {
  apiVersion: "v1",
  kind: "Namespace",
  metadata: {
    name: "cramped",
    annotations: { "coil.cybozu.com/pool": "tiny" },
  },
};

/** Tells the whole story; `keep` leaves the pods of the first chapters up. */
export async function tell(
  cluster: CoilCluster,
  options: { readonly keep: boolean },
): Promise<void> {
  await startCoil(cluster);
  await makePool(cluster);
  const pods = await startPods(cluster);
  await pingEverybody(cluster, pods);
  await showRoutes(cluster);
  await killDaemon(cluster, pods);
  await removeRule(cluster, pods);
  await cutApi(cluster);
  await useUp(cluster);
  if (!options.keep) await giveBack(cluster, pods);
}

async function kubectl(cluster: CoilCluster, ...args: string[]): Promise<void> {
  shown(`kubectl ${args.join(" ")}`, await cluster.plane.kubectl(...args));
}

async function startCoil(cluster: CoilCluster): Promise<void> {
  chapter(
    "A cluster without a network",
    "Three nodes; one controller, and on each node coild and coil-router. All are one file.",
  );
  await step("coil-controller leads", () => cluster.startController());
  for (const node of cluster.nodes) {
    await step(`coild and coil-router on ${node.name}`, async () => {
      await cluster.startCoild(node, HASTE);
      await cluster.startRouter(node);
    });
  }
  await kubectl(
    cluster,
    "get",
    "nodes",
    "-o",
    "custom-columns=NAME:.metadata.name,ADDRESSES:.status.addresses[?(@.type=='InternalIP')].address",
  );
}

async function makePool(cluster: CoilCluster): Promise<void> {
  chapter(
    "An admin defines a pool",
    "256 IPv4 and 256 IPv6 addresses, in blocks of 8 that nodes take as they need them.",
  );
  await step(
    "a pool too narrow for its blocks is refused by the API server",
    async () => {
      const bad = structuredClone(POOL);
      bad.spec.subnets = [{ ipv4: "10.100.0.0/30", ipv6: "fd10:100::/126" }];
      await assert.rejects(cluster.plane.apply(bad), /too narrow/);
    },
  );
  await cluster.plane.apply(POOL);
  await eventually(
    "the pool to be ready",
    async () =>
      (await cluster.plane.kubectl(
        "get",
        "addresspool",
        "default",
        "-o",
        "jsonpath={.status.conditions[?(@.type=='Ready')].status}",
      )) === "True",
  );
  await kubectl(cluster, "get", "addresspools");
}

async function startPods(cluster: CoilCluster): Promise<LabPod[]> {
  chapter(
    "Pods get addresses",
    "Six pods; for each the compiled plugin is executed exactly as containerd does.",
  );
  const pods: LabPod[] = [];
  for (let i = 0; i < 6; i++) {
    const node = cluster.nodes[i % cluster.nodes.length];
    assert.ok(node);
    const sandbox = await cluster.createSandbox(node, {
      namespace: "default",
      name: `pod${i + 1}`,
    });
    const pod = await cluster.add(node, sandbox);
    await cluster.reportStatus(pod);
    pods.push(pod);
  }
  table(
    ["POD", "NODE", "IPV4", "IPV6", "CNI ADD"],
    pods.map(({ node, sandbox, addresses, wallMs }) => [
      sandbox.pod,
      node.name,
      addresses[0] ?? "",
      addresses[1] ?? "",
      `${wallMs.toFixed(1)} ms`,
    ]),
  );
  line(
    dim(
      "   The first pod of a node waits for the node's first block; from then on a block is kept at hand.",
    ),
  );
  await kubectl(cluster, "get", "addressblocks");
  shown(
    "coil ipam show addresses",
    await run(`${cluster.binDir}/coil`, ["ipam", "show", "addresses"], {
      env: { KUBECONFIG: cluster.plane.kubeconfig },
    }),
  );
  return pods;
}

async function ping(cluster: CoilCluster, from: LabPod, address: string) {
  await cluster.exec(from.sandbox, "ping", "-n", "-c1", "-w20", address);
}

async function pingEverybody(
  cluster: CoilCluster,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "Everybody reaches everybody",
    "Each pod pings each other pod, over both IP versions, across all nodes.",
  );
  const count = pods.length * (pods.length - 1) * 2;
  await eventually("routes between the nodes", async () => {
    const [first, second] = pods;
    assert.ok(first && second);
    await ping(cluster, first, second.addresses[1] ?? "");
    return true;
  });
  await step(`${count} pings`, async () => {
    for (const from of pods) {
      await Promise.all(
        pods.filter((to) => to !== from).flatMap((to) =>
          to.addresses.map((a) => ping(cluster, from, a))
        ),
      );
    }
  });
}

async function showRoutes(cluster: CoilCluster): Promise<void> {
  chapter(
    "What a routing daemon sees",
    "Table 119 has the node's blocks for BIRD or any other; table 116 has its pods.",
  );
  const [node] = cluster.nodes;
  assert.ok(node);
  for (
    const args of [["-4", "route", "show", "table", "119"], [
      "-6",
      "route",
      "show",
      "table",
      "119",
    ], ["route", "show", "table", "116"]]
  ) {
    shown(
      `ip ${args.join(" ")}   ${dim(`# on ${node.name}`)}`,
      await node.run("ip", ...args),
    );
  }
}

async function killDaemon(
  cluster: CoilCluster,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "kill -9",
    "coild keeps nothing but what the kernel and the API server hold.",
  );
  const [pod, other] = pods;
  assert.ok(pod && other);
  const daemon = cluster.daemonOf(pod.node);
  await step(`coild of ${pod.node.name} is killed`, async () => {
    await daemon?.kill9();
  });
  await step(
    "its pods go on",
    () => ping(cluster, pod, other.addresses[0] ?? ""),
  );
  await step("a new pod is told to wait, and why", async () => {
    await assert.rejects(cluster.addOnce(pod.node, pod.sandbox), (error) => {
      assert.ok(error instanceof PluginError && error.code === 11);
      line(dim(`\n     ${error.message}`));
      return true;
    });
  });
  await step("coild starts again", () => cluster.startCoild(pod.node, HASTE));
  await step("the same container still has its address", async () => {
    const again = await cluster.add(pod.node, pod.sandbox);
    assert.deepEqual(again.addresses, pod.addresses);
  });
  await step(
    "and it answers",
    () => ping(cluster, other, pod.addresses[0] ?? ""),
  );
}

async function removeRule(
  cluster: CoilCluster,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "Another program removes Coil's rule",
    "systemd-networkd does that, on netplan apply as well. Without rule 2000 no packet finds a pod.",
  );
  const [pod, other] = pods;
  assert.ok(pod && other);
  const { node } = pod;
  // Without any answer ping fails.
  const pings = cluster.exec(
    ...[other.sandbox, "sh", "-c", '"$@" || true', "sh"],
    ...["ping", "-n", "-q", "-i", "0.02", "-w", "2"],
    pod.addresses[0] ?? "",
  );
  await sleep(500);
  const removed = performance.now();
  await node.run("ip", "rule", "del", "pref", "2000");
  shown(`ip rule del pref 2000   ${dim(`# on ${node.name}`)}`, "");
  await step(
    "coild has restored it",
    () =>
      eventually(
        "the rule",
        async () => (await node.run("ip", "rule")).includes("lookup 116"),
      ),
  );
  line(`     within ${Math.round(performance.now() - removed)} ms`);
  const text = await pings;
  const [, sent, got] = /(\d+) packets transmitted, (\d+) received/
    .exec(text) ?? [];
  assert.ok(sent !== undefined && got !== undefined, text);
  line(`     ${sent} pings, one each 20 ms, ${got} answers`);
  shown(
    "curl -s :9384/metrics | grep repairs_total",
    (await node.run("curl", "-s", "http://127.0.0.1:9384/metrics"))
      .split("\n").filter((text) =>
        /^coil_coild_repairs_total.* [1-9]/.test(text)
      )
      .join("\n"),
  );
}

async function cutApi(cluster: CoilCluster): Promise<void> {
  chapter(
    "The API server is away",
    "A node that has room in its blocks does not need it.",
  );
  const [node] = cluster.nodes;
  assert.ok(node);
  const sandbox = await cluster.createSandbox(node, {
    namespace: "default",
    name: "offline",
  });
  await step(
    "coild hears of the pod",
    () => cluster.knows(node, sandbox),
  );
  await step("kube-apiserver is killed", () => cluster.plane.killApiServer());
  const pod = await step(
    "a pod starts all the same",
    () => cluster.addOnce(node, sandbox),
  );
  line(`     ${pod.addresses.join("  ")}  in ${pod.wallMs.toFixed(1)} ms`);
  await step("and ends", () => cluster.del(node, sandbox));
  await step("kube-apiserver is back", () => cluster.plane.startApiServer());
  await cluster.removeSandbox(sandbox);
}

async function useUp(cluster: CoilCluster): Promise<void> {
  chapter(
    "A pool is used up",
    'Namespace "cramped" draws from a pool of two addresses; the third pod cannot have one.',
  );
  await cluster.plane.apply(TINY, TINY_NAMESPACE);
  const [node] = cluster.nodes;
  assert.ok(node);
  const sandboxes = [];
  for (let i = 1; i <= 3; i++) {
    sandboxes.push(
      await cluster.createSandbox(node, {
        namespace: "cramped",
        name: `pod${i}`,
      }),
    );
  }
  const [first, second, third] = sandboxes;
  assert.ok(first && second && third);
  await step("two pods", async () => {
    await cluster.add(node, first);
    await cluster.add(node, second);
  });
  await step("the third", async () => {
    await assert.rejects(cluster.addOnce(node, third), (error) => {
      assert.ok(error instanceof PluginError);
      line(`\n     ${bold(error.message)}`);
      return true;
    });
  });
  await eventually("the pool's status", async () => {
    const free = "jsonpath={.status.blocks.free}";
    return (await cluster.plane.kubectl(
      ...["get", "addresspool", "tiny", "-o", free],
    )) === "0";
  });
  await kubectl(cluster, "get", "addresspool", "tiny");
  await step("one of them leaves, and the third gets its address", async () => {
    await cluster.del(node, first);
    await eventually("the address", async () => {
      await cluster.addOnce(node, third);
      return true;
    });
  });
  for (const sandbox of [second, third]) await cluster.del(node, sandbox);
  for (const sandbox of sandboxes) await cluster.removeSandbox(sandbox);
}

async function giveBack(
  cluster: CoilCluster,
  pods: readonly LabPod[],
): Promise<void> {
  chapter(
    "Everything comes back",
    "Pods end; their addresses, veths and routes go. Empty blocks return to the pool.",
  );
  for (const { node, sandbox } of pods) {
    await cluster.del(node, sandbox);
    await cluster.removeSandbox(sandbox);
  }
  for (const node of cluster.nodes) {
    const left = await eventually("no pod link", async () => {
      const links: { ifname: string }[] = JSON.parse(
        await node.run("ip", "-j", "link", "show", "type", "veth"),
      );
      return links.every((l) => l.ifname === "eth0") && links.length === 1;
    });
    assert.ok(left);
    assert.equal(
      (await node.run("ip", "route", "show", "table", "116")).trim(),
      "",
    );
  }
  await step(
    "no block is held any more",
    () =>
      eventually("all blocks returned", async () => {
        const names = await cluster.plane.kubectl(
          ...["get", "addressblocks", "-o", "name"],
        );
        return names.trim() === "";
      }),
  );
  await kubectl(cluster, "get", "addresspools");
  line();
  line(green(bold("That is all: no address lost, none given twice.")));
}
