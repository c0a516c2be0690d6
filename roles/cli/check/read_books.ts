import type { Books, Reference } from "../../../lib/ipam/audit/mod.ts";
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
  POD_HEADS,
  PODS,
  type V1Namespace,
  type V1Pod,
} from "../../../lib/kube/mod.ts";
import { nameText, POOL_ANNOTATION } from "../../../lib/names/mod.ts";
import { settled } from "../../../lib/async/mod.ts";
import type { Looker } from "../base/looker.ts";
import { addressesOf, transformBlock } from "../ipam/cluster_reader.ts";

/**
 * Reads all that is compared. While one page is read here the API server writes
 * another: pods and blocks at the same time, each as it was when its list began.
 */
export async function readBooks(looker: Looker): Promise<Books> {
  const [pods, others] = await settled([
    looker.list(PODS, podFacts, {
      fieldSelector: LIVE_PODS,
      format: POD_HEADS,
    }),
    readOthers(looker),
  ]);
  const { namespaces, ...books } = others;
  return {
    ...books,
    pods: pods?.flatMap(({ addresses }) => addresses ?? []),
    egressNames: [...pods ?? [], ...namespaces ?? []]
      .flatMap(({ egresses }) => egresses),
    poolNames: namespaces?.flatMap(({ pools }) => pools),
  };
}

async function readOthers(looker: Looker) {
  const metadataOnly = true;
  return {
    namespaces: await looker.list(NAMESPACES, (namespace) => ({
      pools: poolReferencesOf(namespace),
      egresses: defaultEgressesOf(namespace),
    }), { metadataOnly }),
    blocks: await looker.list(ADDRESS_BLOCKS, transformBlock),
    pools: await looker.list(ADDRESS_POOLS, (pool) => pool),
    requests: await looker.list(BLOCK_REQUESTS, (request) => request),
    nodes: await looker.list(NODES, ({ metadata }) => metadata?.name ?? "", {
      metadataOnly,
    }),
    egresses: await looker.list(EGRESSES, ({ metadata }) => ({
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
    }), { metadataOnly }),
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
  const { namespace = "", name = "", annotations } = metadata ?? {};
  const next = `kubectl -n ${namespace} describe pod ${name}`;
  return egressesIn(annotations).map((to) => ({
    from: `Pod ${namespace}/${name}`,
    next,
    to,
  }));
}

/** Also names that no Egress can have. */
function egressesIn(annotations: Parameters<typeof parseEgressAnnotations>[0]) {
  return parseEgressAnnotations(annotations).flatMap(({ namespace, names }) =>
    names.map((name) => nameText({ namespace, name }))
  );
}

function defaultEgressesOf({ metadata }: V1Namespace): Reference[] {
  return egressesIn(metadata?.annotations)
    .map((to) => ({ ...fromNamespace(metadata?.name), to }));
}

function poolReferencesOf({ metadata }: V1Namespace): Reference[] {
  const { name, annotations } = metadata ?? {};
  const annotation = annotations?.[POOL_ANNOTATION];
  if (annotation === undefined) return [];
  return poolNamesOf(annotation)
    .map((to) => ({ ...fromNamespace(name), to }));
}

function fromNamespace(name = ""): Pick<Reference, "from" | "next"> {
  return {
    from: `Namespace ${name}`,
    next: `kubectl describe namespace ${name}`,
  };
}
