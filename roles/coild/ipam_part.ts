import { Gate, startTimer, TaskGroup } from "../../lib/async/mod.ts";
import { valuesOf } from "../../lib/inet/mod.ts";
import {
  NodeIpam,
  type NodeIpamOptions,
  type RouteSink,
} from "../../lib/ipam/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { PodNetwork, SourceTable } from "../../lib/podnet/mod.ts";
import { RouteExporter } from "../../lib/routing/mod.ts";
import { AddressedPods } from "./pods/addressed_pods.ts";
import { FormerHolders } from "./observe/former_holders.ts";
import { GarbageCollector } from "./pods/garbage.ts";
import { LeakRelease } from "./pods/leak_release.ts";
import { NetworkKeeper } from "./network/keeper.ts";
import { NetworkMemory } from "./network/memory.ts";
import { NodeAddressFollower } from "./cluster/node_addresses.ts";
import type { CoildOptions } from "./flags.ts";
import type { NodeDependencies, NodePart } from "./node_part.ts";
import { NodeSource } from "./cluster/node_source.ts";
import { NodeAudit } from "./observe/node_audit.ts";
import { NodeEvents } from "./observe/node_events.ts";
import { nodeAddresses } from "./observe/node_addresses.ts";
import { QuarantineEvents } from "./observe/quarantine_events.ts";
import { Readiness } from "./observe/readiness.ts";
import { Reconciler } from "./pods/reconciler.ts";
import { RepairReports } from "./observe/repair_reports.ts";
import { RouteRepair } from "./network/route_repair.ts";
import { ExportTable } from "./network/route_sink.ts";
import { clearRoutesIfNodeGone } from "./network/shutdown.ts";
import { SourceGuard } from "./network/source_guard.ts";
import { observeSources } from "./network/source_metrics.ts";
import { StaleFlows } from "./network/stale_flows.ts";
import { SourceWatch } from "./network/source_watch.ts";
import { start, START_CONDITIONS } from "./pods/startup.ts";
import { Teardown } from "./pods/teardown.ts";
import { fractionOf } from "./blocks/jitter.ts";
import type { Supply } from "./blocks/supply.ts";

/** What the network outside routes to the node anyway. */
const NO_EXPORT: RouteSink = { sync: () => Promise.resolve() };

export interface SupplyContext {
  readonly node: NodeSource;
  readonly network: PodNetwork;
  readonly nodeEvents: NodeEvents;
}

/** The node with its own address management: coild connects the pods. */
export function connectIpam(
  dependencies: NodeDependencies,
  supplyOf: (context: SupplyContext) => Supply,
): NodePart {
  const { options, client, registry, stack } = dependencies;
  const parts = connect(dependencies, supplyOf);
  const { addresses, blocks, ipam, node, routes, sources, teardown } = parts;
  stack.use(blocks.follow(ipam));
  dependencies.metrics.observeIpam(registry, { ipam, teardown });
  observeSources(registry, sources);
  return {
    attachments: parts.attachments,
    readiness: parts.readiness,
    loops: {
      "node ipam": (signal) => ipam.run(signal),
      "node informer": (signal) => node.run(signal),
      "node addresses": (signal) => addresses.run(signal),
      "stale flows": (signal) => parts.flows.run(signal),
      "network keeper": (signal) => parts.keeper.run(signal),
      ...blocks.loops,
    },
    checkNetwork: () => parts.keeper.check(),
    admin: {
      read: parts.readAddresses,
      former: (address) => parts.former.of(address),
      release: (request) => parts.leaks.release(request),
    },
    async run(signal) {
      await start(parts, { signal });
      await using tasks = new TaskGroup({ signal });
      tasks.run("pod sources", (s) => sources.run(s));
      tasks.run("reconciler", (s) => parts.reconciler.run(s));
      tasks.run("address audit", (s) => parts.audit.run(s));
      await tasks.wait();
    },
    async finish() {
      if (!options.clearRoutesOnShutdown) return;
      await clearRoutesIfNodeGone(client, { node, routes });
    },
  };
}

function openKernel(
  { options, stack }: NodeDependencies,
  reports: RepairReports,
) {
  const network = stack.use(PodNetwork.open({
    tableId: options.podTableId,
    rulePriority: options.podRulePriority,
    protocolId: options.protocolId,
    gatewayMode: options.gatewayMode,
    calico: options.compatCalico,
    registerFromMain: options.registerFromMain,
  }));
  const socket = stack.use(RouteSocket.open());
  const { exportTableId, protocolId } = options;
  const exporter = new RouteExporter(socket, {
    tableId: exportTableId,
    protocolId,
  });
  return {
    network,
    routes: new ExportTable(exporter, () => reports.repaired(["export"])),
    // mutate: without its own socket, the keeper looks once more after each change that it makes.
    watch: () =>
      network.upkeep.watch({ exportTableId, ownPortIds: [socket.portId] }),
  };
}

/** In the next turn of the event loop: another thread makes the pod's network by then, or its caller has its answer. */
function later(work: () => void): void {
  startTimer(0, work);
}

function openIpam(
  { options, nodeName, locks, metrics }: NodeDependencies,
  { network, routes, blocks, onFreed }: {
    readonly network: PodNetwork;
    readonly routes: RouteSink;
    readonly blocks: Supply;
    readonly onFreed: NonNullable<NodeIpamOptions["onFreed"]>;
  },
): NodeIpam {
  return new NodeIpam(
    {
      kernel: network,
      routes: blocks.exports ? routes : NO_EXPORT,
      observer: metrics,
      requestTimeoutMs: options.blockRequestTimeoutMs,
      cooldownMs: options.cooldownMs,
      onFreed,
      ...options.blockReturns,
      jitterOf: (block) => fractionOf(`${nodeName}/${block}`),
      putOff: later,
      // mutate: a call ends minutes before the address of an absent pod is freed.
      isBusy: (key) => locks.isLocked(key),
      ...blocks.ipam,
      // Also those that have a default: one that is left out is an error of types.
    } satisfies Partial<NodeIpamOptions> & CoildOptions["blockReturns"],
  );
}

function connect(
  dependencies: NodeDependencies,
  supplyOf: (context: SupplyContext) => Supply,
) {
  const base = connectBase(dependencies, supplyOf);
  const { lookMs, metrics, nodeName, registry } = dependencies;
  const { nodeEvents, node, network } = base;
  const intervalMs = dependencies.options.reconcileIntervalMs;
  const readAddresses = () => nodeAddresses({ ...base, nodeName });
  return {
    ...base,
    readAddresses,
    audit: new NodeAudit({
      read: readAddresses,
      registry,
      nodeEvents,
      intervalMs,
    }),
    keeper: new NetworkKeeper({ ...base, lookMs }),
    addresses: new NodeAddressFollower(node, network),
    leaks: new LeakRelease(base),
    reconciler: new Reconciler({
      ...base,
      quarantine: new QuarantineEvents(dependencies),
      metrics,
      intervalMs,
    }),
    attachments: new AddressedPods({
      ...base,
      metrics,
      garbage: new GarbageCollector(base),
      later,
    }),
  };
}

/** What holds addresses and the kernel's objects, for what looks after them. */
function connectBase(
  dependencies: NodeDependencies,
  supplyOf: (context: SupplyContext) => Supply,
) {
  const { options, client, nodeName, locks, lookMs, metrics, pods, stack } =
    dependencies;
  const node = new NodeSource(client, nodeName);
  const nodeEvents = new NodeEvents(dependencies.recorder, {
    nodeName,
    nodeUid: () => node.current?.uid,
  });
  const reports = new RepairReports({ metrics, nodeEvents });
  const { network, routes, watch } = openKernel(dependencies, reports);
  const blocks = supplyOf({ node, network, nodeEvents });
  const ipam = stack.use(
    openIpam(dependencies, {
      network,
      routes,
      blocks,
      onFreed: (addresses) => flows.freed(valuesOf(addresses)),
    }),
  );
  const flows = new StaleFlows({ isFree: (address) => ipam.isFree(address) });
  const former = new FormerHolders({ path: `${options.socketPath}.former` });
  const teardown = stack.use(
    new Teardown({ ipam, network, rests: blocks.rests, former }),
  );
  const sources = new SourceGuard({
    table: stack.use(new SourceTable()),
    network,
    locks,
    lookMs,
    reports,
    watch: new SourceWatch({ pods, events: dependencies.events }),
  });
  return {
    ipam,
    network,
    pods,
    blocks,
    teardown,
    former,
    networks: new NetworkMemory(),
    locks,
    repair: new RouteRepair({ ipam, network, locks, reports }),
    node,
    nodeEvents,
    reports,
    routes,
    watch,
    sources,
    flows,
    readiness: new Readiness({
      ...START_CONDITIONS,
      ...(blocks.waitsFor && { addresses: blocks.waitsFor }),
    }),
    prepared: new Gate(),
  };
}
