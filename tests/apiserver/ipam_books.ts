/**
 * Pools, blocks and pods for the tests of commands that read them.
 *
 * @module
 */
import type { ControlPlane } from "../lab/mod.ts";
import { patchPodStatus } from "./patch_status.ts";

/** An AddressPool. */
export function pool(name: string, subnets: readonly object[]): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name },
    spec: { subnets },
  };
}

/** The AddressBlock of this index of a pool, of a node. */
export function block(
  [poolName, index, node]: readonly [string, number, string],
  addresses: object,
): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressBlock",
    metadata: {
      name: `${poolName}-${index}`,
      labels: {
        "coil.cybozu.com/pool": poolName,
        "coil.cybozu.com/node": node,
      },
    },
    index,
    ...addresses,
  };
}

/** Makes a pod with these addresses, as a kubelet leaves it. */
export async function addPod(
  plane: ControlPlane,
  [namespace, name, node]: readonly [string, string, string],
  ips: readonly string[],
  more: { readonly phase?: string; readonly hostNetwork?: boolean } = {},
): Promise<void> {
  await plane.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace },
    spec: {
      nodeName: node,
      hostNetwork: more.hostNetwork ?? false,
      automountServiceAccountToken: false,
      containers: [{ name: "main", image: "example.com/main" }],
    },
  });
  const { phase } = more;
  await patchPodStatus(plane, { namespace, name }, { ips, phase });
}

/** Two pools, two nodes, three blocks; pods where they belong, and one each in no block and in another node's. */
export async function populate(plane: ControlPlane): Promise<void> {
  await plane.createNamespace("apps");
  for (const name of ["node1", "node2"]) {
    await plane.apply({ apiVersion: "v1", kind: "Node", metadata: { name } });
  }
  await plane.apply(
    pool("default", [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]),
    pool("small", [{ ipv4: "10.3.0.0/27" }]),
    block(["default", 0, "node1"], {
      ipv4: "10.2.0.0/27",
      ipv6: "fd02::/123",
    }),
    block(["default", 1, "node2"], {
      ipv4: "10.2.0.32/27",
      ipv6: "fd02::20/123",
    }),
    block(["small", 0, "node1"], { ipv4: "10.3.0.0/27" }),
  );
  const on = (name: string, node: string) => ["apps", name, node] as const;
  await addPod(plane, on("web-1", "node1"), ["10.2.0.9", "fd02::9"]);
  await addPod(plane, on("web-2", "node1"), ["fd02::a", "10.2.0.10"]);
  await addPod(plane, on("db", "node2"), ["10.2.0.40", "fd02::28"]);
  await addPod(plane, ["default", "cache", "node1"], ["10.3.0.1"]);
  await addPod(plane, on("lost", "node2"), ["10.2.0.200", "fd02::c8"]);
  await addPod(plane, on("moved", "node1"), ["10.2.0.41", "fd02::29"]);
  await addPod(plane, on("done", "node1"), ["10.2.0.11"], {
    phase: "Succeeded",
  });
  await addPod(plane, on("host", "node1"), ["172.30.0.11"], {
    hostNetwork: true,
  });
}
