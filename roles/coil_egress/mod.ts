/**
 * coil-egress, the gateway of an Egress: it lets the Egress' clients, and no
 * other pods, reach outside networks with its address.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { Gate, TaskGroup, untilAborted } from "../../lib/async/mod.ts";
import { FAMILIES, valuesOf } from "../../lib/inet/mod.ts";
import { KubeClient, KubeMetrics } from "../../lib/kube/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import { announceAudience, VERSION } from "../../lib/names/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  type Registry,
  runDaemon,
} from "../../lib/telemetry/mod.ts";
import { Admission } from "./admission/admission.ts";
import { ControllerLease } from "./admission/controller_lease.ts";
import { AnnouncedClients } from "./clients/announced_clients.ts";
import { noteChange, reportShared } from "./clients/client_changes.ts";
import { ClientSet } from "./clients/client_set.ts";
import { ClientWatcher } from "./clients/client_watcher.ts";
import { openDataPlane } from "./data_plane.ts";
import { type EgressOptions, parseEgressFlags } from "./flags.ts";
import {
  gatewayReport,
  GatewayStatusWriter,
} from "./observe/gateway_status.ts";
import { type GatewayIdentity, readIdentity } from "./base/identity.ts";
import { KernelSync } from "./kernel/kernel_sync.ts";
import { observeLimits } from "./observe/limit_metrics.ts";
import { LimitedClients } from "./observe/limited_clients.ts";
import { watchPlane } from "./kernel/plane_watch.ts";
import { Lifecycle } from "./lifecycle/lifecycle.ts";
import { EgressMetrics } from "./observe/metrics.ts";
import { NodeBlocks } from "./admission/node_blocks.ts";
import type { DataPlane } from "./base/ports.ts";
import { observeReadings } from "./observe/reading_metrics.ts";
import { Readings } from "./observe/readings.ts";
import { ReportedLosses } from "./observe/reported_losses.ts";
import { TranslatedSources } from "./observe/translated_sources.ts";
import { serve } from "./servers.ts";
import { TokenReviews } from "./admission/token_reviews.ts";

export { parseEgressFlags } from "./flags.ts";
export type { DataPlane } from "./base/ports.ts";

const log = getLogger("setup");

/** How long a stop may take, besides draining. */
const GRACE_MS = 10_000;

/** Announced addresses that no status confirms within this time are out again. */
const CONFIRM_MS = 120_000;

/** Runs coil-egress until a signal stops it and it has drained. */
export async function main(
  args: readonly string[],
  { program }: { readonly program: string },
): Promise<void> {
  const options = parseEgressFlags(args, {
    program,
    version: VERSION,
    about: "Gateway of an Egress: NAT for the pods that are its clients.",
  });
  configureLogging(options.logging);
  await runDaemon(program, (signal) => run(options, signal), {
    graceMs: options.drainTimeoutMs + GRACE_MS,
  });
}

async function run(options: EgressOptions, signal: AbortSignal): Promise<void> {
  if (options.backend !== "nftables") {
    log.warn("Using nftables, the only supported packet filter", {
      backend: options.backend,
    });
  }
  const identity = readIdentity(Deno.env);
  using kernel = await openDataPlane(identity, options);
  const registry = createRegistry();
  using client = await KubeClient.load({
    userAgent: `coil-egress/${VERSION}`,
    onRequest: new KubeMetrics(registry).onRequest,
  });
  await runGateway(
    { options, identity, kernel, client, registry },
    signal,
  );
}

export interface GatewayDependencies {
  readonly options: EgressOptions;
  readonly identity: GatewayIdentity;
  /** The kernel's half, ready for clients. */
  readonly kernel: DataPlane;
  readonly client: KubeClient;
  readonly registry: Registry;
  /** How long an announced address waits for its confirmation. Default 2 min. */
  readonly confirmMs?: number;
  /** How long the clients of a slice stay that was deleted with them. Default 30 s. */
  readonly lostMs?: number;
  /** The least time between two writes of the status. Default 10 s. */
  readonly statusIntervalMs?: number;
  /** How long it drains at least. Default 5 s. */
  readonly leastDrainMs?: number;
  /** Replaced in tests. */
  readonly heap?: Pick<HeapKeeper, "run">;
}

/** Runs the gateway until the signal aborts and it has drained. */
export async function runGateway(
  parts: GatewayDependencies,
  signal: AbortSignal,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const gateway = connect(parts, stack);
  const { watcher, sync, readings, status, limited } = gateway;
  const { lifecycle } = gateway;
  // The tasks go on after the signal, until the gateway has drained.
  await using tasks = new TaskGroup();
  serve(gateway, tasks);
  const { heap = new HeapKeeper() } = parts;
  tasks.run("memory", (s) => heap.run(s));
  const listed = new Gate();
  tasks.run("clients", (s) => watcher.run(s, () => listed.open()));
  tasks.run("kernel", async (s) => {
    await listed.wait({ signal: s });
    await sync.run(s);
  });
  const { upkeep } = parts.kernel;
  if (upkeep !== undefined) {
    tasks.run("upkeep", async (signal) => {
      await listed.wait({ signal });
      await watchPlane({
        sync,
        upkeep,
        signal,
        onRepair: () => gateway.metrics.repaired(),
      });
    });
  }
  tasks.run("readings", (s) =>
    readings.run(s, () => {
      limited.report();
      status.trigger();
    }));
  tasks.run("status", (s) => status.run(s));
  tasks.run("end", async (s) => {
    await untilAborted(AbortSignal.any([signal, s]));
    await lifecycle.end(s, gateway.ending);
    if (lifecycle.isDraining) await status.writeLast({ signal: s });
    tasks.abort();
  });
  const { namespace, egress, pod } = parts.identity;
  log.info("Started", { egress: `${namespace}/${egress}`, pod });
  await tasks.wait();
}

function connect(parts: GatewayDependencies, stack: AsyncDisposableStack) {
  const { options, identity, client, registry } = parts;
  const user = options.announceUser;
  const onChange = () => reports.status.trigger();
  const metrics = new EgressMetrics(registry);
  const controller = new ControllerLease(client, {
    namespace: options.leaseNamespace,
  });
  const clients = connectClients(parts, {
    metrics,
    controller,
    stack,
    onChange,
  });
  const { watcher, sync, announced } = clients;
  const lifecycle = new Lifecycle(sync);
  const losses = stack.use(
    new ReportedLosses({ egress: watcher.egress, user, onChange }),
  );
  const translated = new TranslatedSources({ identity, user, onChange });
  const reports = connectReports(parts, {
    metrics,
    lifecycle,
    losses,
    translated,
    ...clients,
  });
  const { readings, status, limited } = reports;
  const admission = new Admission({
    egress: watcher.egress,
    user,
    ownAddresses: valuesOf(identity.addresses),
    clients: watcher,
    controller,
    blocks: new NodeBlocks(client),
    announced,
    sync,
    closedBecause: () => lifecycle.closedBecause,
  });
  return {
    options,
    registry,
    metrics,
    watcher,
    sync,
    readings,
    status,
    limited,
    lifecycle,
    losses,
    translated,
    ending: endingOf(parts, reports),
    admission,
    reviews: new TokenReviews(client, {
      audience: announceAudience(watcher.egress),
      user,
    }),
  };
}

/** How the gateway ends: when its clients' connections have, or its time is over. */
function endingOf(
  { client, identity, options, leastDrainMs }: GatewayDependencies,
  { readings, status }: Pick<
    ReturnType<typeof connectReports>,
    "readings" | "status"
  >,
) {
  return {
    ownPod: { client, identity },
    timeoutMs: options.drainTimeoutMs,
    leastMs: leastDrainMs,
    countFlows: async () => {
      await readings.readFlows();
      status.trigger();
      return readings.flows?.established;
    },
    onDraining: () => status.trigger({ urgent: true }),
  };
}

/** What decides who is a client, from the API to the kernel. */
function connectClients(
  { identity, kernel, client, lostMs, confirmMs = CONFIRM_MS }:
    GatewayDependencies,
  { metrics, controller, stack, onChange }: {
    readonly metrics: EgressMetrics;
    readonly controller: ControllerLease;
    readonly stack: AsyncDisposableStack;
    readonly onChange: () => void;
  },
) {
  const clients = new ClientSet({
    families: FAMILIES.filter((f) => identity.addresses[f] !== undefined),
    onShared: (shared) => reportShared(shared, watcher.pods.values()),
  });
  const onExpired = () => sync.trigger();
  const announced = stack.use(
    new AnnouncedClients({
      clients,
      confirmMs,
      isConfirmerAway: () => controller.isAway(),
      onExpired,
    }),
  );
  const sync = new KernelSync({
    kernel,
    wanted: () => clients.addresses(),
    onSync: (result) => metrics.synced(result),
  });
  const watcher = stack.use(
    new ClientWatcher({
      client,
      egress: { namespace: identity.namespace, name: identity.egress },
      lostMs,
      onChange: (change) => {
        noteChange(change, { clients, announced });
        sync.trigger();
        onChange();
      },
    }),
  );
  return { clients, announced, sync, watcher };
}

/** What the gateway reports of itself. */
function connectReports(
  { identity, kernel, client, registry, statusIntervalMs }: GatewayDependencies,
  { metrics, lifecycle, losses, translated, clients, announced, ...rest }:
    & {
      readonly metrics: EgressMetrics;
      readonly lifecycle: Lifecycle;
      readonly losses: ReportedLosses;
      readonly translated: TranslatedSources;
    }
    & ReturnType<typeof connectClients>,
) {
  const { sync, watcher } = rest;
  const readings = new Readings({
    kernel,
    onFailure: (name) => metrics.readingFailed(name),
  });
  const pods = () => watcher.pods.values();
  const limited = new LimitedClients({ kernel, readings, pods });
  const report = () =>
    gatewayReport({
      draining: lifecycle.isDraining,
      limited,
      losses,
      translated,
      readings,
    });
  const status = new GatewayStatusWriter({
    client,
    identity,
    report: () => sync.hasSynced ? report() : undefined,
    intervalMs: statusIntervalMs,
  });
  metrics.observe({
    identity,
    pods,
    announcedCount: () => announced.size,
    sharedCount: () => clients.sharedCount,
  });
  observeReadings(registry, {
    identity,
    readings,
    drainingFlows: () =>
      lifecycle.isDraining ? readings.flows?.established : undefined,
  });
  observeLimits(registry, { identity, kernel, readings, pods });
  return { readings, status, limited };
}
