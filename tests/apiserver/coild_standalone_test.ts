// coild without address management, after another plugin: plugins of the CNI
// project make the network, and the shipped plugin is called after them, as a
// container runtime does.
import assert from "node:assert/strict";
import { pathOf } from "../executable/testing.ts";
import { eventually } from "../lab/mod.ts";
import { callPlugin, type PluginAnswer } from "../lab/runtime.ts";
import { EgressLab, tunnelTo } from "./coild_egress_lab.ts";
import { type Coild, inPod, type Sandbox } from "./coild_lab.ts";

const NET = "192.0.2.0/24";
const PLUGINS = "/usr/lib/cni";
const COIL = await pathOf("coil");

/** As upstream's manifests for this mode. */
const FLAGS = [
  "--enable-ipam=false",
  "--enable-egress=true",
  "--pod-table-id=0",
  "--protocol-id=2",
];

type Config = Readonly<Record<string, unknown>>;

/** What a result says, as far as the tests look into it. */
interface Result {
  readonly interfaces: readonly { readonly name: string }[];
  readonly ips: readonly { readonly address: string }[];
}

/** A list of two plugins, on a node. */
class Chain {
  readonly #egress: EgressLab;
  readonly #first: Config;
  readonly #socket: string;
  readonly results = new Map<string, Result>();

  constructor(
    egress: EgressLab,
    options: { readonly coild: Coild; readonly first: Config },
  ) {
    this.#egress = egress;
    this.#first = options.first;
    this.#socket = options.coild.socketPath;
  }

  /** Both plugins' ADD; the answer is coil's. */
  async add(pod: Sandbox): Promise<PluginAnswer> {
    const result = await this.first("ADD", pod);
    this.results.set(pod.containerId, JSON.parse(result.stdout));
    return await this.coil("ADD", pod);
  }

  /** The addresses of a pod's ADD, which has to succeed. */
  async addresses(pod: Sandbox): Promise<string[]> {
    const { code, stdout } = await this.add(pod);
    assert.equal(code, 0, stdout);
    const { ips }: Result = JSON.parse(stdout);
    return ips.map(({ address }) => address.replace(/\/.*$/, ""));
  }

  /** Both plugins' DEL, in the order that the specification asks for. */
  async del(pod: Sandbox): Promise<void> {
    const { code, stdout } = await this.coil("DEL", pod);
    assert.equal(code, 0, stdout);
    await this.first("DEL", pod);
  }

  async first(command: "ADD" | "DEL", pod: Sandbox): Promise<PluginAnswer> {
    const answer = await this.#call(command, pod, this.#first);
    assert.equal(answer.code, 0, answer.stdout);
    return answer;
  }

  async coil(
    command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS",
    pod: Sandbox,
    changes: Config = {},
  ): Promise<PluginAnswer> {
    return await this.#call(command, pod, {
      type: "coil",
      socket: this.#socket,
      prevResult: this.results.get(pod.containerId),
      ...changes,
    });
  }

  #call(
    command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS",
    pod: Sandbox,
    config: Config,
  ): Promise<PluginAnswer> {
    const { type } = config;
    return callPlugin({
      plugin: type === "coil" ? COIL : `${PLUGINS}/${type}`,
      command,
      config: {
        cniVersion: command === "GC" || command === "STATUS"
          ? "1.1.0"
          : "1.0.0",
        name: "chained",
        ...config,
      },
      sandbox: { ...pod, pod: pod.name },
      nodeNetns: this.#egress.lab.node().netns,
    });
  }
}

function hostLocal(dataDir: string, n: number): Config {
  return {
    type: "host-local",
    dataDir,
    ranges: [[{ subnet: `10.160.${n}.0/24` }], [{ subnet: `fd60:${n}::/64` }]],
  };
}

/** Aliases of the node's links by name. */
async function aliases({ lab }: EgressLab): Promise<Map<string, string>> {
  const links: { ifname: string; ifalias?: string }[] = JSON.parse(
    await lab.node().run("ip", "-j", "-d", "link"),
  );
  return new Map(
    links.flatMap(({ ifname, ifalias }) => ifalias ? [[ifname, ifalias]] : []),
  );
}

async function uidOf({ lab }: EgressLab, pod: Sandbox): Promise<string> {
  const uri = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}`;
  const object = await lab.plane.request("GET", uri) as {
    metadata: { uid: string };
  };
  return object.metadata.uid;
}

Deno.test("coild serves egress after another plugin", async (t) => {
  await using egress = await EgressLab.start("coildchained", {
    audit: "metadata",
  });
  const { lab, plane } = egress;
  const node = lab.node();
  const dataDir = await Deno.makeTempDir();
  const before = await node.run("ip", "rule");
  const since = new Date();
  const first = await egress.coild(FLAGS);
  const ptp = new Chain(egress, {
    coild: first,
    first: { type: "ptp", ipam: hostLocal(dataDir, 1) },
  });
  const bridge = new Chain(egress, {
    coild: first,
    first: {
      type: "bridge",
      bridge: "cni0",
      isGateway: true,
      ipam: hostLocal(dataDir, 2),
    },
  });
  const macvlan = new Chain(egress, {
    coild: first,
    first: { type: "macvlan", master: "eth0", ipam: hostLocal(dataDir, 3) },
  });
  const [service4 = "", service6 = ""] = await egress.createEgress("nat", {
    destinations: [NET, "2001:db8::/32"],
  });

  await t.step(
    "ADD echoes the first plugin's result, and the pod is a client with its addresses",
    async () => {
      const pod = await egress.createClient("ptp", "nat");
      const [own4, own6] = await ptp.addresses(pod);
      const [first = "", second = ""] = (await plane.of(pod))?.tunnels ?? [];
      assert.match(first, tunnelTo(service4));
      assert.match(second, tunnelTo(service6));
      assert.ok(first.includes(` ${own4} > `), first);
      assert.ok(second.includes(` ${own6} > `), second);
      const before = ptp.results.get(pod.containerId);
      const answer: Result = JSON.parse((await ptp.coil("ADD", pod)).stdout);
      assert.deepEqual(answer.interfaces, before?.interfaces);
      assert.deepEqual(answer.ips, before?.ips);
      const host = before?.interfaces
        .find(({ name }) => name.startsWith("veth"))?.name ?? "";
      assert.equal(
        (await aliases(egress)).get(host),
        `COIL::${await uidOf(egress, pod)}:eth0`,
      );
      assert.equal((await ptp.coil("CHECK", pod)).code, 0);
      await ptp.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "W47: of several interfaces on the host the pod's other end is marked",
    async () => {
      const pod = await egress.createClient("bridge", "nat");
      await bridge.addresses(pod);
      const uid = await uidOf(egress, pod);
      const marked = [...await aliases(egress)]
        .filter(([, alias]) => alias === `COIL::${uid}:eth0`);
      const [, peer] = /eth0@if([0-9]+)/.exec(
        await inPod(pod, "ip", "-o", "link", "show", "eth0"),
      ) ?? [];
      const links = await node.run("ip", "-o", "link");
      const name = links.split("\n")
        .find((line) => line.startsWith(`${peer}: `))?.split(/[ @:]+/)[1];
      assert.deepEqual(marked.map(([each]) => each), [name]);
      await bridge.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "W47: a pod without an end on the host, as of macvlan, is a client too",
    async () => {
      const pod = await egress.createClient("mac", "nat");
      const before = await aliases(egress);
      await macvlan.addresses(pod);
      assert.equal((await plane.of(pod))?.tunnels.length, 2);
      assert.deepEqual(await aliases(egress), before);
      assert.equal((await macvlan.coil("CHECK", pod)).code, 0);
      await macvlan.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "pods without annotation are marked, and made clients when they get one",
    async () => {
      const pod = await egress.createClient("late", undefined);
      const ips = await ptp.addresses(pod);
      assert.equal(await plane.of(pod), undefined);
      await egress.setStatus(pod, { ips });
      await egress.annotate(pod, "nat");
      await egress.until("a client", pod, (now) => now?.tunnels.length === 2);
      await egress.annotate(pod, null);
      await egress.until("none", pod, (now) => now === undefined);
      await ptp.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "W11: an ADD that fails leaves no egress and no mark",
    async () => {
      const pod = await egress.createClient("broken", "nat");
      const uid = await uidOf(egress, pod);
      {
        await using _fault = await plane.fault("broken");
        const { code, stdout } = await ptp.add(pod);
        assert.equal(code, 1);
        assert.equal(JSON.parse(stdout).code, 999);
      }
      assert.equal(await plane.of(pod), undefined);
      const left = [...(await aliases(egress)).values()];
      assert.equal(left.some((alias) => alias.includes(uid)), false);
      assert.equal((await ptp.coil("ADD", pod)).code, 0);
      await ptp.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "SV-8: CHECK goes by the pod's UID, and fails for what is not known",
    async () => {
      const pod = await egress.createClient("check", "nat");
      await ptp.addresses(pod);
      const other = await egress.createClient("unknown", "nat");
      ptp.results.set(other.containerId, { interfaces: [], ips: [] });
      const unknown = await ptp.coil("CHECK", other);
      assert.equal(unknown.code, 1);
      assert.match(unknown.stdout, /Cannot find interface/);
      const uid = await uidOf(egress, pod);
      const [host] = [...await aliases(egress)]
        .find(([, alias]) => alias === `COIL::${uid}:eth0`) ?? [""];
      await node.run("ip", "link", "set", host, "alias", "");
      const unmarked = await ptp.coil("CHECK", pod);
      assert.match(unmarked.stdout, /has no mark of this pod/);
      await ptp.del(pod);
      await lab.deletePod(pod);
      await lab.deletePod(other);
    },
  );

  await t.step(
    "DEL is harmless, also twice and of what is not known; STATUS and GC work",
    async () => {
      const pod = await egress.createClient("end", "nat");
      await ptp.addresses(pod);
      assert.equal((await ptp.coil("STATUS", pod)).code, 0);
      const valid = { "cni.dev/valid-attachments": [] };
      const gc = await ptp.coil("GC", pod, valid);
      assert.equal(gc.code, 0, gc.stdout);
      await ptp.coil("DEL", pod);
      await ptp.del(pod);
      await ptp.del(await lab.createSandbox("nobody"));
      assert.equal(await first.metric("coil_coild_egress_clients"), 0);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a late DEL of an earlier sandbox does not touch the pod's next one",
    async () => {
      const early = await egress.createClient("again", "nat");
      await ptp.addresses(early);
      const late = await lab.createSandbox("again");
      await ptp.addresses(late);
      await ptp.del(early);
      const clients = "coil_coild_egress_clients";
      assert.equal(await first.metric(clients), 1);
      assert.equal((await plane.of(late))?.tunnels.length, 2);
      assert.equal((await ptp.coil("CHECK", late)).code, 0);
      await ptp.del(late);
      assert.equal(await first.metric(clients), 0);
      await lab.deletePod(early);
    },
  );

  await t.step(
    "a client whose addresses the first plugin does not tell is refused",
    async () => {
      const pod = await egress.createClient("silent", "nat");
      await ptp.add(pod);
      const prevResult = { ...ptp.results.get(pod.containerId), ips: [] };
      const { code, stdout } = await ptp.coil("ADD", pod, { prevResult });
      assert.equal(code, 1);
      assert.equal(JSON.parse(stdout).code, 7);
      assert.match(stdout, /returned no address of interface/);
      await ptp.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step("it has to come after another plugin", async () => {
    const pod = await egress.createClient("alone", "nat");
    const changes = { prevResult: undefined };
    const { code, stdout } = await ptp.coil("ADD", pod, changes);
    assert.equal(code, 1);
    assert.deepEqual(JSON.parse(stdout).code, 7);
    assert.match(stdout, /must come after the plugin/);
    await lab.deletePod(pod);
  });

  await t.step(
    "a restarted coild finds pods by their marks, or by their addresses",
    async () => {
      const marked = await egress.createClient("marked", "nat");
      await egress.setStatus(marked, { ips: await ptp.addresses(marked) });
      const bare = await egress.createClient("bare", "nat");
      await egress.setStatus(bare, { ips: await macvlan.addresses(bare) });
      await first.process.kill9();
      await egress.applyEgress("nat", { destinations: ["198.51.100.0/24"] });
      await using again = await egress.coild([
        ...FLAGS,
        "--pod-table-id=255",
        "--enable-originating-only",
      ]);
      for (const pod of [marked, bare]) {
        await egress.until(
          "the change",
          pod,
          (now) =>
            now?.originatingOnly === true &&
            now.routes[0] === "118 198.51.100.0/24 tunnel",
        );
      }
      await egress.applyEgress("nat", { destinations: [NET] });
      for (const pod of [marked, bare]) {
        await egress.until(
          "the next change",
          pod,
          (now) => now?.routes[0] === `118 ${NET} tunnel`,
        );
      }
      assert.equal((await ptp.coil("CHECK", marked)).code, 0);
      assert.equal((await macvlan.coil("CHECK", bare)).code, 0);
      await ptp.del(marked);
      await macvlan.del(bare);
      await lab.deletePod(marked);
      await lab.deletePod(bare);
      await eventually(
        "nothing to remember",
        async () => await again.metric("coil_coild_egress_clients") === 0,
      );
    },
  );

  await t.step(
    "the node's rules are left alone, and nothing of addresses is asked for",
    async () => {
      assert.equal(await node.run("ip", "rule"), before);
      const user = "system:serviceaccount:kube-system:coild";
      const requests = await lab.plane.auditRequests({ since, user });
      const resources = new Set(requests.map(({ resource }) => resource));
      resources.delete("events");
      assert.deepEqual([...resources].sort(), [
        "egresses",
        "endpointslices",
        "namespaces",
        "pods",
        "services",
      ]);
    },
  );
  await Deno.remove(dataDir, { recursive: true });
});

Deno.test("coild with address management refuses to come after another plugin, and odd flags", async () => {
  await using egress = await EgressLab.start("coildunchained");
  const { lab } = egress;
  const dataDir = await Deno.makeTempDir();
  await using coild = await egress.coild();
  const chain = new Chain(egress, {
    coild,
    first: { type: "ptp", ipam: hostLocal(dataDir, 4) },
  });
  const pod = await egress.createClient("chained", undefined);
  const { code, stdout } = await chain.add(pod);
  assert.equal(code, 1);
  assert.equal(JSON.parse(stdout).code, 7);
  assert.match(stdout, /must be the first plugin.*--enable-ipam=false/);
  await chain.first("DEL", pod);
  const none = ["--metrics-addr=0", "--health-addr=0"];
  const socketPath = `${lab.plane.runDir}/other.sock`;
  for (
    const [flags, message] of [
      [["--pod-table-id=0"], /route table 0 does not exist/],
      [["--enable-ipam=false", "--enable-egress=false"], /all false/],
    ] as const
  ) {
    const second = await lab.spawnCoild(lab.node(), [...none, ...flags], {
      socketPath,
    });
    assert.equal((await second.process.exited).code, 1);
    assert.match(await second.process.logs(), message);
  }
  await Deno.remove(dataDir, { recursive: true });
});
