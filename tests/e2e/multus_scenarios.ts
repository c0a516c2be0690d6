// Pods of Coil's network with further interfaces on the switch, by thin Multus:
// each by Debian's macvlan and then the coordinator.
import assert from "node:assert/strict";
import { FAMILIES, hostPort } from "../../lib/inet/mod.ts";
import { PODS } from "../../lib/kube/mod.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";
import { eventually } from "../lab/mod.ts";
import { ensureMultus } from "../lab/multus.ts";
import { assertAddresses } from "./addresses.ts";
import { assertAgreement } from "./agreement.ts";
import { assertJoined } from "./coordinator_leftovers.ts";
import { useInstead } from "./cri.ts";
import { type Installation, POOL } from "./installation.ts";
import { gatewayOf, macvlanOn } from "./physical_switch.ts";
import type { RunningPod } from "./pods.ts";
import {
  assertServed,
  coilServers,
  type UnderlaySite,
} from "./underlay_scenarios.ts";

const NETWORK = "multus-cni-network";
/** Sorts before Coil's own. */
const FILE = "00-multus.conf";
const GROUP = "k8s.cni.cncf.io";
/** Networks of the switch by the names of their definitions, in the order in which pods name them. */
const ATTACHED = [["data", 61], ["storage", 62]] as const;
/** Annotations of pods. */
const NETWORKS = "k8s.v1.cni.cncf.io/networks";
const STATUS = "k8s.v1.cni.cncf.io/network-status";

/** As Multus brings it. */
const DEFINITION = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `network-attachment-definitions.${GROUP}` },
  spec: {
    group: GROUP,
    scope: "Namespaced",
    names: {
      plural: "network-attachment-definitions",
      singular: "network-attachment-definition",
      kind: "NetworkAttachmentDefinition",
      shortNames: ["net-attach-def"],
    },
    versions: [{
      name: "v1",
      served: true,
      storage: true,
      schema: {
        openAPIV3Schema: {
          type: "object",
          properties: {
            spec: {
              type: "object",
              properties: { config: { type: "string" } },
            },
          },
        },
      },
    }],
  },
};

function attachmentDefinitions(): readonly unknown[] {
  return ATTACHED.map(([name, number]) => ({
    apiVersion: `${GROUP}/v1`,
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: {
      config: JSON.stringify({
        cniVersion: "1.0.0",
        name,
        plugins: [macvlanOn(number), { type: "coordinator" }],
      }),
    },
  }));
}

/** Has Multus called on node1, with Coil's network as the first one, until it is disposed of. */
async function multusFirst(site: Installation): Promise<AsyncDisposable> {
  const node = site.node(1);
  const { plane } = site;
  await plane.apply(DEFINITION);
  await plane.definitionsEstablished();
  await plane.apply(...attachmentDefinitions());
  const program = await ensureMultus();
  await Deno.copyFile(program, `${node.directory}/cni-bin/multus`);
  return await useInstead(node, FILE, {
    cniVersion: "1.0.0",
    name: NETWORK,
    type: "multus",
    kubeconfig: plane.kubeconfig,
    // Of a file that it is given by its path, v4.2.4 has forgotten the socket upon DEL.
    clusterNetwork: "k8s-pod-network",
    confDir: "/etc/cni/net.d",
  });
}

/** A pod's interface, as Multus has written it into the pod. */
interface Attached {
  readonly interface: string;
  readonly ips: readonly string[];
}

async function attachedTo(
  { client }: Installation,
  { name, namespace }: RunningPod,
): Promise<readonly Attached[]> {
  const { metadata } = await client.get(PODS, { name, namespace });
  return JSON.parse(metadata?.annotations?.[STATUS] ?? "[]");
}

/** The network namespace that has an address, by the name that it has on the node. */
async function netnsOf(node: ClusterNode, address: string): Promise<string> {
  const names = await node.run("ls", ["/run/netns"]);
  for (const name of names.trim().split("\n")) {
    // One of another pod may be going.
    const text = await node.run("ip", ["-n", name, "address", "show"])
      .catch(() => "");
    if (text.includes(` ${address}/`)) return name;
  }
  throw new Error(`Cannot find the network namespace with ${address}`);
}

/** The interface by which a packet leaves a pod. */
async function wayOut(
  node: ClusterNode,
  { netns, to, from }: {
    readonly netns: string;
    readonly to: string;
    readonly from?: string;
  },
): Promise<string> {
  const source = from === undefined ? [] : ["from", from];
  const text = await node.run("ip", [
    ...["-n", netns, "route", "get", to, ...source],
  ]);
  return / dev (\S+)/.exec(text)?.[1] ?? text;
}

/** A macvlan may not have joined the multicast groups of its addresses yet. */
async function pinged(what: string, ping: () => Promise<string>) {
  await eventually(what, async () => await ping() !== "");
}

/** What happens to pods with further interfaces. */
export async function multusScenarios(
  t: Deno.TestContext,
  { site, physical }: UnderlaySite,
): Promise<void> {
  const node = site.node(1);
  await using servers = await coilServers(site);
  await using _multus = await multusFirst(site);
  const networks = ATTACHED.map(([name]) => name).join();
  const annotations = { [NETWORKS]: networks };
  const [several, chooser] = await Promise.all([
    site.pods.run({ name: "several", node: "node1", annotations }),
    site.pods.run({
      name: "chooser",
      node: "node1",
      annotations: {
        ...annotations,
        "ipam.spidernet.io/default-route-nic": "net1",
      },
    }),
  ]);
  const pods = [several, chooser];

  await t.step(
    "pods with interfaces by Multus have Coil's addresses, and those of each network",
    async () => {
      assertAddresses(pods, [POOL.ipv4, POOL.ipv6]);
      const further: string[] = [];
      for (const pod of pods) {
        const [first, ...rest] = await attachedTo(site, pod);
        assert.deepEqual(first?.ips, pod.addresses);
        const names = rest.map((attached) => attached.interface);
        assert.deepEqual(names, ["net1", "net2"]);
        further.push(...rest.flatMap(({ ips }) => ips));
      }
      assert.equal(new Set(further).size, 8);
      await assertJoined(node, { addresses: further, pairs: 0 });
      await assertAgreement(site);
    },
  );

  await t.step(
    "each interface answers by itself, and ClusterIPs are reached from each",
    async () => {
      for (const pod of pods) {
        for (const address of servers.addresses) {
          const url = `http://${hostPort(address, 80)}/`;
          await assertServed(site, pod, { url, by: servers.names });
        }
        const netns = await netnsOf(node, pod.addresses[0] ?? "");
        const [, ...rest] = await attachedTo(site, pod);
        assert.equal(rest.length, 2);
        for (const { interface: name, ips } of rest) {
          for (const [index, family] of FAMILIES.entries()) {
            const own = ips[index] ?? "";
            // Of a network that the pod is not on.
            const far = gatewayOf(60, family);
            const args = ["-n", "-c1", "-W2"];
            await pinged(
              `${own} to answer ${far}`,
              () => physical.run("ping", [...args, "-I", far, own]),
            );
            await pinged(
              `${own} to answer its node`,
              () => node.run("ping", [...args, own]),
            );
            const way = (to: string) => wayOut(node, { netns, to, from: own });
            assert.equal(await way(far), name);
            assert.equal(await way(servers.addresses[index] ?? ""), "eth0");
          }
        }
      }
    },
  );

  await t.step(
    "the pod's annotation names the interface with the default route",
    async () => {
      for (
        const [pod, wanted] of [[several, "eth0"], [chooser, "net1"]] as const
      ) {
        const netns = await netnsOf(node, pod.addresses[0] ?? "");
        for (const to of ["198.51.100.1", "2001:db8::1"]) {
          assert.equal(await wayOut(node, { netns, to }), wanted);
        }
      }
    },
  );

  await t.step("pods that go leave nothing", async () => {
    await site.pods.remove(...pods);
    await assertJoined(node, { addresses: [], pairs: 0 });
    await assertAgreement(site);
  });
}
