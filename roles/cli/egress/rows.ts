import {
  type Egress,
  type EgressClientSlice,
  type EgressGatewayStatus,
  type EgressTranslation,
  gatewayLosses,
  lostToText,
  parseClientSliceName,
  suspectGateways,
} from "../../../lib/api/mod.ts";
import { isReadyPod, type V1Pod } from "../../../lib/kube/mod.ts";
import {
  APP_INSTANCE_LABEL,
  compareText,
  nameText,
} from "../../../lib/names/mod.ts";

/** A pod that uses an Egress. */
export interface ClientRow {
  /** `namespace/name` of the Egress. */
  readonly egress: string;
  /** `namespace/name` of the pod. */
  readonly pod: string;
  readonly node: string;
  readonly addresses: readonly string[];
}

/**
 * How a gateway is. `ready`: new connections go to it. `draining`: it serves
 * those that it has, and ends. `not-ready`: clients do not reach it.
 */
export type GatewayState = "ready" | "draining" | "not-ready";

export interface GatewayRow {
  readonly egress: string;
  readonly pod: string;
  readonly node: string;
  readonly addresses: readonly string[];
  readonly state: GatewayState;
  /** Other sources with which its packets leave its node. */
  readonly translated: readonly EgressTranslation[];
  /** What it reports of itself, e.g. that it runs out of connections. */
  readonly notes: readonly string[];
  /** How many nodes probe it; undefined where none does, or it cannot say. */
  readonly probedBy?: number | undefined;
  /** How many nodes get its answers, and lose a tenth of their probes or more. */
  readonly suspectTo: number;
  /** How many nodes have lost it: they get no answer, and their clients use others. */
  readonly lostTo: number;
  /** RFC 3339 time of its last loss, and connections ended then; of an hour at most, unless it is lost still. */
  readonly lostSince?: string | undefined;
  readonly endedConnections?: number | undefined;
  /** RFC 3339 time. */
  readonly since?: string | undefined;
}

/** An address that clients' packets leave from. */
export interface SourceRow {
  readonly egress: string;
  readonly address: string;
  /** With which other sources its packets leave the node; empty for none that was seen. */
  readonly seenAs: readonly string[];
  readonly gateway: string;
  readonly node: string;
  readonly state: GatewayState;
}

/** The clients in slices; in two slices for a moment, in one row. */
export function clientRows(slices: readonly EgressClientSlice[]): ClientRow[] {
  const rows = new Map<string, ClientRow>();
  for (const { metadata, clients = [] } of slices) {
    const { namespace = "", name = "" } = metadata;
    const egress = parseClientSliceName(name)?.egress;
    if (egress === undefined) continue;
    const owner = nameText({ namespace, name: egress });
    for (const client of clients) {
      rows.set(`${owner} ${client.uid}`, {
        egress: owner,
        pod: nameText(client),
        node: client.nodeName,
        addresses: client.addresses ?? [],
      });
    }
  }
  return [...rows.values()].sort(byName);
}

/** The gateways, with what each wrote into its Egress' status. */
export function gatewayRows(
  pods: readonly V1Pod[],
  egresses: readonly Egress[],
): GatewayRow[] {
  const byPod = <T extends { readonly name: string }>(
    entriesOf: (gateways: readonly EgressGatewayStatus[]) => readonly T[],
  ) =>
    new Map(
      egresses.flatMap(({ metadata: { namespace = "" }, status }) =>
        entriesOf(status?.gateways ?? []).map((entry) =>
          [nameText({ namespace, name: entry.name }), entry] as const
        )
      ),
    );
  const reports = byPod((gateways) => gateways);
  const losses = byPod(gatewayLosses);
  const suspects = byPod(suspectGateways);
  return pods.map((object): GatewayRow => {
    const { metadata, spec, status } = object;
    const { namespace = "", name = "", labels = {} } = metadata ?? {};
    const pod = nameText({ namespace, name });
    const report = reports.get(pod);
    const loss = losses.get(pod);
    const suspect = suspects.get(pod);
    const isEnding = metadata?.deletionTimestamp !== undefined ||
      report?.draining === true;
    return {
      egress: nameText({ namespace, name: labels[APP_INSTANCE_LABEL] ?? "" }),
      pod,
      node: spec?.nodeName ?? "",
      addresses: (status?.podIPs ?? []).map(({ ip }) => ip),
      state: isEnding ? "draining" : isReadyPod(object) ? "ready" : "not-ready",
      translated: report?.translated ?? [],
      notes: [
        ...report === undefined ? [] : notesOf(report),
        ...loss === undefined || loss.nodes === 0
          ? []
          : [`no answer to ${lostToText(loss)}`],
        ...suspect === undefined
          ? []
          : [`loses packets of ${lostToText(suspect)}`],
      ],
      probedBy: report?.probingNodes,
      suspectTo: suspect?.nodes ?? 0,
      lostTo: loss?.nodes ?? 0,
      ...(loss !== undefined && {
        lostSince: loss.since,
        endedConnections: loss.endedConnections,
      }),
      since: status?.startTime ?? metadata?.creationTimestamp,
    };
  }).sort(byName);
}

function notesOf(report: EgressGatewayStatus): string[] {
  const { conntrackPercent, snatPortsPercent, limitedClients = [] } = report;
  const { snatPortsDestination: to, translated = [] } = report;
  return [
    ...conntrackPercent === undefined
      ? []
      : [`${conntrackPercent}% of connections`],
    ...snatPortsPercent === undefined ? [] : [
      `${snatPortsPercent}% of source ports${
        to === undefined ? "" : ` to ${to}`
      }`,
    ],
    ...limitedClients.length === 0
      ? []
      : [`limits ${limitedClients.join(" and ")}`],
    ...report.unlimited === true ? ["cannot limit clients"] : [],
    ...translated.map(({ seenAs }) => `leaves its node as ${seenAs}`),
  ];
}

/** The addresses of gateways that packets can leave from. */
export function sourceRows(gateways: readonly GatewayRow[]): SourceRow[] {
  return gateways.filter(({ state }) => state !== "not-ready")
    .flatMap(({ egress, pod, node, addresses, state, translated }) =>
      addresses.map((address) => ({
        egress,
        address,
        seenAs: translated.filter((each) => each.address === address)
          .map(({ seenAs }) => seenAs),
        gateway: pod,
        node,
        state,
      }))
    );
}

/** Rows of one Egress, or of those that a pod uses. */
export function selectRows<Row extends { readonly egress: string }>(
  rows: readonly Row[],
  { egress, used }: {
    readonly egress: string | undefined;
    readonly used: ReadonlySet<string> | undefined;
  },
): Row[] {
  return rows.filter((row) =>
    (egress === undefined || row.egress === egress) &&
    (used === undefined || used.has(row.egress))
  );
}

function byName(
  a: { readonly egress: string; readonly pod: string },
  b: { readonly egress: string; readonly pod: string },
): number {
  return compareText(a.egress, b.egress) || compareText(a.pod, b.pod);
}
