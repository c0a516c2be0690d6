import type { V1Namespace } from "../../../lib/kube/mod.ts";
import { DEFAULT_POOL, POOL_ANNOTATION } from "../../../lib/names/mod.ts";
import type { Finding } from "./finding.ts";

/** What kubectl's client-side apply remembers of the object it applied last. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** A Namespace as the manifest has it: what is to be set, and nothing that kubectl would take away. */
export interface NamespacePatch {
  readonly apiVersion: "v1";
  readonly kind: "Namespace";
  readonly metadata: {
    readonly name: string;
    readonly annotations: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
}

/** In v1 a pool belongs to the namespace of its name; in v2 an annotation says so. */
export function convertNamespaces(
  pools: readonly string[],
  namespaces: readonly V1Namespace[],
): { namespaces: NamespacePatch[]; findings: Finding[] } {
  const byName = new Map(namespaces.map((n) => [n.metadata?.name ?? "", n]));
  const patches: NamespacePatch[] = [];
  const findings: Finding[] = [];
  for (const pool of pools) {
    if (pool === DEFAULT_POOL) continue;
    const namespace = byName.get(pool);
    const present = namespace?.metadata?.annotations?.[POOL_ANNOTATION];
    if (namespace === undefined) {
      findings.push({
        kind: "pool-without-namespace",
        severity: "note",
        subject: `pool ${pool}`,
        message:
          `a namespace of its name does not exist; annotate the namespaces that use it with ${POOL_ANNOTATION}=${pool}`,
      });
    } else if (present !== undefined && present !== pool) {
      findings.push({
        kind: "pool-annotation-differs",
        severity: "warning",
        subject: `namespace ${pool}`,
        message:
          `it keeps its annotation for pool ${present}; in v1 it uses pool ${pool}`,
      });
    } else patches.push(patchOf(namespace, pool));
  }
  return { namespaces: patches, findings };
}

/**
 * `kubectl apply` without `--server-side` removes labels and annotations that it applied before and that are missing
 * now. So they are in the manifest as well.
 */
function patchOf(namespace: V1Namespace, pool: string): NamespacePatch {
  const { labels = {}, annotations = {} } = namespace.metadata ?? {};
  const applied = lastApplied(annotations[LAST_APPLIED]);
  const kept = {
    annotations: pick(annotations, applied.annotations),
    labels: pick(labels, applied.labels),
  };
  const hasLabels = Object.keys(kept.labels).length > 0;
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name: pool,
      annotations: sorted({ ...kept.annotations, [POOL_ANNOTATION]: pool }),
      ...(hasLabels ? { labels: sorted(kept.labels) } : {}),
    },
  };
}

interface Applied {
  readonly labels: readonly string[];
  readonly annotations: readonly string[];
}

function lastApplied(text: string | undefined): Applied {
  const none = { labels: [], annotations: [] };
  if (text === undefined) return none;
  try {
    const { metadata } = JSON.parse(text);
    return {
      labels: Object.keys(metadata?.labels ?? {}),
      annotations: Object.keys(metadata?.annotations ?? {}),
    };
  } catch (error) {
    // Then kubectl cannot compare with it either.
    if (error instanceof SyntaxError) return none;
    throw error;
  }
}

function pick(
  all: Readonly<Record<string, string>>,
  keys: readonly string[],
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(all).filter(([key]) => keys.includes(key)),
  );
}

function sorted(
  record: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1),
  );
}
