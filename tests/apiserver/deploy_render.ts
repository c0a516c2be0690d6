// What kustomize and helm make of deploy/, as objects to compare.
import * as path from "node:path";
import { parseAllDocuments } from "yaml";
import { ensureHelm } from "../lab/helm.ts";
import { binDir, ensureControlPlane, run } from "../lab/mod.ts";

/** Directory of the manifests. */
export const DEPLOY: string = new URL("../../deploy/", import.meta.url)
  .pathname;

/** Names of the overlays. */
export const OVERLAYS = [
  "default",
  "ipam",
  "egress-only",
  "router",
  "coordinator",
  "coordinator-only",
  "vpc",
  "compat",
] as const;

/** A container of a workload, as far as tests look. */
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly securityContext: {
    readonly privileged?: boolean;
    readonly allowPrivilegeEscalation?: boolean;
    readonly readOnlyRootFilesystem?: boolean;
    readonly runAsUser?: number;
    readonly capabilities: {
      readonly add?: readonly string[];
      readonly drop: readonly string[];
    };
  };
  readonly ports?: readonly {
    readonly name: string;
    readonly containerPort: number;
  }[];
  readonly readinessProbe?: {
    readonly httpGet: { readonly path: string; readonly host?: string };
  };
  readonly livenessProbe?: {
    readonly httpGet: { readonly path: string; readonly host?: string };
  };
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
  }[];
  readonly resources?: { readonly limits?: { readonly memory?: string } };
}

/** Any object of the manifests. */
export interface Manifest {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Record<string, string>;
    readonly annotations?: Record<string, string>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly template?: {
      readonly metadata: {
        readonly labels?: Record<string, string>;
        readonly annotations?: Record<string, string>;
      };
      readonly spec: {
        readonly securityContext?: { readonly seccompProfile?: unknown };
        readonly initContainers?: readonly Container[];
        readonly containers: readonly Container[];
      };
    };
  };
}

/** Objects by kind and name. */
export type Rendered = ReadonlyMap<string, Manifest>;

/** The text that `kubectl kustomize` makes of a directory below deploy/. */
export async function kustomize(directory: string): Promise<string> {
  await ensureControlPlane();
  const kubectl = path.join(binDir(), "kubectl");
  return await run(kubectl, ["kustomize", `${DEPLOY}${directory}`]);
}

/** The text that `helm template` makes of the chart. */
export async function helmTemplate(
  args: readonly string[] = [],
): Promise<string> {
  const chart = `${DEPLOY}chart`;
  return await run(await ensureHelm(), [
    ...["template", "coil", chart, "--namespace", "kube-system", ...args],
  ]);
}

/** Parses a stream of objects. */
export function parseManifests(text: string): Rendered {
  const objects = parseAllDocuments(text).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    const object = document.toJS() as Manifest | null;
    return object === null ? [] : [object];
  });
  return new Map(objects.map((o) => [`${o.kind}/${o.metadata.name}`, o]));
}

/** What a chart adds to every object. */
const CHART_LABELS = [
  "helm.sh/chart",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/version",
];

/** The objects of a chart without what only charts have. */
export function withoutChartMarks(rendered: Rendered): Rendered {
  const strip = (
    record: Record<string, string> | undefined,
    keys: readonly string[],
  ) => {
    for (const key of keys) delete record?.[key];
  };
  for (const { metadata, spec } of rendered.values()) {
    strip(metadata.labels, CHART_LABELS);
    strip(metadata.annotations, ["helm.sh/resource-policy"]);
    strip(spec?.template?.metadata.annotations, ["checksum/config"]);
    for (const key of ["labels", "annotations"] as const) {
      if (Object.keys(metadata[key] ?? { any: "" }).length > 0) continue;
      delete (metadata as { labels?: unknown; annotations?: unknown })[key];
    }
  }
  return rendered;
}

/** The containers of all workloads, with the name of the workload. */
export function containersOf(
  rendered: Rendered,
): { readonly workload: string; readonly container: Container }[] {
  return [...rendered].flatMap(([workload, { spec }]) => {
    const pod = spec?.template?.spec;
    if (pod === undefined) return [];
    return [...pod.initContainers ?? [], ...pod.containers].map((
      container,
    ) => ({ workload, container }));
  });
}
