// What egress adds to coild's ADD on the machine itself, but for the tunnels
// that its kernel may not have.
import * as path from "node:path";
import {
  ADDRESS_POOLS,
  EGRESSES,
  type EgressSpec,
} from "../../../lib/api/mod.ts";
import {
  ENDPOINT_SLICES,
  KubeClient,
  NAMESPACES,
  PODS,
  SERVICES,
} from "../../../lib/kube/mod.ts";
import type { CoilCluster } from "../../lab/coil.ts";
import { run } from "../../lab/command.ts";
import type { LabNode } from "../../lab/mod.ts";
import { placePlugin } from "../../lab/plugin_file.ts";
import { type Sandbox, sandboxOf } from "../../lab/runtime.ts";
import { eventually } from "../../lab/wait.ts";
import { handlingTimes } from "../daemon_log.ts";
import { makeProgram } from "./native.ts";
import type { Samples } from "./samples.ts";

/** Of the pods and the Egresses, and the name of their pool. */
const NAMESPACE = "bench-add";
/** A number that no other node of the lab has. */
const NODE = 9;
const WARM_UP = 5;

/** The pods' kinds: the Egresses that each uses; the third one's clients choose their gateway. */
const KINDS = {
  plain: undefined,
  one: "first",
  direct: "third",
  two: "first,second",
} as const;

const DESTINATIONS = {
  first: ["203.0.113.0/24", "2001:db8:9::/64"],
  second: ["198.51.100.0/24", "2001:db8:a::/64"],
  third: ["203.0.113.0/24", "2001:db8:9::/64"],
} as const;

/** `add.base.<kind>`: coild's handling of a dual-stack ADD without, with one and with two gateways, and with one that the client chooses; in turn. */
export async function nativeAddTimes(
  cluster: CoilCluster,
  { rounds, dir }: { readonly rounds: number; readonly dir: string },
): Promise<Samples> {
  const { plane, binDir } = cluster;
  const link = path.join(binDir, "coild");
  const former = await Deno.readLink(link);
  const program = await makeProgram("client_program", dir);
  await Deno.remove(link);
  await Deno.symlink(program, link);
  await using undo = new AsyncDisposableStack();
  undo.defer(async () => {
    await Deno.remove(link);
    await Deno.symlink(former, link);
  });
  using client = await KubeClient.load({
    kubeconfig: plane.kubeconfig,
    fieldManager: "bench",
  });
  await client.patch(ADDRESS_POOLS, { name: NAMESPACE }, {
    spec: {
      blockSizeBits: 5,
      subnets: [{ ipv4: "10.210.0.0/24", ipv6: "fd21::/120" }],
    },
  }, { kind: "apply" });
  await client.patch(NAMESPACES, { name: NAMESPACE }, {
    metadata: { annotations: { "coil.cybozu.com/pool": NAMESPACE } },
  }, { kind: "apply" });
  for (const [name, destinations] of Object.entries(DESTINATIONS)) {
    await createEgress(client, name, {
      destinations,
      replicas: 1,
      gatewaySelection: name === "third" ? "Direct" : "Service",
    });
  }
  const node = undo.use(await plane.addNode(NODE));
  await placePlugin(cluster.pluginDir(node), {
    executable: former,
    socket: cluster.socketOf(node),
  });
  // Gateways that are there by name only cannot be told of clients.
  const daemon = await cluster.startCoild(node);
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [kind, egresses] of Object.entries(KINDS)) {
      const name = `${kind}${round < 0 ? "warm" : ""}-${Math.abs(round)}`;
      const sandbox = await createSandbox(client, {
        node,
        name,
        egresses,
        plane: plane.name,
      });
      await cluster.add(node, sandbox);
      await cluster.del(node, sandbox);
      await cluster.removeSandbox(sandbox);
    }
  }
  const log = await daemon.logs();
  await daemon.stop();
  return Object.fromEntries(
    Object.keys(KINDS).map((kind) => {
      const query = {
        method: "Add",
        namespace: NAMESPACE,
        podPrefix: `${kind}-`,
      };
      const samples = handlingTimes(log, query);
      return [`add.base.${kind}`, { unit: "ms", samples }];
    }),
  );
}

/** An Egress with a Service, which the controller makes, and a gateway by name. */
async function createEgress(
  client: KubeClient,
  name: string,
  spec: EgressSpec,
): Promise<void> {
  await client.create(EGRESSES, {
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: NAMESPACE, name },
    spec,
  });
  await eventually(
    `the Service of ${name}`,
    () => client.tryGet(SERVICES, { namespace: NAMESPACE, name }),
  );
  for (const [type, address] of [["IPv4", "10.9.0.1"], ["IPv6", "fd09::1"]]) {
    await client.create(ENDPOINT_SLICES, {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        namespace: NAMESPACE,
        name: `${name}-${type?.toLowerCase()}-bench`,
        labels: {
          "kubernetes.io/service-name": name,
          "app.kubernetes.io/name": "coil",
          "app.kubernetes.io/component": "egress",
          "app.kubernetes.io/instance": name,
        },
      },
      addressType: type ?? "",
      endpoints: [{
        addresses: [address ?? ""],
        conditions: { ready: true },
        targetRef: { kind: "Pod", name: `${name}-0` },
      }],
      ports: [{ port: 5555, protocol: "UDP" }],
    });
  }
}

async function createSandbox(
  client: KubeClient,
  pod: {
    readonly node: LabNode;
    /** Name of the control plane's lab, which removes what is left. */
    readonly plane: string;
    readonly name: string;
    readonly egresses: string | undefined;
  },
): Promise<Sandbox> {
  const { node, name, egresses, plane } = pod;
  await client.create(PODS, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: NAMESPACE,
      ...(egresses !== undefined && {
        annotations: { [`egress.coil.cybozu.com/${NAMESPACE}`]: egresses },
      }),
    },
    spec: {
      nodeName: node.name,
      containers: [{ name: "main", image: "none" }],
    },
  });
  const netns = `coil-${plane}-pod-${name}`;
  await run("ip", ["netns", "add", netns]);
  await run("ip", ["-n", netns, "link", "set", "lo", "up"]);
  return sandboxOf(netns, { namespace: NAMESPACE, name });
}
