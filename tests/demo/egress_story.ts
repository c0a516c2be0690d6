// The chapters of the egress demo, in order; each checks what it shows.
import assert from "node:assert/strict";
import type { CoilCluster } from "../lab/coil.ts";
import { eventually } from "../lab/mod.ts";
import { CLIENTS, GATEWAYS } from "../vm/e2e_objects.ts";
import { OUTSIDE, OUTSIDE_NETWORKS, VM_FAMILIES } from "../vm/topology.ts";
import type { World } from "./egress_lab.ts";
import { bold, chapter, dim, line, shown, step, table } from "./stage.ts";
import type { Heard, WorldPod } from "./world_api.ts";

const EGRESS = "internet";
const ANNOTATION = `egress.coil.cybozu.com/${GATEWAYS}`;
const REPLICAS = 2;
const SERVERS = VM_FAMILIES.map((family) => OUTSIDE[family].near);

const MANIFEST = `apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {namespace: ${GATEWAYS}, name: ${EGRESS}}
spec:
  replicas: ${REPLICAS}
  destinations: [${
  VM_FAMILIES.map((f) => `"${OUTSIDE_NETWORKS[f].near}"`).join(", ")
}]
  fouSourcePortAuto: true
`;

const DIRECT = "direct";
const DIRECT_MANIFEST = `apiVersion: coil.cybozu.com/v2
kind: Egress
metadata: {namespace: ${GATEWAYS}, name: ${DIRECT}}
spec:
  replicas: ${REPLICAS}
  destinations: ["${OUTSIDE_NETWORKS.ipv4.near}"]
  fouSourcePortAuto: true
  gatewaySelection: Direct
`;

/** Where the story takes place, and what is to be said of it at its end. */
export interface Scene {
  readonly cluster: CoilCluster;
  readonly world: World;
  /** Is told each fact that has been seen. */
  readonly saw: (fact: string) => void;
}

/** Tells the whole story. */
export async function tellEgress(scene: Scene): Promise<void> {
  const before = await askAlone(scene);
  const gateways = await makeGateways(scene);
  await becomeClient(scene, { before, gateways });
  await firstPacket(scene, gateways);
  await stopGateways(scene, await killGateways(scene));
}

async function kubectl(scene: Scene, ...args: string[]): Promise<void> {
  const typed = args.map((arg) => /[\s>]/.test(arg) ? `'${arg}'` : arg);
  const output = await scene.cluster.plane.kubectl(...args);
  shown(`kubectl ${typed.join(" ")}`, output);
}

/** Asks the servers of both families. */
async function askAll(
  scene: Scene,
  pod: string,
  { patient = false }: { readonly patient?: boolean } = {},
): Promise<readonly Heard[]> {
  const heard: Heard[] = [];
  for (const address of SERVERS) {
    const question = { pod, address, protocol: "tcp", patient } as const;
    heard.push(await scene.world.call("ask", question));
  }
  return heard;
}

const sourcesOf = (heard: readonly Heard[]) =>
  heard.map(({ source, refusal }) => source ?? `(${refusal})`);

function gatewayOf(gateways: readonly WorldPod[], source: string): string {
  const gateway = gateways.find((g) => g.addresses.includes(source));
  assert.ok(gateway, `the server sees ${source}, which is no gateway's`);
  return gateway.name;
}

async function askAlone(scene: Scene): Promise<readonly string[]> {
  chapter(
    "A pod asks a server outside who it is",
    `The servers, ${
      SERVERS.join(" and ")
    }, answer with the address that they see.`,
  );
  const pods = await step(
    "pods on both nodes, without any annotation",
    async () => [
      (await scene.world.call("createPod", { name: "shop", node: 0 })).pod,
      (await scene.world.call("createPod", { name: "other", node: 1 })).pod,
    ],
  );
  const rows: string[][] = [];
  for (const { name, addresses } of pods) {
    const sources = sourcesOf(await askAll(scene, name, { patient: true }));
    rows.push(...addresses.map((own, i) => [name, own, sources[i] ?? ""]));
  }
  table(["POD", "OWN ADDRESS", "SEEN OUTSIDE AS"], rows);
  for (const [, own, source] of rows) assert.equal(source, own);
  scene.saw("pods without annotation appear outside as themselves");
  return pods[0]?.addresses ?? [];
}

async function makeGateways(scene: Scene): Promise<readonly WorldPod[]> {
  chapter(
    "An admin defines a way out",
    "Two gateways for chosen networks. Their addresses are of a pool of their own.",
  );
  const { plane } = scene.cluster;
  for (const row of MANIFEST.trimEnd().split("\n")) line(dim(`     ${row}`));
  shown(
    "kubectl apply -f egress.yaml",
    await plane.kubectlStdin(["apply", "-f", "-"], MANIFEST),
  );
  const inGateways = ["-n", GATEWAYS];
  await step(
    "coil-controller makes a Deployment and a Service",
    () =>
      eventually("both", async () => {
        await plane.kubectl(
          ...["get", ...inGateways, `deployment/${EGRESS}`],
          `service/${EGRESS}`,
        );
        return true;
      }),
  );
  const gateways = await step(
    "the gateways come up",
    () => scene.world.call("gateways", { egress: EGRESS, count: REPLICAS }),
  );
  await egressIs(scene, "True");
  await kubectl(scene, "get", ...inGateways, "egress,deployment,service");
  table(
    ["GATEWAY", "NODE", "IPV4", "IPV6"],
    gateways.map(({ name, node, addresses }) => [name, node, ...addresses]),
  );
  scene.saw("kubectl apply of one Egress made gateways, Service and all");
  return gateways;
}

async function egressIs(scene: Scene, status: "True" | "False") {
  const ready = `jsonpath={.status.conditions[?(@.type=="Ready")].status}`;
  await eventually(
    `Ready to be ${status}`,
    async () =>
      (await scene.cluster.plane.kubectl(
        ...["get", "egress", "-n", GATEWAYS, EGRESS, "-o", ready],
      )) === status,
    { intervalMs: 200 },
  );
}

async function becomeClient(
  scene: Scene,
  known: {
    readonly before: readonly string[];
    readonly gateways: readonly WorldPod[];
  },
): Promise<void> {
  const { before, gateways } = known;
  chapter(
    "The running pod becomes a client",
    "One annotation; no restart. coild sets the tunnel up inside the pod.",
  );
  await kubectl(
    scene,
    ...["annotate", "pod", "-n", CLIENTS, "shop", `${ANNOTATION}=${EGRESS}`],
  );
  const after = await step(
    "the servers see another address",
    () =>
      eventually("a gateway's address", async () => {
        const heard = await askAll(scene, "shop");
        const sources = heard.map(({ source }) => source);
        const isOther = (source: string | undefined, i: number) =>
          source !== undefined && source !== before[i];
        return sources.every(isOther) && sourcesOf(heard);
      }),
  );
  const names = after.map((source) => gatewayOf(gateways, source));
  line();
  after.forEach((source, i) => {
    line(`   before  ${dim(before[i] ?? "")}`);
    line(`   after   ${bold(source)}  ${dim(`gateway ${names[i]}`)}`);
  });
  scene.saw("a running pod got a gateway's address, by an annotation alone");
  // From here on its own address is not to be seen any more.
  await scene.world.call("leaks", {});
}

async function firstPacket(
  scene: Scene,
  gateways: readonly WorldPod[],
): Promise<void> {
  chapter(
    "A new pod's very first packet",
    "One datagram to each server, right after ADD, before even the API server knows the pod's address.",
  );
  const { pod, heard } = await step(
    'pod "first" on node2, a client from its start',
    () =>
      scene.world.call("createPod", {
        name: "first",
        node: 1,
        egresses: EGRESS,
        firstAsks: SERVERS,
      }),
  );
  const sources = sourcesOf(heard);
  table(
    ["POD'S OWN ADDRESS", "FIRST PACKET SEEN AS", "GATEWAY", "ANSWER AFTER"],
    pod.addresses.map((own, i) => [
      own,
      sources[i] ?? "",
      gatewayOf(gateways, sources[i] ?? ""),
      `${heard[i]?.ms.toFixed(0)} ms`,
    ]),
  );
  scene.saw("a new client's first packets arrived, with a gateway's address");
}

async function killGateways(scene: Scene): Promise<readonly WorldPod[]> {
  chapter(
    "A gateway is killed under a running download and a poller",
    "Clients of the Service wait until the cluster notices. With gatewaySelection: Direct the client's node notices by itself, and ends the connections.",
  );
  const { plane } = scene.cluster;
  for (const row of DIRECT_MANIFEST.trimEnd().split("\n")) {
    line(dim(`     ${row}`));
  }
  shown(
    "kubectl apply -f direct.yaml",
    await plane.kubectlStdin(["apply", "-f", "-"], DIRECT_MANIFEST),
  );
  const gatewaysOf = (egress: string) =>
    scene.world.call("gateways", { egress, count: REPLICAS });
  await step("its gateways come up", () => gatewaysOf(DIRECT));
  await step('pod "chooser", its client', () =>
    scene.world.call("createPod", {
      name: "chooser",
      node: 0,
      egresses: DIRECT,
    }));
  const clients = [
    { pod: "shop", egress: EGRESS, isTold: false },
    { pod: "chooser", egress: DIRECT, isTold: true },
  ];
  const lost = await step(
    "each client's gateway is killed with its network: 100 datagrams and 20 new connections a second, a download, a connection that waits",
    () => scene.world.call("killGateways", { clients }),
  );
  const ms = (value: number | undefined) =>
    value === undefined ? "not at all" : `${value} ms`;
  table(
    [
      "CLIENT",
      "CHOOSES BY",
      "POLLER",
      "DOWNLOAD",
      "NEW CONNECTIONS",
      "WAITING PROGRAM",
    ],
    lost.map(({ pod, poller, download, connections, waiting }, i) => [
      ...[pod, i === 0 ? "Service" : "Direct", ms(poller), ms(download)],
      ...[ms(connections), waiting === undefined ? "waits on" : ms(waiting)],
    ]),
  );
  line(
    dim(
      "     The longest silence of each; the kubelet of this demo probes gateways as their pods want it, once a second.",
    ),
  );
  const [, direct] = lost;
  assert.ok(direct?.waiting, "the program that waits was not told");
  scene.saw(
    `a gateway was killed: ${direct.poller} ms later its clients' datagrams went on by the other one, and a waiting program was told after ${direct.waiting} ms`,
  );
  const events = [
    ...["get", "events", "-n", GATEWAYS],
    ...["--field-selector", `reason=GatewayLost,involvedObject.name=${DIRECT}`],
    ...["-o", "custom-columns=EVENT:.reason,MESSAGE:.message"],
  ];
  await step("the Egress says so, for all nodes together", () =>
    eventually(
      "an Event",
      async () => (await plane.kubectl(...events)).includes(direct.gateway),
    ));
  await kubectl(scene, ...events);
  scene.saw(
    "the Egress has an Event that names gateway, node and what was done",
  );
  await scene.world.call("replaceGateways", {});
  return await step(
    "other gateways take the places of those",
    async () => {
      await gatewaysOf(DIRECT);
      return await gatewaysOf(EGRESS);
    },
  );
}

async function stopGateways(
  scene: Scene,
  gateways: readonly WorldPod[],
): Promise<void> {
  chapter(
    "No gateway is left",
    "What cannot go through a gateway is refused at once, and goes out by no other way.",
  );
  const freeze = (frozen: boolean) =>
    scene.world.call("freeze", { egress: EGRESS, frozen });
  await step("both gateways hang (SIGSTOP)", () => freeze(true));
  await step("the cluster notices", () => egressIs(scene, "False"));
  await kubectl(scene, "get", "-n", GATEWAYS, "egress", EGRESS);
  const refusals = await step(
    "the pod is refused",
    () =>
      eventually("a refusal", async () => {
        const heard = await askAll(scene, "shop");
        return heard.every(isRefusal) && heard;
      }),
  );
  refusals.forEach(({ refusal, ms }, i) => {
    line(`     ${SERVERS[i]}: ${bold(refusal ?? "")} in ${ms.toFixed(0)} ms`);
  });
  const slowest = Math.max(...refusals.map(({ ms }) => ms));
  scene.saw(`without gateways it was refused, in ${slowest.toFixed(0)} ms`);
  await step("the gateways go on", () => freeze(false));
  const back = await step(
    "the pod is answered again",
    () =>
      eventually("answers", async () => {
        const heard = await askAll(scene, "shop");
        return heard.every(({ source }) => source) && sourcesOf(heard);
      }),
  );
  for (const source of back) {
    line(`     seen as ${source}  ${dim(gatewayOf(gateways, source))}`);
  }
  await egressIs(scene, "True");
  await kubectl(scene, "get", "-n", GATEWAYS, "egress", EGRESS);
  scene.saw("with gateways it was answered again, by itself");
  assert.equal(await scene.world.call("leaks", {}), 0, "packets leaked");
  scene.saw("outside, not one packet of a client had another source");
}

/** Before the time for an answer is over. */
function isRefusal({ refusal }: Heard): boolean {
  return refusal !== undefined && refusal !== "no answer";
}
