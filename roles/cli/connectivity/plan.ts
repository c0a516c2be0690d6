import { PROBE_PORT, type Question } from "../../../lib/connectivity/mod.ts";
import { type Address, FAMILIES, type Family } from "../../../lib/inet/mod.ts";

/** Nodes that are tested unless all are asked for: the number of probes grows with its square. */
export const MAX_NODES = 20;

/** Purpose of a pod: target of all others; target of its node's pods and of a host port; client of the Egress. */
export type PodKind = "probe" | "host-port" | "egress";

/** A pod of the test with its network. */
export interface TestPod {
  readonly name: string;
  readonly kind: PodKind;
  readonly node: string;
  readonly addresses: readonly Address[];
}

/** What is tested, in the order of the report. */
export const CHECKS = [
  "pod",
  "large",
  "service",
  "host-port",
  "api-server",
  "egress",
] as const;

export type Check = typeof CHECKS[number];

/** One question of one pod. */
export interface Probe {
  readonly check: Check;
  readonly from: TestPod;
  /** The pod that is asked directly. */
  readonly to?: TestPod | undefined;
  /** Absent for a URL, whose server has any address. */
  readonly family?: Family | undefined;
  readonly question: Question;
  /** The addresses that the other end may see, if that matters. */
  readonly sources?: readonly string[] | undefined;
}

/** Targets of the pods, besides each other. */
export interface Targets {
  /** Of the Service that has the pods. */
  readonly service: readonly Address[];
  readonly apiServer: { readonly addresses: readonly Address[]; port: number };
  /** The node's addresses, and the port that leads to the pod. */
  readonly hostPort:
    | { readonly addresses: readonly Address[]; readonly port: number }
    | undefined;
  readonly egress:
    | { readonly url: string; readonly sources: readonly string[] }
    | undefined;
}

export const SERVICE_PORT = 80;

/** The nodes that are tested: the same ones for the same names, evenly spread over them. */
export function sampleNodes(
  names: readonly string[],
  { max }: { readonly max: number },
): string[] {
  const sorted = [...names].sort();
  if (sorted.length <= max) return sorted;
  const step = sorted.length / max;
  return Array.from({ length: max }, (_, i) => sorted[Math.floor(i * step)])
    .filter((name) => name !== undefined);
}

/** All questions of all pods. */
export function planProbes(
  pods: readonly TestPod[],
  targets: Targets,
): Probe[] {
  return pods.flatMap((from) =>
    from.kind === "egress" ? egressProbes(from, targets) : [
      ...pods.flatMap((to) => pairProbes(from, to)),
      ...others(from, pods, targets),
    ]
  );
}

/** Every probe asks every other one, and the other pods of its node. */
function pairProbes(from: TestPod, to: TestPod): Probe[] {
  const isPair = from !== to && to.kind !== "egress" &&
    (from.node === to.node || from.kind === to.kind);
  if (!isPair) return [];
  return FAMILIES.flatMap((family) => {
    const [address, source] = [to, from].map((pod) => addressOf(pod, family));
    if (address === undefined || source === undefined) return [];
    return [false, true].flatMap((isLarge) =>
      (["tcp", "udp"] as const).map((kind): Probe => ({
        check: isLarge ? "large" : "pod",
        from,
        to,
        family,
        question: { kind, address, port: PROBE_PORT, isLarge },
        sources: [source],
      }))
    );
  });
}

function others(
  from: TestPod,
  pods: readonly TestPod[],
  { service, apiServer, hostPort }: Targets,
): Probe[] {
  if (from.kind !== "probe") return [];
  const published = pods.find(({ kind }) => kind === "host-port");
  const probes = pods.filter(({ kind }) => kind === "probe");
  const isAlone = probes.length === 1;
  const asks = (
    check: Check,
    addresses: readonly Address[],
    question: (address: string) => Question,
  ) =>
    addresses.filter(({ family }) => addressOf(from, family) !== undefined)
      .map((address): Probe => ({
        check,
        from,
        family: address.family,
        question: question(`${address}`),
      }));
  return [
    ...asks("service", service, (address) => (
      { kind: "tcp", address, port: SERVICE_PORT, isLarge: false }
    )),
    ...hostPort !== undefined && published !== undefined &&
        (isAlone || published.node !== from.node)
      ? asks("host-port", hostPort.addresses, (address) => (
        { kind: "tcp", address, port: hostPort.port, isLarge: false }
      ))
      : [],
    ...asks("api-server", apiServer.addresses, (address) => (
      { kind: "connect", address, port: apiServer.port }
    )),
  ];
}

function egressProbes(from: TestPod, { egress }: Targets): Probe[] {
  if (egress === undefined) return [];
  const { url, sources } = egress;
  return [{ check: "egress", from, question: { kind: "get", url }, sources }];
}

/** A pod's address of a family, as text. */
export function addressOf(
  { addresses }: TestPod,
  family: Family,
): string | undefined {
  return addresses.find((address) => address.family === family)?.toString();
}
