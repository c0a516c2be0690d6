// Pods whose only network is the switch's, by Debian's macvlan and then the
// coordinator: what kubelet, kube-proxy and a cache of names make of them.
import assert from "node:assert/strict";
import { hostPort } from "../../lib/inet/mod.ts";
import {
  DEPLOYMENTS,
  EVENTS,
  SERVICES,
  type V1Pod,
  type V1Service,
} from "../../lib/kube/mod.ts";
import { eventually } from "../lab/mod.ts";
import { type LabProcess, spawnProcess } from "../lab/process.ts";
import { assertAddresses } from "./addresses.ts";
import { assertJoined } from "./coordinator_leftovers.ts";
import { useInstead } from "./cri.ts";
import type { Installation } from "./installation.ts";
import {
  macvlanOn,
  networkOf,
  type PhysicalSwitch,
} from "./physical_switch.ts";
import {
  HTTP_PORT,
  isReady,
  podSpec,
  runningOf,
  type RunningPod,
} from "./pods.ts";
import { answerOf } from "./reach.ts";
import { Traffic } from "./traffic.ts";

const NAMESPACE = "default";
const NETWORK = "underlay";
/** Sorts before Coil's own. */
const FILE = "05-underlay.conflist";
const SUBNETS = Object.values(networkOf(60));
/** Of the cache of names on each node, as NodeLocal DNSCache has it. */
export const NAME_CACHE = "169.254.20.10";
const NAME = "web.lab.test";
const NAME_SERVER = new URL("./name_server_main.ts", import.meta.url).pathname;
const REPLICAS = 2;

/** A cluster with the coordinator, whose node1 is on a switch. */
export interface UnderlaySite {
  readonly site: Installation;
  readonly physical: PhysicalSwitch;
}

/** Gives node1's pods the switch's network instead of Coil's, until it is disposed of. */
async function underlayInstead(
  { site }: UnderlaySite,
): Promise<AsyncDisposable> {
  const node = site.node(1);
  return await useInstead(node, FILE, {
    cniVersion: "1.0.0",
    name: NETWORK,
    plugins: [macvlanOn(60), {
      type: "coordinator",
      detectIPConflict: true,
      detectGateway: true,
    }],
  });
}

/** Pods that are ready only if kubelet's probes reach them; all are of one Deployment on node1. */
class UnderlayPods {
  readonly #site: Installation;
  readonly #name = "underlay";

  constructor({ site }: UnderlaySite) {
    this.#site = site;
  }

  get labels(): Record<string, string> {
    return { app: this.#name };
  }

  async create(): Promise<void> {
    const spec = podSpec({ node: "node1" });
    const probe = {
      httpGet: { path: "/", port: HTTP_PORT },
      periodSeconds: 1,
      failureThreshold: 30,
    };
    await this.#site.client.create(DEPLOYMENTS, {
      metadata: { name: this.#name, namespace: NAMESPACE },
      spec: {
        replicas: REPLICAS,
        selector: { matchLabels: this.labels },
        template: {
          metadata: { labels: this.labels },
          spec: {
            ...spec,
            dnsPolicy: "None",
            dnsConfig: { nameservers: [NAME_CACHE] },
            containers: spec.containers.map((container) => ({
              ...container,
              readinessProbe: probe,
              livenessProbe: probe,
            })),
          },
        },
      },
    });
  }

  /** Waits until all are ready, and none of an earlier template is left. */
  async ready(): Promise<readonly RunningPod[]> {
    await this.#site.plane.kubectl(
      ...["rollout", "status", `deployment/${this.#name}`, "--timeout=600s"],
    );
    return await eventually("the pods alone", async () => {
      const pods = await this.#list();
      const isDone = pods.length === REPLICAS && pods.every(isReady);
      return isDone ? pods.map(runningOf) : undefined;
    });
  }

  /** Replaces them one after the other. */
  async replace(): Promise<readonly RunningPod[]> {
    const deployment = `deployment/${this.#name}`;
    await this.#site.plane.kubectl("rollout", "restart", deployment);
    return await this.ready();
  }

  async restarts(): Promise<readonly number[]> {
    const pods = await this.#list();
    return pods.map(({ status }) =>
      status?.containerStatuses?.[0]?.restartCount ?? 0
    );
  }

  async remove(): Promise<void> {
    await this.#site.plane.kubectl(
      ...["delete", "deployment", this.#name, "--cascade=foreground"],
    );
    await eventually(
      "the pods to be gone",
      async () => (await this.#list()).length === 0,
    );
  }

  async #list(): Promise<readonly V1Pod[]> {
    const labelSelector = `app=${this.#name}`;
    return await this.#site.pods.list({ namespace: NAMESPACE, labelSelector });
  }
}

/** A Service of both families; disposing of it deletes it. */
async function serviceFor(
  { client }: Installation,
  name: string,
  spec: NonNullable<V1Service["spec"]>,
): Promise<V1Service & AsyncDisposable> {
  const service = await client.create(SERVICES, {
    metadata: { name, namespace: NAMESPACE },
    spec: {
      ipFamilyPolicy: "RequireDualStack",
      ports: [{ port: 80, targetPort: HTTP_PORT }],
      ...spec,
    },
  });
  return {
    ...service,
    async [Symbol.asyncDispose]() {
      await client.delete(SERVICES, { name, namespace: NAMESPACE });
    },
  };
}

/** Pods behind a Service of both families. */
interface Servers extends AsyncDisposable {
  /** Of the Service. */
  readonly addresses: readonly string[];
  readonly names: readonly string[];
}

/** A pod of Coil's network on each node. */
export async function coilServers(site: Installation): Promise<Servers> {
  const labels = { service: "web" };
  const servers = await Promise.all(
    site.nodes.map(({ name: node }) =>
      site.pods.run({ name: `web-${node}`, node, labels })
    ),
  );
  const service = await serviceFor(site, "web", { selector: labels });
  return {
    addresses: service.spec?.clusterIPs ?? [],
    names: servers.map(({ name }) => name),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await site.pods.remove(...servers);
    },
  };
}

/** Asks a URL until each of these has answered. */
export async function assertServed(
  site: Installation,
  client: RunningPod,
  { url, by }: { readonly url: string; readonly by: readonly string[] },
): Promise<void> {
  const missing = new Set(by);
  await eventually(`${by} behind ${url}`, async () => {
    const [name = ""] = (await site.pods.exec(client, "get", url)).split(" ");
    missing.delete(name);
    return missing.size === 0;
  });
}

/** A cache of names in the node's network, which knows one name. */
async function startNameCache(
  { site }: UnderlaySite,
  [ipv4 = "", ipv6 = ""]: readonly string[],
): Promise<LabProcess> {
  const node = site.node(1);
  const lo = ["dev", "lo"];
  await node.run("ip", ["address", "replace", `${NAME_CACHE}/32`, ...lo]);
  const process = await spawnProcess({
    id: "name-cache",
    runDir: site.plane.runDir,
    netns: node.netns,
    command: Deno.execPath(),
    args: [
      ...["run", "-A", "--no-check", "--unstable-net", NAME_SERVER],
      ...[NAME_CACHE, ipv4, ipv6],
    ],
  });
  await eventually(
    "the cache of names",
    async () => (await process.logs()).includes("listening"),
  );
  return process;
}

/** Those on node1 that have a network of their own. */
async function podsOf({ site }: UnderlaySite): Promise<RunningPod[]> {
  const pods = await site.pods.list({ namespace: NAMESPACE });
  return pods.map(runningOf).filter(({ node }) => node === "node1");
}

/** The one that host-local will try first. */
async function nextAddress({ site }: UnderlaySite): Promise<string> {
  const file = `/var/lib/cni/networks/${NETWORK}/last_reserved_ip.0`;
  const last = await site.node(1).run("cat", [file]);
  return last.trim().replace(/[0-9]+$/, (number) => `${Number(number) + 1}`);
}

/** Waits until an Event on a pod says that another machine has an address. */
async function conflictReported(
  { site }: UnderlaySite,
  { pod, address }: { readonly pod: string; readonly address: string },
): Promise<void> {
  await eventually("the Event", async () => {
    const { items } = await site.client.list(EVENTS, {
      namespace: NAMESPACE,
      fieldSelector: `involvedObject.name=${pod}`,
    });
    return items.some(({ reason, message }) =>
      reason === "AddressConflict" && message?.includes(`address "${address}"`)
    );
  });
}

/** What happens to pods of the switch's network alone. */
export async function underlayScenarios(
  t: Deno.TestContext,
  where: UnderlaySite,
): Promise<void> {
  const { site, physical } = where;
  const node = site.node(1);
  await using servers = await coilServers(site);
  await using _network = await underlayInstead(where);
  const pods = new UnderlayPods(where);
  const urls = servers.addresses.map((a) => `http://${hostPort(a, 80)}/`);

  await t.step(
    "kubelet's probes reach underlay pods, which reach ClusterIPs, and names by the node's cache",
    async () => {
      await pods.create();
      const running = await pods.ready();
      assertAddresses(running, SUBNETS);
      await using _cache = await startNameCache(where, servers.addresses);
      for (const pod of running) {
        for (const url of [...urls, `http://${NAME}/`]) {
          await assertServed(site, pod, { url, by: servers.names });
        }
      }
      const addresses = running.flatMap((pod) => pod.addresses);
      await assertJoined(node, { addresses, pairs: REPLICAS });
    },
  );

  await t.step(
    "a NodePort with policy Local leads to underlay pods, which see who asks",
    async () => {
      await using service = await serviceFor(site, "underlay-web", {
        type: "NodePort",
        externalTrafficPolicy: "Local",
        selector: pods.labels,
      });
      const visitor = await site.pods.run({
        name: "visitor",
        node: "node2",
        hostNetwork: true,
      });
      const port = service.spec?.ports?.[0]?.nodePort ?? 0;
      for (const [index, address] of node.addresses.entries()) {
        const url = `http://${hostPort(address, port)}/`;
        const answer = await answerOf(site, url, { from: visitor });
        const [, from] = answer.trim().split(" ");
        assert.equal(from, site.node(2).addresses[index], url);
      }
      await site.pods.remove(visitor);
    },
  );

  // kubelet tries it again some 15 s later, while other steps go on.
  const taken = await nextAddress(where);
  const owner = await physical.own(60, taken);
  const second = { name: "second", node: "node1" };
  await site.pods.create(second);
  // The next step's pods would take the address, and its restart of coild let the call for this one fail.
  await conflictReported(where, { pod: second.name, address: taken });

  await t.step(
    "an underlay pod talks while coild and other underlay pods are replaced",
    async () => {
      const before = (await pods.ready()).map(({ uid }) => uid);
      await using traffic = await Traffic.start(site, "underlay-traffic");
      assertAddresses([traffic.client], SUBNETS);
      await traffic.during(async () => {
        await site.plane.kubectl(
          ...["-n", "kube-system", "rollout", "restart", "ds/coild"],
        );
        const after = await pods.replace();
        await site.rolledOut();
        assert.ok(after.every(({ uid }) => !before.includes(uid)));
      });
    },
  );

  await t.step(
    "an address that another machine has is reported, and the pod starts with the next one",
    async () => {
      await using _owner = owner;
      const pod = await site.pods.ready(second.name);
      assertAddresses([pod], SUBNETS);
      assert.ok(!pod.addresses.includes(taken), `${pod.addresses}`);
      await site.pods.remove(pod);
    },
  );

  await t.step({
    name:
      "a node restarts: its underlay pods run again, and leave nothing in the end",
    // Its programs outlive the step.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await node.powerOff();
      await node.boot();
      await physical.connect();
      await eventually("the pods to run again", async () => {
        const restarts = await pods.restarts();
        return restarts.every((count) => count > 0);
      }, { timeoutMs: 300_000 });
      const running = await pods.ready();
      for (const pod of running) {
        for (const url of urls) {
          await assertServed(site, pod, { url, by: servers.names });
        }
      }
      // One was on Coil's network before.
      const all = await podsOf(where);
      const others = all.filter(({ name }) => servers.names.includes(name));
      assert.equal(all.length, running.length + others.length);
      const joined = (some: readonly RunningPod[]) => ({
        addresses: some.flatMap((pod) => pod.addresses),
        pairs: some.length,
      });
      await assertJoined(node, joined(all));
      await pods.remove();
      await assertJoined(node, joined(others));
      await site.rolledOut();
    },
  });
}
