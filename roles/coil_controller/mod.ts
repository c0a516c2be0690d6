/**
 * coil-controller: gives nodes blocks of address pools, takes back those of
 * nodes that are gone, keeps the pools' status, runs the gateways of
 * Egresses, fills the status of SpiderCoordinators, and deletes ENIs of EC2 that
 * deleted nodes have left. Each part has a leader of its own.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { TaskGroup } from "../../lib/async/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import {
  EventRecorder,
  KubeClient,
  KubeMetrics,
  LeaderElector,
  metricsRefusal,
} from "../../lib/kube/mod.ts";
import {
  CONTAINER_NAME_ENV,
  COORDINATOR_LEASE,
  EGRESS_LEASE,
  IPAM_LEASE,
  POD_NAME_ENV,
  POD_NAMESPACE_ENV,
  SYSTEM_NAMESPACE,
  VERSION,
  VPC_SWEEP_LEASE,
} from "../../lib/names/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  type Registry,
  runDaemon,
  serveMonitoring,
} from "../../lib/telemetry/mod.ts";
import { openCoordinator } from "./coordinator_part.ts";
import { type EgressPartOptions, openEgress } from "./egress_part.ts";
import { FIELD_MANAGER } from "./gateway/takeover.ts";
import { type ControllerOptions, parseControllerFlags } from "./flags.ts";
import { openIpam } from "./ipam_part.ts";
import { IpamMetrics } from "./ipam/metrics.ts";
import { openPods } from "./pods_part.ts";

export { CONTROLLER_FLAGS, parseControllerFlags } from "./flags.ts";

const log = getLogger("setup");

/** Upstream's time for a graceful stop. */
const GRACE_MS = 20_000;

/** While 150,000 pods are read for the first time: the start needs 45 MiB of the executable's pages, the reading some 25. */
const FILE_BYTES = 32 * 1024 * 1024;

/** One keeper for both halves: with so much garbage it holds as little as two did that each collected at 12 MiB. */
const BUSY_BYTES = 8 * 1024 * 1024;

const ABOUT =
  "Manages Coil's address pools, blocks and block requests, egress gateways, and the status of SpiderCoordinator; deletes ENIs of deleted nodes.";

/** Runs the controller until a signal stops it; the process ends with it. */
// mutate: it ends the process, so only slower suites run it.
export async function main(
  args: readonly string[],
  { program }: { readonly program: string },
): Promise<void> {
  const info = { program, version: VERSION, about: ABOUT };
  const options = parseControllerFlags(args, info);
  configureLogging(options.logging);
  await runDaemon(program, (signal) => runController(options, signal), {
    graceMs: GRACE_MS,
  });
}

/** Options for tests. */
export interface RunOptions {
  /** Path. Default: as kubectl finds the API server. */
  readonly kubeconfig?: string;
  /** See {@linkcode EgressPartOptions.statusIntervalMs}. */
  readonly statusIntervalMs?: number;
  /** How often the cluster's networks are looked up. */
  readonly networksIntervalMs?: number;
  /** For how long an ENI must have had no instance. */
  readonly sweepAfterMs?: number;
  /** Where EC2 and its keys are. Default: this process' environment. */
  readonly env?: Pick<Deno.Env, "get">;
}

/** Runs the controller until the signal aborts. */
export async function runController(
  options: ControllerOptions & RunOptions,
  signal: AbortSignal,
): Promise<void> {
  checkParts(options);
  for (const [flag, reason] of Object.entries(options.ignored)) {
    log.warn("Ignoring a flag without effect", { flag, reason });
  }
  if (options.enableEgress && options.backend === "iptables") {
    log.warn("Ignoring --backend: gateways use nftables");
  }
  const registry = createRegistry();
  const kubeMetrics = new KubeMetrics(registry);
  using client = await KubeClient.load({
    kubeconfig: options.kubeconfig,
    userAgent: `coil-controller/${VERSION}`,
    fieldManager: FIELD_MANAGER,
    onRequest: kubeMetrics.onRequest,
  });
  const events = new EventRecorder(client, { component: "coil-controller" });
  await using group = new TaskGroup({ signal });
  group.runAll(serveMonitoring({
    ...options,
    registry,
    refusal: options.metricsAuth ? metricsRefusal(client) : undefined,
    readyz: { ping: () => true },
    signal: group.signal,
  }));
  group.run("events", (s) => events.run(s));
  await startParts(group, {
    client,
    events,
    kubeMetrics,
    registry,
    ...options,
  });
  await group.wait();
}

/** Each part works while this process holds its lease, with caches that it has all the time: one may lead some, all or none. */
async function startParts(
  group: TaskGroup,
  options: ControllerOptions & RunOptions & {
    readonly client: KubeClient;
    readonly events: EventRecorder;
    readonly kubeMetrics: KubeMetrics;
    readonly registry: Registry;
  },
): Promise<void> {
  const { client, kubeMetrics, leaseNamespace: namespace } = options;
  const lead = (name: string, work: (leading: AbortSignal) => Promise<void>) =>
    group.run(name, (signal) =>
      new LeaderElector(client, {
        namespace,
        name,
        identity: `${Deno.hostname()}_${crypto.randomUUID()}`,
        metrics: kubeMetrics,
      }).run(signal, work));
  if (options.enableIpam || options.enableEgress) {
    const heap = new HeapKeeper({
      busyBytes: BUSY_BYTES,
      busyFileBytes: FILE_BYTES,
    });
    // mutate: it gives memory back; tests/bench measures how much is held.
    group.run("heap keeper", (s) => heap.run(s));
    const pods = openPods(client, group, {
      heap,
      everyAddress: options.enableIpam,
      namespaceEgress: options.namespaceEgress,
      kubeMetrics,
    });
    if (options.enableIpam) {
      const metrics = new IpamMetrics(options.registry);
      lead(IPAM_LEASE, openIpam({ ...options, metrics, pods, heap }, group));
    }
    if (options.enableEgress) {
      const egress = { ...options, ...egressOptions(options), pods, heap };
      lead(EGRESS_LEASE, openEgress(egress, group));
    }
  }
  if (options.enableCoordinator) {
    lead(COORDINATOR_LEASE, openCoordinator(options, group));
  }
  const { vpcSweepCluster: cluster } = options;
  if (cluster !== "") {
    const { openVpcSweep } = await import("./vpc_part.ts");
    const { env = Deno.env } = options;
    lead(VPC_SWEEP_LEASE, openVpcSweep({ ...options, cluster, env }));
  }
}

function checkParts(
  { enableIpam, enableEgress, enableCoordinator, vpcSweepCluster }:
    ControllerOptions,
): void {
  if (enableIpam || enableEgress || enableCoordinator) return;
  if (vpcSweepCluster !== "") return;
  throw new Error(
    "Cannot start: --enable-ipam, --enable-egress and --enable-coordinator are all false, so there is nothing to do",
  );
}

function egressOptions(
  options: ControllerOptions,
): Pick<EgressPartOptions, "settings" | "image"> {
  const { egressPort: port, backend, drainTimeoutMs } = options;
  const { egressImage, leaseNamespace } = options;
  const namespace = Deno.env.get(POD_NAMESPACE_ENV);
  return {
    settings: {
      port,
      backend,
      drainTimeoutMs,
      systemNamespace: namespace || SYSTEM_NAMESPACE,
      leaseNamespace,
    },
    image: {
      image: egressImage,
      pod: {
        namespace,
        name: Deno.env.get(POD_NAME_ENV),
        container: Deno.env.get(CONTAINER_NAME_ENV),
      },
    },
  };
}
