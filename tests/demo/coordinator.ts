// `deno task demo --coordinator`: pods with several interfaces and on underlay
// networks. Each chapter checks what it shows.
import assert from "node:assert/strict";
import type { CoilCluster } from "../lab/coil.ts";
import { eventually } from "../lab/mod.ts";
import type { Sandbox } from "../lab/runtime.ts";
import {
  addressOf,
  gatewayOf,
  NETWORKS,
  type Nic,
  PhysicalWorld,
} from "./coordinator_world.ts";
import { bold, chapter, dim, green, line, shown, step } from "./stage.ts";

const DEPLOY = new URL("../../deploy/coordinator", import.meta.url).pathname;
const POOL = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressPool",
  metadata: { name: "default" },
  spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.100.0.0/24" }] },
};
const DEFAULTS = {
  apiVersion: "spiderpool.spidernet.io/v2beta1",
  kind: "SpiderCoordinator",
  metadata: { name: "default" },
  spec: { podCIDRType: "auto" },
};
const WAVE = 12;

/** Where the story takes place, and what is to be said of it at its end. */
interface Scene {
  readonly world: PhysicalWorld;
  readonly saw: (fact: string) => void;
}

/** Shows all of it and sums it up. */
export async function tellCoordinator(cluster: CoilCluster): Promise<void> {
  const facts: string[] = [];
  const saw = (fact: string) => facts.push(fact);
  await startCluster(cluster);
  await using world = await PhysicalWorld.start(cluster);
  const scene = { world, saw };
  const underlay = await reachService(scene);
  await severalInterfaces(scene);
  await takenAddress(scene, underlay);
  await deadGateway(scene);
  await killDaemon(scene);
  line();
  line(bold("Seen:"));
  for (const fact of facts) line(`   ${green("✓")} ${fact}`);
}

async function kubectl(cluster: CoilCluster, ...args: string[]): Promise<void> {
  shown(`kubectl ${args.join(" ")}`, await cluster.plane.kubectl(...args));
}

async function startCluster(cluster: CoilCluster): Promise<void> {
  chapter(
    "One node, whose network is Coil's",
    "SpiderCoordinator says what holds for all pods; coil-controller finds out where pods and Services are.",
  );
  const [node] = cluster.nodes;
  assert.ok(node);
  await step("definition and rights of the coordinator", async () => {
    await cluster.plane.kubectl("apply", "-k", DEPLOY);
    await cluster.plane.definitionsEstablished();
    await cluster.plane.apply(POOL, DEFAULTS);
  });
  await step("coil-controller and coild", async () => {
    await cluster.startController(["--enable-coordinator"]);
    await cluster.startCoild(node, ["--enable-coordinator"]);
  });
  await step(
    "the status",
    () =>
      eventually("the status", async () =>
        /Synced/.test(
          await cluster.plane.kubectl(
            ...["get", "spidercoordinators", "default"],
            ...["-o", "jsonpath={.status.phase}"],
          ),
        )),
  );
  await kubectl(
    cluster,
    ...["get", "spidercoordinators", "default"],
    ...["-o", "jsonpath={.status}"],
  );
}

async function reachService(scene: Scene): Promise<Sandbox> {
  const { world } = scene;
  const { plane } = world.cluster;
  chapter(
    "A pod on the physical network, and a Service",
    "The switch knows no ClusterIPs, and a macvlan does not reach its own node.",
  );
  const get = (path: string, ...object: string[]) =>
    plane.kubectl("get", ...object, "-o", `jsonpath={${path}}`);
  const service = await get(".spec.clusterIP", "service", "kubernetes");
  const subset = "endpoints/kubernetes";
  await world.serve(service, {
    address: await get(".subsets[0].addresses[0].ip", subset),
    port: Number(await get(".subsets[0].ports[0].port", subset)),
  });
  const nic: Nic = { name: "eth0", network: 6, number: 100 };
  const pod = await world.pod("underlay");
  await world.addNic(pod, nic);
  const url = `https://${service}/version`;
  const ask = (seconds: number) =>
    world.tryInPod(pod, "curl", "-sk", "--connect-timeout", `${seconds}`, url);
  const before = await ask(5);
  shown(`curl ${url}`, before.code === 0 ? before.text : "(no answer)");
  assert.notEqual(before.code, 0);
  const added = await world.coordinator("ADD", pod);
  assert.equal(added.code, 0, added.text);
  line(`   ${green("The coordinator has joined it to its node.")}`);
  shown("ip route", (await world.tryInPod(pod, "ip", "route")).text);
  const after = await ask(60);
  assert.equal(after.code, 0);
  shown(`curl ${url}`, after.text.split("\n").slice(0, 4).join("\n"));
  await world.node.run("ping", "-c1", "-w20", addressOf(nic));
  scene.saw("an underlay pod reaches a ClusterIP, and its node reaches it");
  return pod;
}

async function severalInterfaces(scene: Scene): Promise<void> {
  const { world } = scene;
  chapter(
    "A pod with three interfaces",
    "What comes in by one is answered by that one, whichever has the default route.",
  );
  const pod = await world.pod("several");
  for (const [i, network] of NETWORKS.entries()) {
    const nic = { name: i === 0 ? "eth0" : `net${i}`, network, number: 101 };
    await world.addNic(pod, nic);
    const { code, text } = await world.coordinator("ADD", pod, {
      nic: nic.name,
    });
    assert.equal(code, 0, text);
  }
  const rules = await world.tryInPod(pod, "ip", "rule");
  shown("ip rule", rules.text);
  for (const [i, network] of NETWORKS.entries()) {
    const address = addressOf({ network, number: 101 });
    const way = await world.tryInPod(
      ...[pod, "ip", "route", "get", "198.51.100.1", "from"] as const,
      address,
    );
    shown(`ip route get 198.51.100.1 from ${address}`, way.text);
    assert.match(way.text, new RegExp(`dev ${i === 0 ? "eth0" : `net${i}`}`));
    const source = gatewayOf({ network: network === 6 ? 7 : 6 });
    await world.onSwitch("ping", "-c2", "-W10", "-I", source, address);
  }
  scene.saw("each of three interfaces answers by itself");
}

async function takenAddress(scene: Scene, owner: Sandbox): Promise<void> {
  const { world } = scene;
  chapter("An address that another machine has");
  const pod = await world.pod("second");
  await world.addNic(pod, { name: "eth0", network: 6, number: 100 });
  const { code, text } = await world.coordinator("ADD", pod, {
    // The answer ends it, however long a busy machine takes for it.
    config: { detectIPConflict: true, detectOptions: { timeout: "5s" } },
  });
  assert.notEqual(code, 0);
  shown("coordinator ADD   # detectIPConflict: true", text);
  const link = await world.tryInPod(owner, "ip", "link", "show", "eth0");
  assert.ok(link.text.includes(/at (\S+)$/.exec(text)?.[1] ?? "(none)"));
  await eventually(
    "the Event",
    async () =>
      /AddressConflict/.test(
        await world.cluster.plane.kubectl("get", "events"),
      ),
  );
  await kubectl(
    world.cluster,
    ...["get", "events", "--field-selector=reason=AddressConflict"],
    ...["-o", "custom-columns=POD:.involvedObject.name,MESSAGE:.message"],
  );
  scene.saw("a duplicate address is refused, with its owner's MAC address");
}

async function deadGateway(scene: Scene): Promise<void> {
  const { world } = scene;
  chapter("A gateway that does not answer");
  const pod = await world.pod("gateway");
  await world.addNic(pod, { name: "eth0", network: 6, number: 102 });
  const config = { detectGateway: true };
  await world.setGateway(6, "delete");
  const refused = await world.coordinator("ADD", pod, { config });
  shown("coordinator ADD   # detectGateway: true", refused.text);
  assert.match(refused.text, /gateway 10\.6\.0\.1 is unreachable/);
  await world.setGateway(6, "add");
  // As a kubelet does where the answer comes too late.
  await eventually("the pod's network", async () => {
    const { code, text } = await world.coordinator("ADD", pod, { config });
    assert.equal(code, 0, text);
    return true;
  });
  line(`   ${green("The gateway is back, and the pod starts.")}`);
  scene.saw("a pod does not start while its gateway is dead");
}

async function killDaemon(scene: Scene): Promise<void> {
  const { world } = scene;
  const { cluster, node } = world;
  chapter(
    `coild is killed during ${WAVE} ADDs`,
    "Who gets no answer goes on as the whole program; the kernel is the only store.",
  );
  const pods: Sandbox[] = [];
  for (let i = 0; i < WAVE; i++) {
    const pod = await world.pod(`wave-${i}`);
    await world.addNic(pod, { name: "eth0", network: 7, number: 120 + i });
    pods.push(pod);
  }
  const calls = pods.map((pod) => world.coordinator("ADD", pod));
  await calls[0];
  await cluster.daemonOf(node)?.kill9();
  for (const { code, text } of await Promise.all(calls)) {
    assert.equal(code, 0, text);
  }
  line(`   ${dim("kill -9; all of them succeed.")}`);
  await step(
    "coild is started again",
    () => cluster.startCoild(node, ["--enable-coordinator"]),
  );
  for (const pod of pods) {
    const { code, text } = await world.coordinator("CHECK", pod);
    assert.equal(code, 0, text);
  }
  line(`   ${green("CHECK finds each pod as ADD should leave it.")}`);
  scene.saw("ADDs survive that coild is killed");
}
