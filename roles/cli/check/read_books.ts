import type { Books } from "../../../lib/ipam/audit/mod.ts";
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
    namespaces: await looker.list(NAMESPACES, namespaceFacts, { metadataOnly }),
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

function podFacts(pod: V1Pod) {
  const { namespace = "", name = "", annotations, deletionTimestamp } =
    pod.metadata ?? {};
  // The address of a pod that ends may be free already, or have another pod.
  if (deletionTimestamp !== undefined) {
    return { addresses: undefined, egresses: [] };
  }
  const from = `Pod ${namespace}/${name}`;
  const next = `kubectl -n ${namespace} describe pod ${name}`;
  return {
    addresses: addressesOf(pod),
    egresses: egressesIn(annotations).map((to) => ({ from, next, to })),
  };
}

/** Also names that no Egress can have. */
function egressesIn(annotations: Parameters<typeof parseEgressAnnotations>[0]) {
  return parseEgressAnnotations(annotations).flatMap(({ namespace, names }) =>
    names.map((name) => nameText({ namespace, name }))
  );
}

function namespaceFacts({ metadata }: V1Namespace) {
  const { name = "", annotations } = metadata ?? {};
  const from = `Namespace ${name}`;
  const next = `kubectl describe namespace ${name}`;
  const pools = annotations?.[POOL_ANNOTATION];
  return {
    pools: (pools === undefined ? [] : poolNamesOf(pools))
      .map((to) => ({ from, next, to })),
    egresses: egressesIn(annotations).map((to) => ({ from, next, to })),
  };
}
