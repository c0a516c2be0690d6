import {
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  BLOCK_REQUESTS,
  EGRESSES,
  parseEgressAnnotations,
  poolNamesOf,
} from "../../../lib/api/mod.ts";
import {
  LIVE_PODS,
  NAMESPACES,
  NODES,
  PODS,
  type V1Namespace,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { nameText, POOL_ANNOTATION } from "../../../lib/names/mod.ts";
import type { Looker } from "../base/looker.ts";
import { addressesOf, transformBlock } from "../ipam/cluster_reader.ts";
import type { Books, Reference } from "../ipam/findings.ts";

/** Reads all that is compared. Pods first: a block that a pod has an address of is older than its address. */
export async function readBooks(looker: Looker): Promise<Books> {
  const pods = await looker.list(PODS, podFacts, {
    fieldSelector: LIVE_PODS,
  });
  const namespaces = await looker.list(NAMESPACES, poolReferencesOf);
  return {
    pods: pods?.flatMap(({ addresses }) => addresses ?? []),
    egressNames: pods?.flatMap(({ egresses }) => egresses),
    poolNames: namespaces?.flat(),
    blocks: await looker.list(ADDRESS_BLOCKS, transformBlock),
    pools: await looker.list(ADDRESS_POOLS, (pool) => pool),
    requests: await looker.list(BLOCK_REQUESTS, (request) => request),
    nodes: await looker.list(NODES, ({ metadata }) => metadata?.name ?? ""),
    egresses: await looker.list(EGRESSES, ({ metadata }) => ({
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
    })),
  };
}

interface PodFacts {
  readonly addresses: ReturnType<typeof addressesOf>;
  readonly egresses: readonly Reference[];
}

function podFacts(pod: V1Pod): PodFacts {
  // The address of a pod that ends may be free already, or have another pod.
  const isEnding = pod.metadata?.deletionTimestamp !== undefined;
  const addresses = isEnding ? undefined : addressesOf(pod);
  return { addresses, egresses: isEnding ? [] : egressNamesOf(pod) };
}

function egressNamesOf({ metadata }: V1Pod): Reference[] {
  const { namespace = "", name = "", annotations = {} } = metadata ?? {};
  const from = `Pod ${namespace}/${name}`;
  const next = `kubectl -n ${namespace} describe pod ${name}`;
  return parseEgressAnnotations(annotations).flatMap((references) =>
    references.names.map((egress) => ({
      from,
      next,
      to: nameText({ namespace: references.namespace, name: egress }),
    }))
  );
}

function poolReferencesOf({ metadata }: V1Namespace): Reference[] {
  const { name = "", annotations } = metadata ?? {};
  const annotation = annotations?.[POOL_ANNOTATION];
  if (annotation === undefined) return [];
  const from = `Namespace ${name}`;
  const next = `kubectl describe namespace ${name}`;
  return poolNamesOf(annotation).map((to) => ({ from, next, to }));
}
