/**
 * coild, the node daemon: it gives pods their addresses, connects them to
 * their node, makes clients of egress gateways of some, and exports the node's
 * routes.
 *
 * This file only connects the parts.
 *
 * @module
 */
import {
  KeyedMutex,
  onAbort,
  startTimer,
  TaskGroup,
} from "../../lib/async/mod.ts";
import { requiredEnv } from "../../lib/flags/mod.ts";
import {
  EventRecorder,
  KubeClient,
  KubeMetrics,
  metricsRefusal,
} from "../../lib/kube/mod.ts";
import { PLUGIN_SOCKET_SUFFIX } from "../../lib/cnirpc/plugin/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import {
  coordinatorPlaces,
  NODE_NAME_ENV,
  VERSION,
} from "../../lib/names/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  runDaemon,
  serveMonitoring,
} from "../../lib/telemetry/mod.ts";
import { CniCalls } from "./service/cni_calls.ts";
import { CniService } from "./service/cni_service.ts";
import { NO_EGRESS } from "./egress/calls.ts";
import { connectEgress } from "./egress_part.ts";
import { type EgressPlane, KERNEL_PLANE } from "./egress/plane.ts";
import { type CoildOptions, parseCoildFlags } from "./flags.ts";
import { connectPools } from "./pools_part.ts";
import { CoildMetrics } from "./observe/metrics.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";
import { PodEvents } from "./observe/pod_events.ts";
import { CallsInFlight, onLong } from "./observe/calls_in_flight.ts";
import { openAdminDoor } from "./server/admin_door.ts";
import { openDoors } from "./server/doors.ts";
import { PodSource } from "./cluster/pod_source.ts";
import { SocketFiles } from "./server/socket_files.ts";
import { lockFileOf, lockSocket } from "./server/socket_lock.ts";

export { COILD_FLAGS } from "./flags.ts";
export {
  type AppliedPlan,
  type EgressPlane,
  KERNEL_PLANE,
  type PlaneOptions,
} from "./egress/plane.ts";

const log = getLogger("setup");

/** Upstream has 20 s; calls of EC2 are waited for so long. The manifest gives the pod 30 s. */
const GRACE_MS = 25_000;

/** A stop takes milliseconds; after this time something hangs. */
const REMIND_STOP_MS = 3_000;

/** Pods that come at once are not kept waiting for a collection, unless they are more than a node has. */
const BUSY_BYTES = 32 * 1024 * 1024;

/** How coild is started. */
export interface StartOptions {
  readonly program: string;
  /** The network inside pods, as far as egress is concerned. Default: the kernel's. */
  readonly plane?: EgressPlane;
  /** How often, about, the node's network is looked at when the kernel reports nothing. Default 30 s. */
  readonly lookMs?: number;
}

/** Runs coild until SIGTERM. */
// mutate: it ends the process, so only slower suites run it.
export async function main(
  args: readonly string[],
  { program, plane = KERNEL_PLANE, lookMs }: StartOptions,
): Promise<void> {
  const options = parseCoildFlags(args, {
    program,
    version: VERSION,
    about:
      "Node daemon of Coil: addresses, pod networks, egress clients and exported routes",
  });
  configureLogging(options.logging);
  await runDaemon(
    "coild",
    (signal) => run({ options, plane, lookMs }, signal),
    { graceMs: GRACE_MS },
  );
}

interface Start {
  readonly options: CoildOptions;
  readonly plane: EgressPlane;
  readonly lookMs: number | undefined;
}

async function run(start: Start, signal: AbortSignal): Promise<void> {
  const { options } = start;
  for (const [flag, reason] of Object.entries(options.ignored)) {
    log.warn("Ignoring a flag without effect", { flag, reason });
  }
  const nodeName = requiredEnv(NODE_NAME_ENV);
  await using stack = new AsyncDisposableStack();
  for (const path of socketsOf(options)) stack.use(lockSocket(path));
  const parts = await connect(start, { nodeName, stack });
  const servers = await listen(options, parts, signal);
  log.info("Serving", { node: nodeName, sockets: socketsOf(options) });
  await work(parts, signal);
  await Promise.all(servers);
  await parts.node?.finish();
}

/** The sockets that calls come by. */
function socketsOf(
  { socketPath, enableIpam, enableEgress, enableCoordinator }: CoildOptions,
): string[] {
  return [
    ...enableIpam || enableEgress ? [socketPath] : [],
    ...enableCoordinator ? [coordinatorPlaces(socketPath).socketPath] : [],
  ];
}

/** What has to stay where it is for each of them. */
function socketFilesOf(socketPath: string): string[] {
  return [lockFileOf(socketPath), socketPath + PLUGIN_SOCKET_SUFFIX];
}

async function connect(
  { options, plane, lookMs }: Start,
  { nodeName, stack }: {
    readonly nodeName: string;
    readonly stack: AsyncDisposableStack;
  },
) {
  const registry = createRegistry();
  const kubeMetrics = new KubeMetrics(registry);
  const client = stack.use(
    await KubeClient.load({
      userAgent: `coild/${VERSION}`,
      onRequest: kubeMetrics.onRequest,
    }),
  );
  const { enableCoordinator, enableIpam, namespaceEgress } = options;
  const pods = new PodSource(client, {
    nodeName,
    pools: enableIpam,
    defaultEgresses: namespaceEgress,
  });
  const recorder = new EventRecorder(client, {
    component: "coild",
    host: nodeName,
  });
  const events = new PodEvents(recorder, pods);
  const calls = new CallsInFlight();
  const dependencies: NodeDependencies = {
    options,
    nodeName,
    client,
    registry,
    metrics: new CoildMetrics(registry, calls),
    kubeMetrics,
    recorder,
    pods,
    events,
    stack,
    locks: new KeyedMutex(),
    calls,
    lookMs,
  };
  const coordinator = enableCoordinator
    ? (await import("./coordinator_part.ts")).connectCoordinator(dependencies)
    : undefined;
  const served = await connectPods(dependencies, plane);
  return { ...dependencies, coordinator, ...served };
}

/** The plugin `coil`, for which there may be nothing to do. */
async function connectPods(
  dependencies: NodeDependencies,
  plane: EgressPlane,
) {
  const { events, locks, metrics, options, pods, registry } = dependencies;
  const { enableEgress, enableIpam } = options;
  if (!enableIpam && !enableEgress) return {};
  const node = await connectNode(dependencies);
  const { attachments, readiness } = node;
  // mutate: only slower suites have clients of a whole coild.
  const egress = enableEgress
    ? connectEgress({ ...dependencies, attachments, plane })
    : undefined;
  metrics.observe(registry, { readiness, egress: egress?.setup });
  const service = new CniService({
    attachments,
    events,
    metrics,
    readiness,
    pods,
    locks,
    egress: egress?.calls ?? NO_EGRESS,
  });
  return { node, egress, service };
}

/** What only some flags need is loaded only with them. */
async function connectNode(dependencies: NodeDependencies): Promise<NodePart> {
  const { enableIpam, vpc } = dependencies.options;
  if (!enableIpam) {
    const { connectChained } = await import("./chained_part.ts");
    return connectChained(dependencies);
  }
  if (vpc === undefined) return connectPools(dependencies);
  const { connectVpc } = await import("./vpc_part.ts");
  return connectVpc(dependencies, vpc);
}

type Connected = Awaited<ReturnType<typeof connect>>;

/** Opens the socket early: a plugin that finds it learns what is waited for. Returns the ends of all servers. */
async function listen(
  options: CoildOptions,
  { client, coordinator, node, registry, ...parts }: Connected,
  signal: AbortSignal,
): Promise<readonly (Promise<unknown> | undefined)[]> {
  const { socketPath, metricsAddress, metricsAuth, healthAddress } = options;
  const refusal = metricsAuth ? metricsRefusal(client) : undefined;
  const files = new SocketFiles();
  const monitoring = serveMonitoring({
    metricsAddress,
    healthAddress,
    registry,
    refusal,
    healthz: { sockets: () => files.check() },
    readyz: {
      ping: () => true,
      // What the parts know of earlier may be enough before calls can come.
      // mutate: only a slow machine shows the time between.
      sockets: () => !files.isEmpty || "not open yet",
      ...node && {
        "serves-pods": () => node.readiness.check(),
        "pod-network": () => node.checkNetwork(),
      },
      ...coordinator && { "coordinator": () => coordinator.check() },
    },
    signal,
  });
  const { calls: inFlight, metrics, service } = parts;
  const ofCoil = service && await openDoors({
    calls: new CniCalls({ methods: service, registry, inFlight }),
    socketPath,
    signal,
    onOutcome: (outcome) => metrics.pluginCalled(outcome),
  });
  const admin = node?.admin;
  const ofAdmin = admin &&
    await openAdminDoor({
      socketPath,
      ...admin,
      calls: () => inFlight.list,
      signal,
    });
  const ofCoordinator = await coordinator?.listen(signal);
  files.add(socketsOf(options).flatMap(socketFilesOf));
  return [
    ...[ofCoil, ofAdmin, ofCoordinator].map((door) => door?.finished),
    ...Object.values(monitoring).map((server) => server(signal)),
  ];
}

async function work(parts: Connected, signal: AbortSignal): Promise<void> {
  const { calls, coordinator, egress, events, node, pods, recorder } = parts;
  await using tasks = new TaskGroup({ signal });
  const heap = new HeapKeeper({
    // All are asked: each answers for the time since it was asked last.
    isBusy: () =>
      [calls, coordinator?.calls].map((each) => each?.isBusy()).includes(true),
    busyBytes: BUSY_BYTES,
  });
  // mutate: it gives memory back; tests/bench measures how much is held.
  tasks.run("heap keeper", (s) => heap.run(s));
  tasks.run("event recorder", (s) => recorder.run(s));
  // mutate: tests/mutate/wiring.ts has it; a call has to wait for five seconds.
  tasks.run(
    "long calls",
    (s) => calls.reportLong((call) => onLong(call, events), s),
  );
  if (node !== undefined) {
    tasks.run("start, then reconciler", (s) => node.run(s));
  }
  const loops = {
    ...pods.loops,
    ...node?.loops,
    ...egress?.loops,
    ...coordinator?.loops,
  };
  tasks.runAll(loops);
  using _reminder = remindOfStop(tasks, signal);
  await tasks.wait();
}

/** Says what keeps the daemon from stopping. */
// mutate: only a record of the log.
function remindOfStop(tasks: TaskGroup, signal: AbortSignal): Disposable {
  const stack = new DisposableStack();
  stack.use(onAbort(signal, () => {
    stack.use(startTimer(REMIND_STOP_MS, () => {
      log.warn("Still stopping", { running: tasks.running });
    }));
  }));
  return stack;
}
