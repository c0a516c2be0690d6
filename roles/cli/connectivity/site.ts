import { EGRESSES, egressSelector } from "../../../lib/api/mod.ts";
import { CommandError } from "../../../lib/command/mod.ts";
import type { Address } from "../../../lib/inet/mod.ts";
import {
  DAEMON_SETS,
  type KubeClient,
  LIVE_PODS,
  NODES,
  PODS,
  SERVICES,
  type V1Node,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import {
  APP_COMPONENT_LABEL,
  type NamespacedName,
  nameText,
} from "../../../lib/names/mod.ts";
import { type CoilContainer, containerOf } from "../base/kubectl.ts";
import { listPages } from "../base/pages.ts";
import { LINUX, OF_COIL } from "../base/selections.ts";
import { isCoild } from "../check/nodes.ts";
import { addressesIn } from "./start.ts";

/** A node as its object shows it. */
export interface SiteNode {
  readonly name: string;
  readonly isReady: boolean;
  readonly addresses: readonly Address[];
}

/** Facts of the cluster that the test needs. */
export interface Site {
  readonly nodes: readonly SiteNode[];
  readonly image: string;
  /** By the name of the node. */
  readonly coilds: ReadonlyMap<string, CoilContainer>;
  readonly routers: ReadonlyMap<string, CoilContainer>;
  readonly apiServer: {
    readonly addresses: readonly Address[];
    readonly port: number;
  };
  /** Addresses of the Egress' gateways. */
  readonly sources: readonly string[];
}

/** What is read, and how. */
export interface SiteOptions {
  readonly pageSize: number;
  /** Empty: that of coild. */
  readonly image: string;
  readonly egress: NamespacedName | undefined;
  readonly signal: AbortSignal;
}

/** Reads it. @throws {CommandError} when something that the test needs is not there */
export async function readSite(
  client: KubeClient,
  { pageSize, image, egress, signal }: SiteOptions,
): Promise<Site> {
  const nodes = await listPages(client, NODES, {
    ...LINUX,
    pageSize,
    keep: nodeOf,
    signal,
  });
  const parts = await listPages(client, PODS, {
    ...OF_COIL,
    fieldSelector: "status.phase=Running",
    pageSize,
    keep: (pod) => pod,
    signal,
  });
  const api = { namespace: "default", name: "kubernetes" };
  const { spec } = await client.get(SERVICES, { ...api, signal });
  return {
    nodes,
    image: image || await imageOfCoild(client, signal),
    coilds: containersOf(parts.filter(isCoild)),
    routers: containersOf(
      parts.filter(({ metadata }) =>
        metadata?.labels?.[APP_COMPONENT_LABEL] === "coil-router"
      ),
    ),
    apiServer: {
      addresses: addressesIn(spec?.clusterIPs ?? []),
      port: spec?.ports?.[0]?.port ?? 443,
    },
    sources: egress === undefined
      ? []
      : await sourcesOf(client, egress, signal),
  };
}

function nodeOf({ metadata, status }: V1Node): SiteNode {
  const internal = (status?.addresses ?? [])
    .filter(({ type }) => type === "InternalIP");
  return {
    name: metadata?.name ?? "",
    isReady:
      status?.conditions?.some((condition) =>
        condition.type === "Ready" && condition.status === "True"
      ) ?? false,
    addresses: addressesIn(internal.map(({ address }) => address)),
  };
}

function containersOf(pods: readonly V1Pod[]): Map<string, CoilContainer> {
  return new Map(
    pods.map((pod) => [pod.spec?.nodeName ?? "", containerOf(pod)]),
  );
}

async function imageOfCoild(
  client: KubeClient,
  signal: AbortSignal,
): Promise<string> {
  const { items } = await client.listAll(DAEMON_SETS, { ...OF_COIL, signal });
  const image = items.find(isCoild)?.spec?.template.spec?.containers[0]?.image;
  if (image !== undefined) return image;
  throw new CommandError(
    "Cannot find Coil's image: there is no DaemonSet of coild. Is Coil installed? If so, give the image: --image",
  );
}

/** The status may be a minute old: gateways that came since are found by their pods. */
async function sourcesOf(
  client: KubeClient,
  name: NamespacedName,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const egress = await client.tryGet(EGRESSES, { ...name, signal });
  const text = nameText(name);
  if (egress === undefined) {
    throw new CommandError(`Cannot test Egress "${text}": it does not exist`);
  }
  const pods = await client.listAll(PODS, {
    namespace: name.namespace,
    labelSelector: egressSelector(name.name),
    fieldSelector: LIVE_PODS,
    signal,
  });
  const sources = new Set([
    ...egress.status?.sources ?? [],
    ...pods.items.flatMap(({ status }) => status?.podIPs ?? [])
      .map(({ ip }) => ip),
  ]);
  if (sources.size > 0) return [...sources];
  throw new CommandError(
    `Cannot test Egress "${text}": it has no gateways. See: coil egress show gateways ${text}`,
  );
}
