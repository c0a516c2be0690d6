import { KeyedMutex, type Loops } from "../../lib/async/mod.ts";
import {
  countJoined,
  machineOf,
  type Podnet,
} from "../../lib/coordinator/mod.ts";
import { coordinatorPlaces } from "../../lib/names/mod.ts";
import { RouteMonitor, RouteSocket } from "../../lib/netlink/mod.ts";
import { findHostEnd } from "../../lib/podnet/host/mod.ts";
import { NetnsIndex, tryOpenPodNetns } from "../../lib/podnet/netns/mod.ts";
import { CoordinatorCalls } from "./coordinator/calls.ts";
import { DefaultsKeeper } from "./coordinator/defaults_keeper.ts";
import { CoordinatorMetrics } from "./coordinator/metrics.ts";
import { PairDeletions } from "./coordinator/pair_deletions.ts";
import { CoordinatorUpkeep } from "./coordinator/upkeep.ts";
import { CallsInFlight } from "./observe/calls_in_flight.ts";
import type { NodeDependencies } from "./node_part.ts";
import { servePlugins } from "./server/plugin_server.ts";

const PODNET: Podnet = {
  tryOpenNetns: tryOpenPodNetns,
  findHostEnd,
  indexNetns: (host) => new NetnsIndex(host),
};

/** The plugin `coordinator`, with all that works for it. */
export interface CoordinatorPart {
  /** Those of the plugin `coordinator`. */
  readonly calls: CallsInFlight;
  readonly loops: Loops;
  /** Whether calls are answered as the cluster wants it; what is waited for, in words. */
  check(): true | string;
  /** Opens the socket. Resolves when it listens; `finished` when the last call has ended after the signal. */
  listen(signal: AbortSignal): Promise<{ readonly finished: Promise<void> }>;
}

export function connectCoordinator(
  dependencies: NodeDependencies,
): CoordinatorPart {
  const { client, events, options, pods, registry, stack } = dependencies;
  const { socketPath, defaultsPath } = coordinatorPlaces(options.socketPath);
  const defaults = new DefaultsKeeper(client, { path: defaultsPath });
  const deletions = stack.use(PairDeletions.open());
  const inFlight = new CallsInFlight();
  const machine = deletions.behind(machineOf(PODNET));
  const calls = new CoordinatorCalls({
    machine: { ...machine, shared: () => defaults.shared },
    pods,
    events,
    metrics: new CoordinatorMetrics(registry, {
      get ageSeconds() {
        return defaults.ageSeconds;
      },
      async countPods() {
        using host = RouteSocket.open();
        return await countJoined(host);
      },
    }),
    locks: new KeyedMutex(),
  });
  const upkeep = new CoordinatorUpkeep({
    open: () => machine,
    watch: () =>
      RouteMonitor.open({ interests: { addresses: "both", rules: true } }),
    calls: inFlight,
  });
  return {
    calls: inFlight,
    loops: {
      ...defaults.loops,
      "coordinator upkeep": (signal) => upkeep.run(signal),
    },
    check: () =>
      defaults.isSettled ||
      "the API server has not answered yet about SpiderCoordinators",
    listen: (signal) =>
      servePlugins({
        socketPath,
        signal,
        perform: (call, caller) =>
          inFlight.track(
            { method: call.command, request: call.request },
            () => calls.perform(call, caller),
          ),
        onOutcome: (outcome) => dependencies.metrics.pluginCalled(outcome),
      }),
  };
}
