/**
 * What the tests of coild's egress share: Egresses with their Services and
 * endpoints as objects, pods' states, and coild with a recorded data plane.
 * What the real one does needs Foo over UDP and is tested in tests/vm.
 */
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import {
  type Coild,
  CoildLab,
  type CoildLabOptions,
  fromSources,
  type Sandbox,
  type SpawnOptions,
} from "./coild_lab.ts";
import { patchPodStatus } from "./patch_status.ts";
import {
  PLANE_DIR_ENV,
  type RecordedClient,
  RecordedPlane,
} from "./recorded_plane.ts";

const ENTRY = new URL("./coild_recording_main.ts", import.meta.url).pathname;

/** Namespace of the Egresses. */
export const NAMESPACE = "nat";
/** The annotation's key. */
export const ANNOTATION: string = `egress.coil.cybozu.com/${NAMESPACE}`;

/** What lasts shorter is not told; it may take twice as long. */
export const EVENT_DELAY_MS = 2_000;

/** Nothing by itself, addresses are free at once, and Events come soon. */
const ARGS = [
  "--cooldown=0s",
  "--addressblock-gc-interval=1h",
  `--egress-event-delay=${EVENT_DELAY_MS}ms`,
];

/** A gateway pod as an endpoint. */
export interface Gateway {
  /** Of IPv4; its last number is that of the IPv6 address, too. */
  readonly address: string;
  /** Without an IPv6 address. */
  readonly isSingle?: boolean;
  readonly pod?: string;
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

/** Where an Egress is, if elsewhere. */
export interface InNamespace {
  readonly namespace?: string;
}

interface EventObject {
  readonly reason: string;
  readonly type: string;
  readonly message: string;
  readonly count: number;
  readonly involvedObject: { readonly name: string };
}

/** A lab with one node and a recorded data plane. */
export class EgressLab implements AsyncDisposable {
  readonly lab: CoildLab;
  readonly plane: RecordedPlane;

  private constructor(lab: CoildLab, plane: RecordedPlane) {
    this.lab = lab;
    this.plane = plane;
  }

  static async start(
    name: string,
    options: Omit<CoildLabOptions, "name"> = {},
  ): Promise<EgressLab> {
    await using undo = new AsyncDisposableStack();
    const lab = undo.use(await CoildLab.start({ name, ...options }));
    const plane = undo.use(await RecordedPlane.create());
    const ipv6 = "fd02::150:0";
    await lab.createPool("default", [
      { ipv4: "10.150.0.0/24", ipv6: `${ipv6}/120` },
    ]);
    await lab.createPool("v4", [{ ipv4: "10.151.0.0/24" }]);
    await lab.createNamespace(NAMESPACE);
    await lab.createNamespace("v4", { "coil.cybozu.com/pool": "v4" });
    lab.granter.start();
    undo.move();
    return new EgressLab(lab, plane);
  }

  /** Starts coild and waits until it serves ADD. */
  async coild(
    args: readonly string[] = [],
    options: Pick<SpawnOptions, "ownPod"> = {},
  ): Promise<Coild> {
    return await this.lab.startCoild(this.lab.node(), [...ARGS, ...args], {
      ...options,
      command: fromSources(ENTRY),
      env: { [PLANE_DIR_ENV]: this.plane.dir },
    });
  }

  /** Creates an Egress, its Service and gateways; returns the Service's addresses. */
  async createEgress(
    name: string,
    spec: Readonly<Record<string, unknown>>,
    gateways: readonly Gateway[] = [{ address: "10.9.0.1", pod: "gw1" }],
    { namespace = NAMESPACE }: InNamespace = {},
  ): Promise<readonly string[]> {
    await this.applyEgress(name, spec, { namespace });
    const addresses = await this.createService(name, {}, { namespace });
    await this.setGateways(name, gateways, { namespace });
    return addresses;
  }

  async applyEgress(
    name: string,
    spec: Readonly<Record<string, unknown>>,
    { namespace = NAMESPACE }: InNamespace = {},
  ): Promise<void> {
    await this.lab.plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name, namespace },
      spec,
    });
  }

  async deleteEgress(name: string): Promise<void> {
    await this.#request(
      "DELETE",
      `/apis/coil.cybozu.com/v2/namespaces/${NAMESPACE}/egresses/${name}`,
    );
  }

  /** Creates the Service as coil-controller does; returns its addresses. */
  async createService(
    name: string,
    spec: Readonly<Record<string, unknown>> = {},
    { namespace = NAMESPACE }: InNamespace = {},
  ): Promise<readonly string[]> {
    const path = `/api/v1/namespaces/${namespace}/services`;
    const service = await this.#request("POST", path, {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, labels: labelsOf(name) },
      spec: {
        selector: labelsOf(name),
        ports: [{ port: 5555, protocol: "UDP" }],
        ipFamilyPolicy: "PreferDualStack",
        ...spec,
      },
    }) as { spec: { clusterIPs: string[] } };
    return service.spec.clusterIPs;
  }

  /** Deletes it, and its EndpointSlices as the garbage collector does. */
  async deleteService(name: string): Promise<void> {
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}`;
    for (
      const path of [
        `/api/v1/namespaces/${NAMESPACE}/services/${name}`,
        `${slices}/endpointslices/${name}-ipv4`,
        `${slices}/endpointslices/${name}-ipv6`,
      ]
    ) await this.#request("DELETE", path);
  }

  /** Sets an Egress' gateways, a slice for each family. */
  async setGateways(
    name: string,
    gateways: readonly Gateway[],
    { namespace = NAMESPACE }: InNamespace = {},
  ): Promise<void> {
    const dual = gateways.filter(({ isSingle }) => !isSingle);
    for (const type of ["IPv6", "IPv4"] as const) {
      await this.lab.plane.apply({
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `${name}-${type.toLowerCase()}`,
          namespace,
          labels: { ...labelsOf(name), "kubernetes.io/service-name": name },
        },
        addressType: type,
        endpoints: (type === "IPv4" ? gateways : dual)
          .map((gateway) => endpointOf(gateway, type)),
        ports: [{ port: 5555, protocol: "UDP" }],
      });
    }
  }

  /** Creates a pod that asks for Egresses, by the annotation's value. */
  async createClient(
    name: string,
    egresses: string | undefined,
    options: { readonly namespace?: string } = {},
  ): Promise<Sandbox> {
    return await this.lab.createPod(name, {
      ...options,
      ...(egresses !== undefined && {
        annotations: { [ANNOTATION]: egresses },
      }),
    });
  }

  /** As kubelet does once the sandbox is there. */
  async setStatus(
    pod: Sandbox,
    status: Parameters<typeof patchPodStatus>[2],
  ): Promise<void> {
    await patchPodStatus(this.lab.plane, pod, status);
  }

  /** Creates a client, attaches it and says that it runs; returns its addresses. */
  async runClient(
    coild: Coild,
    name: string,
    egresses: string | undefined,
  ): Promise<{ readonly pod: Sandbox; readonly ips: readonly string[] }> {
    const pod = await this.createClient(name, egresses);
    const ips = await coild.addresses(pod);
    await this.setStatus(pod, { ips });
    return { pod, ips };
  }

  /** The same with a way to each destination: gateways come by a watch, which may be behind the ADD. */
  async runServed(
    coild: Coild,
    name: string,
    egresses: string,
  ): Promise<{ readonly pod: Sandbox; readonly ips: readonly string[] }> {
    const client = await this.runClient(coild, name, egresses);
    await this.until("its gateways", client.pod, isServed);
    return client;
  }

  /** Waits until coild has the gateways of an Egress as they are, by a pod that uses it. */
  async untilKnown(
    coild: Coild,
    egress: string,
    probe: (client: RecordedClient | undefined) => boolean = isServed,
  ): Promise<void> {
    const { pod } = await this.runClient(coild, `scout-${egress}`, egress);
    await this.until("its gateways", pod, probe);
    await coild.del(pod);
    await this.lab.deletePod(pod);
  }

  /** Changes a pod's annotation; null removes it. */
  async annotate(
    { namespace, name }: Sandbox,
    egresses: string | null,
  ): Promise<void> {
    await this.#merge(`/api/v1/namespaces/${namespace}/pods/${name}`, {
      metadata: { annotations: { [ANNOTATION]: egresses } },
    });
  }

  /** Waits until a pod has what is expected of it. */
  async until(
    what: string,
    pod: Sandbox,
    probe: (client: RecordedClient | undefined) => boolean,
  ): Promise<void> {
    let last: RecordedClient | undefined;
    try {
      await eventually(what, async () => {
        last = await this.plane.of(pod);
        return probe(last);
      });
    } catch (cause) {
      throw new Error(`${what}: it has ${JSON.stringify(last)}`, { cause });
    }
  }

  /** Waits for an Event about a pod; returns its message. */
  async event(
    { namespace, name }: Sandbox,
    reason: string,
    type: "Normal" | "Warning" = "Warning",
  ): Promise<string> {
    return await eventually(`Event ${reason} of ${name}`, async () => {
      const events = await this.events({ namespace, name });
      return events.find((e) => e.reason === reason && e.type === type)
        ?.message;
    });
  }

  /** The Events about a pod. */
  async events(
    { namespace, name }: Pick<Sandbox, "namespace" | "name">,
  ): Promise<readonly EventObject[]> {
    const path = `/api/v1/namespaces/${namespace}/events`;
    const { items } = await this.#request("GET", path) as {
      items: EventObject[];
    };
    return items.filter(({ involvedObject }) => involvedObject.name === name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab[Symbol.asyncDispose]();
    await this.plane[Symbol.asyncDispose]();
  }

  async #merge(path: string, body: unknown): Promise<void> {
    const contentType = "application/merge-patch+json";
    await this.lab.plane.request("PATCH", path, body, { contentType });
  }

  #request(method: string, path: string, body?: unknown): Promise<unknown> {
    return this.lab.plane.request(method, path, body);
  }
}

/** Whether a client has a tunnel for each of its destinations. */
export function isServed(client: RecordedClient | undefined): boolean {
  const to = (kind: string) =>
    (client?.routes ?? []).flatMap((route) => {
      const [, destination = "", is] = route.split(" ");
      return is === kind ? [destination] : [];
    });
  const served = new Set(to("tunnel"));
  return served.size > 0 && to("refused").every((each) => served.has(each));
}

/** Asserts that coild refuses a call because of an Egress, and leaves nothing behind. */
export async function assertRefused(
  { lab }: EgressLab,
  { coild, pod, message }: {
    readonly coild: Coild;
    readonly pod: Sandbox;
    readonly message: RegExp;
  },
): Promise<void> {
  const error = await coild.refused(coild.add(pod));
  assert.deepEqual([error.status, error.code], ["FailedPrecondition", 999]);
  assert.match(error.message, message);
  await eventually("the host link to be gone", async () => {
    const links = await lab.node().run("ip", "-d", "link");
    return !links.includes(pod.containerId);
  });
}

/** The first part of a tunnel in words, which has the source port last. */
export function tunnelTo(remote: string): RegExp {
  return new RegExp(`> ${remote.replaceAll(".", "\\.")} `);
}

function endpointOf(
  { address, isSingle: _, pod, ready = true, ...more }: Gateway,
  type: "IPv4" | "IPv6",
) {
  const ipv6 = `fd09::${address.split(".").at(-1)}`;
  return {
    addresses: [type === "IPv4" ? address : ipv6],
    conditions: { ready, serving: more.serving ?? ready, ...more },
    ...(pod && { targetRef: { kind: "Pod", name: pod } }),
  };
}

function labelsOf(name: string): Record<string, string> {
  return {
    "app.kubernetes.io/name": "coil",
    "app.kubernetes.io/component": "egress",
    "app.kubernetes.io/instance": name,
  };
}
