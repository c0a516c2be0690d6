/**
 * coild, the node daemon: it gives pods their addresses, connects them to
 * their node and exports the node's routes.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { KeyedMutex, TaskGroup } from "../../lib/async/mod.ts";
import { type RunningServer, serve } from "../../lib/grpc/server/mod.ts";
import { NodeIpam } from "../../lib/ipam/mod.ts";
import { EventRecorder, KubeClient, KubeMetrics } from "../../lib/kube/mod.ts";
import { NODE_NAME_ENV, VERSION } from "../../lib/names/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { PodNetwork } from "../../lib/podnet/mod.ts";
import { RouteExporter } from "../../lib/routing/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  type Registry,
  runDaemon,
  serveHealth,
  serveMetrics,
} from "../../lib/telemetry/mod.ts";
import { BlockClient } from "./block_client.ts";
import { BlockRequests } from "./block_requests.ts";
import { CallCounter } from "./call_counter.ts";
import { cniMethods } from "./cni_methods.ts";
import { CniService } from "./cni_service.ts";
import { type CoildOptions, parseCoildFlags } from "./flags.ts";
import { GarbageCollector } from "./garbage.ts";
import { Housekeeping } from "./housekeeping.ts";
import { CoildMetrics } from "./metrics.ts";
import { NetworkMemory } from "./network_memory.ts";
import { NodeAddresses } from "./node_addresses.ts";
import { NodeSource } from "./node_source.ts";
import { PodEvents } from "./pod_events.ts";
import { PodSource } from "./pod_source.ts";
import { Readiness } from "./readiness.ts";
import { Reconciler } from "./reconciler.ts";
import { RouteRepair } from "./route_repair.ts";
import { ExportTable } from "./route_sink.ts";
import { clearRoutesIfNodeGone } from "./shutdown.ts";
import { lockSocket } from "./socket_lock.ts";
import { start, START_CONDITIONS } from "./startup.ts";
import { Teardown } from "./teardown.ts";
import { waterMarksFor } from "./water_marks.ts";

export { COILD_FLAGS } from "./flags.ts";

const log = getLogger("setup");

/** As upstream; the manifest gives the pod 30 s. */
const GRACE_MS = 20_000;

/** What remains of the grace for teardowns once the last call has ended. */
const DRAIN_MS = 5_000;

/** A stop takes milliseconds; after this time something hangs. */
const REMIND_STOP_MS = 3_000;

/** Runs coild until SIGTERM. */
export async function main(
  args: string[],
  { program }: { readonly program: string },
): Promise<void> {
  const options = parseCoildFlags(args, {
    program,
    version: VERSION,
    about: "Node daemon of Coil: addresses, pod networks and exported routes",
  });
  configureLogging(options.logging);
  await runDaemon("coild", (signal) => run(options, signal), {
    graceMs: GRACE_MS,
  });
}

async function run(options: CoildOptions, signal: AbortSignal): Promise<void> {
  const nodeName = Deno.env.get(NODE_NAME_ENV) ?? "";
  assertRunnable(options, nodeName);
  await using stack = new AsyncDisposableStack();
  stack.use(lockSocket(options.socketPath));
  const registry = createRegistry();
  const client = stack.use(
    await KubeClient.load({
      userAgent: `coild/${VERSION}`,
      onRequest: new KubeMetrics(registry).onRequest,
    }),
  );
  const parts = connect(options, { nodeName, client, registry, stack });
  const { blocks, ipam, teardown, routes } = parts;
  stack.use(blocks.onBlocksChanged((list) => ipam.onBlocksChanged(list)));
  stack.use(blocks.onPoolsChanged(() => ipam.onPoolsChanged()));
  const server = await listen(options, parts, signal);
  log.info("Serving", { node: nodeName, socket: options.socketPath });
  await work(parts, signal);
  await server.finished;
  await teardown.drain(AbortSignal.timeout(DRAIN_MS));
  if (options.clearRoutesOnShutdown) {
    await clearRoutesIfNodeGone(client, { nodeName, routes });
  }
}

function assertRunnable(options: CoildOptions, nodeName: string): void {
  if (nodeName === "") {
    throw new TypeError(
      `Cannot start: environment variable ${NODE_NAME_ENV} is not set`,
    );
  }
  if (!options.enableIpam) {
    throw new TypeError(
      "Cannot start: configuration error: --enable-ipam=false leaves nothing to do in this release",
    );
  }
}

/** Opens the kernel. */
function openKernel(options: CoildOptions, stack: AsyncDisposableStack) {
  const network = stack.use(PodNetwork.open({
    tableId: options.podTableId,
    rulePriority: options.podRulePriority,
    protocolId: options.protocolId,
    gatewayMode: options.gatewayMode,
    calico: options.compatCalico,
    registerFromMain: options.registerFromMain,
  }));
  const exporter = new RouteExporter(stack.use(RouteSocket.open()), {
    tableId: options.exportTableId,
    protocolId: options.protocolId,
  });
  return { network, routes: new ExportTable(exporter) };
}

/** Makes the parts and ties them to each other. */
function connect(
  options: CoildOptions,
  { nodeName, client, registry, stack }: {
    readonly nodeName: string;
    readonly client: KubeClient;
    readonly registry: Registry;
    readonly stack: AsyncDisposableStack;
  },
) {
  const { network, routes } = openKernel(options, stack);
  const metrics = new CoildMetrics(registry);
  const node = new NodeSource(client, nodeName);
  const pods = new PodSource(client, nodeName);
  const requests = new BlockRequests({ client, node });
  const blocks = new BlockClient({ client, nodeName, requests });
  const ipam = stack.use(
    new NodeIpam({
      source: blocks,
      kernel: network,
      routes,
      log: getLogger("node-ipam"),
      observer: metrics,
      requestTimeoutMs: options.blockRequestTimeoutMs,
      waterMarks: waterMarksFor(options.lowWater),
      cooldownMs: options.cooldownMs,
      returnDelayMs: options.blockReturnDelayMs,
    }),
  );
  const locks = new KeyedMutex();
  const readiness = new Readiness(START_CONDITIONS);
  const teardown = stack.use(new Teardown({ ipam, network }));
  const networks = new NetworkMemory();
  const recorder = new EventRecorder(client, {
    component: "coild",
    host: nodeName,
  });
  metrics.observe(registry, { ipam, teardown, readiness });
  const repair = new RouteRepair({ ipam, network, locks });
  const shared = {
    ...{ ipam, network, pods, blocks, teardown, networks, locks, repair },
  };
  const intervalMs = options.reconcileIntervalMs;
  return {
    ...shared,
    ...{ registry, node, requests, readiness, recorder, routes },
    calls: new CallCounter(),
    addresses: new NodeAddresses(node, network),
    reconciler: new Reconciler({ ...shared, metrics, intervalMs }),
    service: new CniService({
      ...shared,
      ...{ metrics, readiness, enableEgress: options.enableEgress },
      events: new PodEvents(recorder, pods),
      garbage: new GarbageCollector(shared),
    }),
  };
}

type Parts = ReturnType<typeof connect>;

/** Opens the socket early: a plugin that finds it learns what is waited for. */
async function listen(
  { socketPath, metricsAddress, healthAddress }: CoildOptions,
  { registry, service, calls, readiness }: Parts,
  signal: AbortSignal,
): Promise<RunningServer> {
  serveMetrics({ address: metricsAddress, registry, signal });
  serveHealth({
    address: healthAddress,
    healthz: { ping: () => true },
    readyz: { ping: () => true, "serves-pods": () => readiness.check() },
    signal,
  });
  const methods = cniMethods(service, calls);
  return await serve({ socketPath, methods, registry, signal });
}

/** Runs all loops until the signal. */
async function work(parts: Parts, signal: AbortSignal): Promise<void> {
  const { addresses, blocks, calls, node, pods } = parts;
  const { ipam, recorder, reconciler, requests } = parts;
  await using tasks = new TaskGroup({ signal });
  tasks.run("node ipam", (s) => ipam.run(s));
  tasks.run("node informer", (s) => node.run(s));
  tasks.run("node addresses", (s) => addresses.run(s));
  const housekeeping = new Housekeeping({
    calls: () => calls.ended,
    inFlight: () => calls.inFlight,
  });
  tasks.run("housekeeping", (s) => housekeeping.run(s));
  tasks.run("event recorder", (s) => recorder.run(s));
  const loops = { ...pods.loops, ...requests.loops, ...blocks.loops };
  for (const [name, loop] of Object.entries(loops)) tasks.run(name, loop);
  tasks.run("start, then reconciler", async (s) => {
    await start(parts, { signal: s });
    await reconciler.run(s);
  });
  using _reminder = remindOfStop(tasks, signal);
  await tasks.wait();
}

/** Says what keeps the daemon from stopping. */
function remindOfStop(tasks: TaskGroup, signal: AbortSignal): Disposable {
  let timer: ReturnType<typeof setTimeout> | undefined;
  signal.addEventListener("abort", () => {
    timer = setTimeout(() => {
      log.warn("Still stopping", { running: tasks.running });
    }, REMIND_STOP_MS);
  }, { once: true });
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
