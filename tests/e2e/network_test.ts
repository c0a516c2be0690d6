// Pods of a real cluster reach each other, by Coil's image and manifests.
import assert from "node:assert/strict";
import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  type AddressBlock,
  type AddressPool,
  EGRESSES,
} from "../../lib/api/mod.ts";
import { hostPort, Prefix } from "../../lib/inet/mod.ts";
import {
  KubeApiError,
  LEASES,
  POD_DISRUPTION_BUDGETS,
  SERVICES,
} from "../../lib/kube/mod.ts";
import { EXPORT_TABLE, NODE_LABEL, POOL_LABEL } from "../../lib/names/mod.ts";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { testedCommands, testedSessions } from "../arch/pages.ts";
import { binDir, eventually, run } from "../lab/mod.ts";
import { placeProgram } from "../lab/program_file.ts";
import { assertAgreement } from "./agreement.ts";
import { killCoild } from "./coild_container.ts";
import {
  Changes,
  connectApiServer,
  isCleanedUp,
  problemsOf,
  testConnectivity,
} from "./connectivity.ts";
import { coordinatorScenarios } from "./coordinator_scenarios.ts";
import { networkConfiguration, networkProblem } from "./cri.ts";
import { createEgress } from "./gateways.ts";
import { Installation, POOL } from "./installation.ts";
import { HTTP_PORT, type RunningPod } from "./pods.ts";
import { answerOf, assertReaches } from "./reach.ts";
import { assertNothingRefused } from "./requests.ts";

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "e2enetwork",
    nodes: 2,
    by: "chart with coordinator",
    containerd2: [2],
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

Deno.test("E2E-1: every pod of Coil is ready, on every node", async () => {
  const pods = await site.pods.list({
    namespace: "kube-system",
    labelSelector: "app.kubernetes.io/name=coil",
  });
  const parts = pods.map(({ metadata, spec, status }) => {
    assert.equal(status?.phase, "Running", `${metadata?.name}`);
    const part = metadata?.labels?.["app.kubernetes.io/component"];
    return `${part} on ${spec?.nodeName}`;
  });
  assert.deepEqual(
    parts.sort(),
    ["coil-controller", "coil-router", "coild"].flatMap((part) =>
      ["node1", "node2"].map((node) => `${part} on ${node}`)
    ),
  );
});

Deno.test("E2E-2: pods of two nodes reach each other by TCP and UDP, in both families", async () => {
  const [near, far] = await Promise.all([
    site.pods.run({ name: "near", node: "node1" }),
    site.pods.run({ name: "far", node: "node2" }),
  ]);
  await assertReaches(site, { from: near, to: far });
  await assertAgreement(site);
  await site.pods.remove(near, far);
});

Deno.test("an admin gets coil from a pod of coil-controller, as the guide says", async () => {
  const blocks = await testedCommands("docs/roles/coil.md", import.meta.url);
  const [command = "", check = "", ...more] = blocks.flat()
    .filter((line) => line.startsWith("kubectl "));
  assert.deepEqual(more, []);
  const env = {
    PATH: `${binDir()}:${Deno.env.get("PATH")}`,
    KUBECONFIG: site.plane.kubeconfig,
  };
  const shell = async (line: string) =>
    await run("bash", ["-euo", "pipefail", "-c", line], { env });
  const show = (subject: string) => shell(`${command} ${subject}`);
  assert.match(check, / ipam check --local$/);
  assert.equal(await shell(check), "No problems found\n");
  // All nodes, by kubectl's exec.
  const executable = await buildExecutable();
  assert.equal(
    await shell(`${executable} ipam check --nodes --min-age=1m`),
    "No problems found\n",
  );
  const directory = await Deno.makeTempDir();
  // Ends with 3 when something is missing.
  await shell(`${executable} sysdump -o ${directory}/dump.tar.gz`);
  const dumped = await shell(`tar -tzf ${directory}/dump.tar.gz`);
  await Deno.remove(directory, { recursive: true });
  for (const node of ["node1", "node2"]) {
    const coild = `nodes/${node}/kube-system/coild-\\w+`;
    for (
      const file of ["coild.log", "addresses.json", "routes.txt", "metrics.txt"]
    ) {
      assert.match(dumped, new RegExp(`^dump/${coild}/${file}$`, "m"));
    }
  }
  assert.match(dumped, /\/kube-system\/coil-controller-[\w-]+\/metrics.txt$/m);
  const pod = await site.pods.run({ name: "shown", node: "node2" });
  const withoutAge = (text: string) => text.replaceAll(/\S+$/gm, "");
  // A second may pass between the two, and a block may go back.
  const pools = await eventually("the same pools", async () => {
    const text = await show("");
    return withoutAge(text) === withoutAge(await show("pools")) && text;
  });
  assert.match(
    pools,
    /^POOL +STATE +BLOCK SIZE +BLOCKS +FREE +NODES .*\ndefault +Available +32 +2048 +\d+ +[12] /,
  );
  const rows = (await show("addresses")).split("\n")
    .filter((row) => row.includes(" default/shown "));
  const [ipv4, ipv6] = pod.addresses;
  const fields = rows.map((row) => row.split(/ +/).slice(0, 4));
  assert.deepEqual(fields, [[ipv4, ipv6, "default/shown", "node2"]]);
  assert.match(rows[0] ?? "", / ok +\d+[sm]\w*$/);
  await site.pods.remove(pod);
  for (const address of pod.addresses) {
    await eventually(`${address} to be known as default/shown's`, async () => {
      const text = await shell(`${executable} explain ${address} --nodes`);
      return /\n {2}Pod default\/shown on Node node2 had it until \d+[sm]\w* ago\n/
        .test(text);
    });
  }
});

Deno.test("coil connectivity test", async (t) => {
  await using _way = await connectApiServer(site);
  const [one, two] = [site.node(1), site.node(2)];

  await t.step("finds a network well that is, and leaves nothing", async () => {
    const page = "docs/roles/coil.md";
    const sessions = await testedSessions(page, import.meta.url);
    const session = sessions.find(({ command }) =>
      command === "coil connectivity test"
    );
    const { code, out, err } = await testConnectivity(site);
    assert.equal(out, session?.output, err);
    assert.equal(code, 0);
    assert.ok(await isCleanedUp(site));
  });

  await t.step("says which rule and route are missing, and where", async () => {
    await using damage = new Changes();
    // coild brings its own rule back within a second; this one comes before it.
    const rule = ["to", POOL.ipv4, "priority", "1999", "lookup", "main"];
    await damage.do(
      two,
      ["ip", "rule", "add", ...rule],
      ["ip", "rule", "del", ...rule],
    );
    // And so does coil-router with its routes.
    const route = ["unreachable", POOL.ipv6, "table", "150"];
    await damage.do(
      one,
      ["ip", "-6", "route", "add", ...route],
      ["ip", "-6", "route", "del", ...route],
    );
    const first = ["priority", "2001", "lookup", "150"];
    await damage.do(
      one,
      ["ip", "-6", "rule", "add", ...first],
      ["ip", "-6", "rule", "del", ...first],
    );
    const tested = await testConnectivity(site, "-o", "json");
    assert.equal(tested.code, 3, tested.err);
    assert.deepEqual(
      problemsOf(tested).map(({ cause, node }) => `${cause} on ${node}`),
      ["route on node1", "rule on node2"],
    );
    const [missing, rest] = problemsOf(tested);
    assert.match(
      missing?.message ?? "",
      /no IPv6 route to the pods of Node node2/,
    );
    assert.match(missing?.next ?? "", /logs coil-router-\w+ -c coil-router$/);
    assert.match(rest?.message ?? "", /do not take their IPv4 routes/);
    assert.match(rest?.next ?? "", /logs coild-\w+ -c coild$/);
  });

  await t.step(
    "says which MTU is too small, and what is filtered",
    async () => {
      await using damage = new Changes();
      await damage.do(
        two,
        ["ip", "link", "set", "eth0", "mtu", "1400"],
        ["ip", "link", "set", "eth0", "mtu", "1500"],
      );
      const table = "inet damage";
      const hook = "{ type filter hook forward priority 0; }";
      await damage.do(two, [
        "nft",
        `add table ${table}; add chain ${table} out ${hook}; add rule ${table} out ip6 daddr ${POOL.ipv6} udp dport 8080 drop`,
      ], ["nft", `delete table ${table}`]);
      const tested = await testConnectivity(site);
      assert.equal(tested.code, 3, tested.err);
      for (
        const problem of [
          /^ {2}Node node2: mtu: link "eth0" towards Node node1 has MTU 1400: IPv4 packets of 1500 bytes do not fit, and pods of Node node1 send them/m,
          /^ {2}Node node2: policy: TCP passes and UDP does not \(IPv6\)/m,
        ]
      ) assert.match(tested.out, problem);
      assert.ok(await isCleanedUp(site));
    },
  );
});

Deno.test("a pod and its own node, and a pod in the host's network, reach each other", async () => {
  const [pod, host] = await Promise.all([
    site.pods.run({ name: "pod", node: "node1" }),
    site.pods.run({ name: "host", node: "node1", hostNetwork: true }),
  ]);
  assert.deepEqual(
    [...host.addresses].sort(),
    [...site.node(1).addresses].sort(),
    "a pod in the host's network has the node's addresses",
  );
  for (const [index, address] of pod.addresses.entries()) {
    const node = host.addresses[index] ?? "";
    const there = `http://${hostPort(address, HTTP_PORT)}/`;
    assert.equal(await answerOf(site, there, { from: host }), `pod ${node}\n`);
    const back = `http://${hostPort(node, HTTP_PORT)}/`;
    const answer = await answerOf(site, back, { from: pod });
    assert.equal(answer, `node1 ${address}\n`);
  }
  await assertAgreement(site);
  await site.pods.remove(pod, host);
});

Deno.test("a port of the host leads to a pod, by the plugin after Coil's", async () => {
  const hostPortNumber = 31_080;
  const [server, client] = await Promise.all([
    site.pods.run({
      name: "published",
      node: "node1",
      hostPort: hostPortNumber,
    }),
    site.pods.run({ name: "visitor", node: "node2", hostNetwork: true }),
  ]);
  for (const address of site.node(1).addresses) {
    const url = `http://${hostPort(address, hostPortNumber)}/`;
    const answer = await answerOf(site, url, { from: client });
    assert.match(answer, /^published /);
  }
  await site.pods.remove(server, client);
});

Deno.test("a pod starts and goes without a start of the whole program", async () => {
  const plugin = `${site.node(1).directory}/cni-bin/coil`;
  const away = `${plugin}.away`;
  const bytes = withoutLoader(await Deno.readFile(plugin));
  await Deno.rename(plugin, away);
  try {
    await placeProgram(plugin, (made) => Deno.writeFile(made, bytes));
    const version = await new Deno.Command(plugin, { args: ["version"] })
      .output();
    assert.equal(version.code, 127);
    const pod = await site.pods.run({ name: "answered", node: "node1" });
    await site.pods.remove(pod);
  } finally {
    await Deno.rename(away, plugin);
  }
});

/** The executable, for a host without ld.so. */
function withoutLoader(bytes: Uint8Array<ArrayBuffer>) {
  const path = "/ld-linux-";
  const at = new TextDecoder("latin1").decode(bytes.subarray(0, 1 << 16))
    .indexOf(path);
  assert.ok(at > 0);
  bytes.set(new TextEncoder().encode("/no"), at);
  return bytes;
}

Deno.test("a Service leads to pods of both nodes, from a pod of each", async () => {
  const labels = { service: "web" };
  const [one, two] = await Promise.all([
    site.pods.run({ name: "one", node: "node1", labels }),
    site.pods.run({ name: "two", node: "node2", labels }),
  ]);
  const service = await site.client.create(SERVICES, {
    metadata: { name: "web", namespace: "default" },
    spec: {
      selector: labels,
      ipFamilyPolicy: "RequireDualStack",
      ports: [{ port: 80, targetPort: HTTP_PORT }],
    },
  });
  const addresses = service.spec?.clusterIPs ?? [];
  assert.equal(addresses.length, 2);
  for (const address of addresses) {
    for (const client of [one, two]) {
      await assertServes(client, { address, wanted: ["one", "two"] });
    }
  }
  await site.client.delete(SERVICES, { name: "web", namespace: "default" });
  await site.pods.remove(one, two);
});

async function assertServes(
  client: RunningPod,
  service: { readonly address: string; readonly wanted: readonly string[] },
): Promise<void> {
  const missing = new Set(service.wanted);
  await eventually(`${service.wanted} behind ${service.address}`, async () => {
    const url = `http://${hostPort(service.address, 80)}/`;
    const [name = ""] = (await site.pods.exec(client, "get", url)).split(" ");
    missing.delete(name);
    return missing.size === 0;
  });
}

async function blocksOf(
  where: { readonly node?: string; readonly pool?: string },
): Promise<readonly AddressBlock[]> {
  const { node, pool } = where;
  const labels = [
    ...(node === undefined ? [] : [`${NODE_LABEL}=${node}`]),
    ...(pool === undefined ? [] : [`${POOL_LABEL}=${pool}`]),
  ];
  const labelSelector = labels.join();
  return (await site.client.list(ADDRESS_BLOCKS, { labelSelector })).items;
}

Deno.test("containerd and Coil understand each other in every version of CNI that both know", async () => {
  const file = `${site.node(1).directory}/cni-conf/10-coil.conflist`;
  const text = await Deno.readTextFile(file);
  try {
    // Debian's containerd 1.6 asks for ADD and DEL, and knows no version after 1.0.0.
    for (const cniVersion of ["0.3.1", "0.4.0", "1.0.0"]) {
      const conflist = { ...JSON.parse(text), cniVersion };
      // Its reader of changed files would see a half-written one.
      await Deno.writeTextFile(`${file}.new`, JSON.stringify(conflist));
      await Deno.rename(`${file}.new`, file);
      await eventually(`containerd to read ${cniVersion}`, async () => {
        const read = await networkConfiguration(site.node(1));
        return read.includes(`"CNIVersion":"${cniVersion}"`);
      });
      const name = `version-${cniVersion.replaceAll(".", "-")}`;
      const pod = await site.pods.run({ name, node: "node1" });
      assert.equal(pod.addresses.length, 2);
      await assertAgreement(site);
      await site.pods.remove(pod);
    }
  } finally {
    await Deno.writeTextFile(`${file}.new`, text);
    await Deno.rename(`${file}.new`, file);
  }
  await assertAgreement(site);
});

Deno.test(
  "containerd 2 asks for STATUS: a node without coild is not ready for pods, and says why",
  {
    sanitizeResources: false,
    sanitizeOps: false,
  },
  async () => {
    const node = site.node(2);
    assert.match(
      await node.run("ctr", ["version"]),
      /Server:\s+Version: +v2\./,
    );
    assert.equal(await networkProblem(node), undefined);
    // Nobody starts another coild in the meantime.
    await node.stop("kubelet");
    const { replaced } = await killCoild(site, node);
    try {
      await eventually("containerd to see it", async () => {
        const problem = await networkProblem(node);
        return problem?.includes("coild is not running");
      });
    } finally {
      await node.start("kubelet");
    }
    await eventually(
      "the network to be ready",
      async () => await networkProblem(node) === undefined,
      { timeoutMs: 300_000 },
    );
    await replaced();
  },
);

Deno.test("E2E-3, 5: addresses come from the namespace's pool; blocks stay at a restart of coild and go back when empty", async () => {
  const pool = "single";
  const subnet = { ipv4: "10.101.0.0/28" };
  await site.createPoolAndNamespace(pool, subnet, { blockSizeBits: 0 });
  const namespace = pool;
  const [first, second] = await Promise.all([
    site.pods.run({ name: "first", namespace, node: "node1" }),
    site.pods.run({ name: "second", namespace, node: "node2" }),
  ]);
  const prefix = Prefix.parse(subnet.ipv4);
  for (const pod of [first, second]) {
    assert.equal(pod.addresses.length, 1, "the pool has one family");
    assert.ok(
      prefix.contains(Prefix.parse(`${pod.addresses[0]}/32`)),
      `${pod.addresses[0]} is not of pool ${pool}`,
    );
  }
  // Of these pods: a sandbox that kubelet had to make twice has left a block that goes.
  const theirs = async () =>
    (await blocksOf({ pool })).filter(({ ipv4 }) =>
      [first, second].some(({ addresses: [own] }) => ipv4 === `${own}/32`)
    ).map(({ metadata }) => metadata?.uid).sort();
  const before = await theirs();
  assert.equal(before.length, 2);
  await updateCoild(["--block-return-delay=2s", "--cooldown=2s"]);
  assert.deepEqual(await theirs(), before);
  const third = await site.pods.run({
    name: "third",
    namespace,
    node: "node1",
  });
  assert.equal(
    new Set([first, second, third].flatMap((p) => p.addresses)).size,
    3,
  );
  await assertAgreement(site);
  await site.pods.remove(first, second, third);
  await eventually(
    "no block of the pool",
    async () => (await blocksOf({ pool })).length === 0,
    { timeoutMs: 300_000 },
  );
});

/** Gives coild more arguments: a rolling update. */
async function updateCoild(args: readonly string[]): Promise<void> {
  const path = "/spec/template/spec/containers/0/args/-";
  const patch = JSON.stringify(
    args.map((value) => ({ op: "add", path, value })),
  );
  await site.plane.kubectl(
    ...["-n", "kube-system", "patch", "ds", "coild"],
    ...["--type=json", `--patch=${patch}`],
  );
  await site.rolledOut();
}

Deno.test("E2E-4: table 119 has the node's blocks, in both families", async () => {
  const pod = await site.pods.run({ name: "exported", node: "node2" });
  for (const [family, option] of [["ipv4", "-4"], ["ipv6", "-6"]] as const) {
    // Blocks of the tests before go back in the meantime.
    await eventually("the same blocks", async () => {
      const blocks = await blocksOf({ node: "node2", pool: "default" });
      assert.ok(blocks.length > 0);
      const table = await site.node(2).run("ip", [
        ...["-j", option, "route", "show", "table", `${EXPORT_TABLE}`],
      ]);
      const routes = (JSON.parse(table) as { dst: string }[]).map((r) => r.dst);
      const wanted = blocks.map((block) => block[family]);
      assert.deepEqual(routes.sort(), wanted.sort());
      return true;
    });
  }
  await site.pods.remove(pod);
});

/** Port of each role's metrics, and one of them. */
const METRICS = [
  [9384, "coil_coild_addresses"],
  [9386, "coil_controller_max_blocks"],
  [9388, "coil_router_routes_synced"],
] as const;

Deno.test("E2E-6: metrics of every role are served in Prometheus' format", async () => {
  const sample = /^[a-zA-Z_:][\w:]*(\{.*\})? [-+.\w]+$/;
  for (const [port, metric] of METRICS) {
    for (const { addresses } of site.nodes) {
      const host = hostPort(addresses[0] ?? "", port);
      const response = await fetch(`http://${host}/metrics`);
      const lines = (await response.text()).trim().split("\n");
      assert.ok(lines.includes(`# TYPE ${metric} gauge`), `${host}: ${metric}`);
      const samples = lines.filter((line) => !/^(#|$)/.test(line));
      for (const line of samples) assert.match(line, sample);
    }
  }
});

Deno.test("E2E-7: an unused pool is deleted, another one stays", async () => {
  const unused = { name: "unused" };
  await site.createPool(unused.name, { ipv4: "10.102.0.0/24" });
  // Until then it might have blocks: policy coil-pool-deletion.
  await eventually("its blocks to be counted", async () => {
    const pool = await site.client.get<AddressPool>(ADDRESS_POOLS, unused);
    return pool.status?.blocks?.allocated === 0;
  });
  await site.client.delete(ADDRESS_POOLS, unused);
  await eventually(
    "pool unused to be gone",
    async () => await site.client.tryGet(ADDRESS_POOLS, unused) === undefined,
  );
  assert.ok(await site.client.tryGet(ADDRESS_POOLS, { name: "default" }));
});

Deno.test("E2E-8: both halves of the controller have a leader", async () => {
  const namespace = "kube-system";
  for (const name of ["coil-ipam-leader", "coil-egress-leader"]) {
    await eventually(`a holder of ${name}`, async () => {
      const lease = await site.client.get(LEASES, { name, namespace });
      // The controller's pods have the nodes' names.
      assert.match(lease.spec?.holderIdentity ?? "", /^node[12]_/);
      return true;
    });
  }
});

Deno.test("E2E-9: a pool smaller than a block is refused", async () => {
  await assert.rejects(
    site.createPool("narrow", { ipv4: "10.103.0.0/30" }),
    (error) =>
      error instanceof KubeApiError && /too narrow/.test(error.message),
  );
});

Deno.test("E2E-11: an Egress gets two gateways and a disruption budget, and takes them along", async () => {
  const [name, namespace] = ["out", "default"];
  await createEgress(site, { name, namespace, replicas: 2 });
  await site.client.get(POD_DISRUPTION_BUDGETS, { name, namespace });
  await site.client.delete(EGRESSES, { name, namespace });
  await eventually("the disruption budget to be gone", async () => {
    const budget = await site.client.tryGet(POD_DISRUPTION_BUDGETS, {
      name,
      namespace,
    });
    return budget === undefined;
  });
});

Deno.test(
  "coordinator: pods on other networks than Coil's",
  // Programs of a node that restarts outlive the test.
  { sanitizeResources: false, sanitizeOps: false },
  async (t) => await coordinatorScenarios(t, site),
);

Deno.test("nothing that Coil asked the API server for was forbidden", async () => {
  await assertNothingRefused(site, ["coil-controller", "coil-router", "coild"]);
});
