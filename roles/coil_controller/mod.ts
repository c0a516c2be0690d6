/**
 * coil-controller: gives nodes blocks of address pools, takes back those of
 * nodes that are gone, and keeps the pools' status.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { TaskGroup } from "../../lib/async/mod.ts";
import {
  EventRecorder,
  KubeClient,
  KubeMetrics,
  LeaderElector,
} from "../../lib/kube/mod.ts";
import { IPAM_LEASE, VERSION } from "../../lib/names/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  runDaemon,
  serveHealth,
  serveMetrics,
} from "../../lib/telemetry/mod.ts";
import { type ControllerOptions, parseControllerFlags } from "./flags.ts";
import { runIpam } from "./ipam_part.ts";
import { IpamMetrics } from "./metrics.ts";

export { CONTROLLER_FLAGS, parseControllerFlags } from "./flags.ts";

const log = getLogger("setup");

/** Upstream's time for a graceful stop. */
const GRACE_MS = 20_000;

const ABOUT = "Manages Coil's address pools, blocks and block requests.";

/** Runs the controller until it is told to stop; the process ends with it. */
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

/** Runs the controller until the signal aborts; `kubeconfig` goes before the usual ways to find the API server. */
export async function runController(
  options: ControllerOptions & { readonly kubeconfig?: string },
  signal: AbortSignal,
): Promise<void> {
  checkParts(options);
  for (const [flag, reason] of Object.entries(options.ignored)) {
    log.warn("Ignoring a flag without effect", { flag, reason });
  }
  const registry = createRegistry();
  const metrics = new IpamMetrics(registry);
  const kubeMetrics = new KubeMetrics(registry);
  using client = await KubeClient.load({
    kubeconfig: options.kubeconfig,
    userAgent: `coil-controller/${VERSION}`,
    fieldManager: "coil-controller",
    onRequest: kubeMetrics.onRequest,
  });
  const events = new EventRecorder(client, { component: "coil-controller" });
  const elector = new LeaderElector(client, {
    namespace: options.leaseNamespace,
    name: IPAM_LEASE,
    identity: `${Deno.hostname()}_${crypto.randomUUID()}`,
    metrics: kubeMetrics,
  });
  await using group = new TaskGroup({ signal });
  const { metricsAddress, healthAddress } = options;
  const ping = () => true as const;
  const servers = {
    "metrics server": serveMetrics({
      address: metricsAddress,
      registry,
      signal: group.signal,
    }),
    "health server": serveHealth({
      address: healthAddress,
      healthz: { ping },
      readyz: { ping },
      signal: group.signal,
    }),
  };
  for (const [name, { finished }] of Object.entries(servers)) {
    group.run(name, () => finished);
  }
  group.run("events", (s) => events.run(s));
  group.run("leader", (s) =>
    elector.run(s, (leading) =>
      runIpam({
        client,
        events,
        metrics,
        kubeMetrics,
        gcIntervalMs: options.gcIntervalMs,
        nodeGraceMs: options.nodeGraceMs,
        concurrentRequests: options.concurrentRequests,
      }, leading)));
  await group.wait();
}

function checkParts({ enableIpam, enableEgress }: ControllerOptions): void {
  if (enableEgress) {
    throw new Error(
      "Cannot manage egress gateways: they are not part of this release; run coil-controller without --enable-egress for address pools",
    );
  }
  if (!enableIpam) {
    throw new Error(
      "Cannot start: --enable-ipam=false leaves nothing to do in this release",
    );
  }
}
