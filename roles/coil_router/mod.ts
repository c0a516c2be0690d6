/**
 * coil-router, which gives a node direct routes to the blocks of all others,
 * for clusters whose nodes share one link and run no routing daemon.
 *
 * This file only connects the parts.
 *
 * @module
 */
import { TaskGroup } from "../../lib/async/mod.ts";
import { requiredEnv } from "../../lib/flags/mod.ts";
import { KubeClient, KubeMetrics, metricsRefusal } from "../../lib/kube/mod.ts";
import { HeapKeeper } from "../../lib/linux/mod.ts";
import { NODE_NAME_ENV, VERSION } from "../../lib/names/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { RouteSyncer } from "../../lib/routing/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  runDaemon,
  serveMonitoring,
} from "../../lib/telemetry/mod.ts";
import { ClusterView } from "./cluster_view.ts";
import { parseRouterFlags, type RouterOptions } from "./flags.ts";
import { RouterMetrics } from "./metrics.ts";
import { RouteBook } from "./route_book.ts";
import { Router } from "./router.ts";
import { watchRoutes } from "./route_watch.ts";

const GRACE_MS = 5_000;

/** The kernel's routes are looked at this often, also when it reports nothing. */
const LOOK_MS = 30_000;

/** Blocks come and go all the time in a large cluster; with so much garbage a collection pays even then. */
const BUSY_BYTES = 6 * 1024 * 1024;

/** Runs coil-router until a signal stops it. */
export async function main(
  args: readonly string[],
  { program, lookMs = LOOK_MS }: {
    readonly program: string;
    /** How often the kernel's routes are looked at when it reports nothing. */
    readonly lookMs?: number;
  },
): Promise<void> {
  const options = parseRouterFlags(args, {
    program,
    version: VERSION,
    about: "Sets direct routes to the address blocks of all other nodes.",
  });
  configureLogging(options.logging);
  await runDaemon(program, (signal) => run(options, { lookMs, signal }), {
    graceMs: GRACE_MS,
  });
}

async function run(
  options: RouterOptions,
  { lookMs, signal }: { readonly lookMs: number; readonly signal: AbortSignal },
): Promise<void> {
  const nodeName = requiredEnv(NODE_NAME_ENV);
  const registry = createRegistry();
  using client = await KubeClient.load({
    userAgent: `coil-router/${VERSION}`,
    onRequest: new KubeMetrics(registry).onRequest,
  });
  using kernel = RouteSocket.open();
  const { protocolId, updateIntervalMs } = options;
  const syncer = new RouteSyncer(kernel, { protocolId });
  const heap = new HeapKeeper({ busyBytes: BUSY_BYTES });
  const book = new RouteBook(nodeName);
  const view = new ClusterView(client, {
    book,
    onChange() {
      // All blocks at once, when they have been read for the first time.
      heap.note();
      router.trigger();
    },
    onRead: () => heap.note(),
  });
  const router = new Router({
    book,
    synced: () => view.synced(),
    routes: syncer,
    metrics: new RouterMetrics(registry, nodeName),
    intervalMs: Math.min(updateIntervalMs, lookMs),
  });
  await using tasks = new TaskGroup({ signal });
  tasks.runAll(serveMonitoring({
    ...options,
    registry,
    refusal: options.metricsAuth ? metricsRefusal(client) : undefined,
    readyz: {
      ping: () => true,
      routes: () => router.hasSynced || "routes are not set yet",
    },
    signal: tasks.signal,
  }));
  tasks.runAll(view.loops);
  tasks.run("memory", (signal) => heap.run(signal));
  tasks.run("router", (signal) => router.run(signal));
  tasks.run(
    "route watch",
    (signal) =>
      watchRoutes({
        protocolId,
        signal,
        ownPortId: kernel.portId,
        links: () => syncer.links,
        onChange: () => router.distrust(),
      }),
  );
  getLogger("setup").info("Started", { program: "coil-router", nodeName });
  await tasks.wait();
}
