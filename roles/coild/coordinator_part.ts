import { KeyedMutex } from "../../lib/async/mod.ts";
import { machineOf } from "../../lib/coordinator/mod.ts";
import { coordinatorPlaces } from "../../lib/names/mod.ts";
import { findHostEnd } from "../../lib/podnet/host/mod.ts";
import { NetnsIndex, tryOpenPodNetns } from "../../lib/podnet/netns/mod.ts";
import { CoordinatorCalls } from "./coordinator/calls.ts";
import { DefaultsKeeper } from "./coordinator/defaults_keeper.ts";
import { CoordinatorMetrics } from "./coordinator/metrics.ts";
import { PairDeletions } from "./coordinator/pair_deletions.ts";
import type { Loops, NodeDependencies } from "./node_part.ts";
import { servePlugins } from "./server/plugin_server.ts";

/** The plugin `coordinator`, with all that works for it. */
export interface CoordinatorPart {
  readonly loops: Loops;
  /** Whether calls are answered as the cluster wants it; what is waited for, in words. */
  check(): true | string;
  /** Opens the socket. Resolves when it listens; `finished` when the last call has ended after the signal. */
  listen(signal: AbortSignal): Promise<{ readonly finished: Promise<void> }>;
}

/** Makes the parts and ties them to each other. */
export function connectCoordinator(
  dependencies: NodeDependencies,
): CoordinatorPart {
  const { client, options, pods, registry, calls: counter } = dependencies;
  const { socketPath, defaultsPath } = coordinatorPlaces(options.socketPath);
  const defaults = new DefaultsKeeper(client, { path: defaultsPath });
  const machine = machineOf({
    tryOpenNetns: tryOpenPodNetns,
    findHostEnd,
    netnsPathOf: (host, id) => new NetnsIndex(host).pathOf(id),
  });
  const deletions = dependencies.stack.use(PairDeletions.open());
  const calls = new CoordinatorCalls({
    machine: {
      ...machine,
      shared: () => defaults.shared,
      discard: (husk) => deletions.discard(husk),
    },
    pods,
    metrics: new CoordinatorMetrics(registry, defaults),
    locks: new KeyedMutex(),
    counter,
  });
  return {
    loops: {
      ...defaults.loops,
      "coordinator deletions": () => deletions.resume(),
    },
    check: () =>
      defaults.isSettled ||
      "the API server has not answered yet about SpiderCoordinators",
    listen: (signal) =>
      servePlugins({
        socketPath,
        signal,
        perform: (call, caller) => calls.perform(call, caller),
        onOutcome: (outcome) => dependencies.metrics.launcherCalled(outcome),
      }),
  };
}
