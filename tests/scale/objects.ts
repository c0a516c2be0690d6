// The objects of a cluster that others than Coil write.
import {
  EGRESS_ANNOTATION_PREFIX,
  EGRESS_CLUSTER_ROLE_BINDING,
  FINALIZER,
  GROUP_VERSION,
  POOL_ANNOTATION,
} from "../../lib/names/mod.ts";
import { GATEWAY_LABELS } from "../../lib/api/mod.ts";
import type { Result } from "../../lib/cni/mod.ts";
import { SERVICE_NAME_LABEL } from "../../lib/egress/mod.ts";
import type { Stored } from "../schedules/sim_api.ts";
import type { ConnectOptions, CountingApi } from "./counting_api.ts";
import {
  BLOCK_ADDRESSES,
  type ClusterSize,
  NAMESPACES,
  servedEgressesOf,
} from "./size.ts";
import { REFUSED_EACH } from "./simulated.ts";
import type { Pod } from "./workload.ts";

/** It has one block for each node that is to be refused another one. Namespaces have the names of their pools. */
export const SMALL_POOL = { name: "small", blockAddresses: 4 };

const EGRESS_NAME = /^egress-\d+-(\d+)$/;
const LABELS = GATEWAY_LABELS;

/** Writes objects as users, kubelets and Kubernetes' controllers do. */
export interface ClusterObjects {
  put(plural: string, object: object): void;
  /** Changes nothing that Coil reads. */
  touch(plural: string, name: string): void;
  remove(plural: string, name: string): void;
  /** kubelet reports what an ADD gave. */
  setAddresses(pod: Stored, added: Result): void;
  /** Kubernetes has made all pods of a Deployment. */
  setReady(deployment: Stored): void;
  /** Returns the new Node's name. */
  addNode(): string;
}

/** Makes pools, namespaces and Egresses, and says how others are made. */
export function putObjects(
  api: CountingApi,
  size: ClusterSize,
): ClusterObjects {
  let touches = 0;
  let nodes = 0;
  const setStatus = (plural: string, name: string, status: object) =>
    api.byOthers({
      method: "PATCH",
      plural,
      name,
      subresource: "status",
      body: { status },
    });
  const objects: ClusterObjects = {
    put: (plural, body) => api.byOthers({ method: "POST", plural, body }),
    touch(plural, name) {
      const annotations = { touched: `${++touches}` };
      const body = { metadata: { annotations } };
      api.byOthers({ method: "PATCH", plural, name, body });
    },
    remove: (plural, name) => api.byOthers({ method: "DELETE", plural, name }),
    setAddresses({ metadata: { name } }, { ips = [] }) {
      const podIPs = ips.map(({ address }) => ({
        ip: address.replace(/\/.*/, ""),
      }));
      setStatus("pods", name, { phase: "Running", podIPs });
    },
    setReady({ metadata: { name }, spec }) {
      const { replicas = 1 } = spec as { readonly replicas?: number };
      setStatus("deployments", name, {
        observedGeneration: 1,
        replicas,
        updatedReplicas: replicas,
        availableReplicas: replicas,
        conditions: [{
          type: "Progressing",
          status: "True",
          reason: "NewReplicaSetAvailable",
        }],
      });
    },
    addNode() {
      const n = nodes++;
      const name = `node-${n}`;
      const address = `192.168.${n >> 8}.${n & 255}`;
      const addresses = [{ type: "InternalIP", address }];
      const metadata = { name, uid: name };
      this.put("nodes", { metadata, spec: {} });
      setStatus("nodes", name, { addresses, capacity: { pods: "110" } });
      return name;
    },
  };
  putCluster(objects, size);
  return objects;
}

/** What is there before Coil is. */
function putCluster(objects: ClusterObjects, size: ClusterSize): void {
  for (let i = 0; i < size.pools; i++) {
    putPool(objects, poolOf(i), {
      number: i,
      blocks: size.poolBlocks,
      blockAddresses: BLOCK_ADDRESSES,
    });
  }
  const small = {
    blockAddresses: SMALL_POOL.blockAddresses,
    blocks: Math.ceil(size.nodes / REFUSED_EACH),
  };
  putPool(objects, SMALL_POOL.name, { ...small, number: size.pools });
  putNamespace(objects, SMALL_POOL.name, SMALL_POOL.name);
  for (let i = 0; i < NAMESPACES; i++) {
    // Pods are in the first ones.
    const name = i < size.pools ? poolOf(i) : `namespace-${i}`;
    putNamespace(objects, name, poolOf(i % size.pools));
  }
  for (let i = 0; i < size.egresses; i++) {
    putEgress(objects, egressOf(i, size), size);
  }
  objects.put("clusterrolebindings", {
    metadata: { name: EGRESS_CLUSTER_ROLE_BINDING },
    roleRef: { kind: "ClusterRole", name: EGRESS_CLUSTER_ROLE_BINDING },
  });
}

/** A pod's object; its namespace has the name of its pool. */
export function podObject(
  { number, node, poolIndex, isClient }: Pod<{ readonly name: string }>,
  { size }: { readonly size: ClusterSize },
): Stored {
  const { namespace, name } = egressOf(number % size.egresses, size);
  const annotations = isClient
    ? { [`${EGRESS_ANNOTATION_PREFIX}${namespace}`]: name }
    : {};
  return podOn(node.name, {
    name: `pod-${number}`,
    namespace: poolOf(poolIndex),
    annotations,
  });
}

/** Whether a pod has an address and uses an Egress. */
export function isClient(pod: Stored): boolean {
  return addressesOf(pod).length > 0 &&
    Object.keys(pod.metadata.annotations ?? {})
      .some((key) => key.startsWith(EGRESS_ANNOTATION_PREFIX));
}

/** A pod's addresses, by its status. */
export function addressesOf({ status }: Stored): string[] {
  const { podIPs = [] } = (status ?? {}) as {
    readonly podIPs?: readonly { readonly ip: string }[];
  };
  return podIPs.map(({ ip }) => ip);
}

/** Whether an Egress of this name has gateways. */
export function isServed(egress: string, size: ClusterSize): boolean {
  const [, number] = EGRESS_NAME.exec(egress) ?? [];
  return Number(number) < servedEgressesOf(size);
}

/**
 * How the controllers see an object: in a sample they know only the few Egresses
 * that have gateways, and all clients use these, so that they have as many
 * clients as in the whole cluster.
 */
export function servedView(
  size: ClusterSize,
): NonNullable<ConnectOptions["view"]> {
  const served = servedEgressesOf(size);
  return (plural, object) => {
    const { name: own, annotations } = object.metadata;
    if (plural === "egresses") return isServed(own, size) ? object : undefined;
    if (plural !== "pods" || annotations === undefined) return object;
    const changed = Object.entries(annotations).map(([key, value]) => {
      const [, number] = EGRESS_NAME.exec(value) ?? [];
      if (number === undefined) return [key, value];
      const { namespace, name } = egressOf(Number(number) % served, size);
      return [`${EGRESS_ANNOTATION_PREFIX}${namespace}`, name];
    });
    const metadata = {
      ...object.metadata,
      annotations: Object.fromEntries(changed),
    };
    return { ...object, metadata };
  };
}

/** A pod of that node. */
export function podOn(nodeName: string, metadata: Stored["metadata"]): Stored {
  return { metadata, spec: { nodeName, hostNetwork: false } };
}

function poolOf(index: number): string {
  return `pool-${index}`;
}

function egressOf(index: number, { egressNamespaces }: ClusterSize) {
  const namespace = `egress-${index % egressNamespaces}`;
  return { namespace, name: `${namespace}-${index}` };
}

/** How a pool is cut. */
interface PoolCut {
  /** Each pool has a /12 of its own. */
  readonly number: number;
  readonly blocks: number;
  readonly blockAddresses: number;
}

function putPool(objects: ClusterObjects, name: string, cut: PoolCut): void {
  const subnets = subnetsOf(cut).map((ipv4) => ({ ipv4 }));
  objects.put("addresspools", {
    metadata: { name, finalizers: [FINALIZER] },
    spec: { blockSizeBits: Math.log2(cut.blockAddresses), subnets },
  });
}

/** Subnets of so many blocks, the largest first. */
function subnetsOf({ number, blocks, blockAddresses }: PoolCut): string[] {
  const subnets: string[] = [];
  let at = 0;
  for (let bits = 15; bits >= 0; bits--) {
    if ((blocks >> bits & 1) === 0) continue;
    const size = blockAddresses * 2 ** bits;
    const address = [16 + number, at >> 16, at >> 8 & 255, at & 255].join(".");
    subnets.push(`${address}/${32 - Math.log2(size)}`);
    at += size;
  }
  return subnets;
}

function putNamespace(
  objects: ClusterObjects,
  name: string,
  pool: string,
): void {
  const annotations = { [POOL_ANNOTATION]: pool };
  objects.put("namespaces", { metadata: { name, annotations } });
}

/** With the endpoints of its Service, and that too if the controllers do not know the Egress. */
function putEgress(
  objects: ClusterObjects,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  size: ClusterSize,
): void {
  objects.put("egresses", {
    apiVersion: GROUP_VERSION,
    kind: "Egress",
    metadata: { namespace, name },
    spec: { destinations: ["0.0.0.0/0"], replicas: size.gatewaysEach },
  });
  if (!isServed(name, size)) {
    objects.put("services", {
      metadata: { namespace, name, labels: LABELS },
      spec: { clusterIPs: ["10.96.0.10"] },
    });
  }
  objects.put("endpointslices", {
    metadata: {
      namespace,
      name,
      labels: { ...LABELS, [SERVICE_NAME_LABEL]: name },
    },
    addressType: "IPv4",
    endpoints: [],
  } as object);
}
