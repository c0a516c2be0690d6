import type { Clock, Loops } from "../../lib/async/mod.ts";
import { AnnounceClient } from "../../lib/announce/mod.ts";
import { GatewayProber, type OpenProbeSocket } from "../../lib/egress/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { openDatagramSocket } from "../../lib/linux/mod.ts";
import { ANNOUNCE_PORT } from "../../lib/names/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import { NodePlace } from "./gateways/node_place.ts";
import { EgressTokens } from "./gateways/announce_tokens.ts";
import { Announcer } from "./gateways/announcer.ts";
import { AttachmentBook } from "./calls/attachment_book.ts";
import type { Attachments } from "./calls/attachments.ts";
import { type EgressCalls, WithEgress } from "./egress/calls.ts";
import { EgressInspector } from "./egress/inspector.ts";
import { LossReporter } from "./gateways/loss_reporter.ts";
import { Losses } from "./gateways/losses.ts";
import type { EgressPlane } from "./egress/plane.ts";
import { EgressReconciler } from "./egress/reconciler.ts";
import { EgressReports } from "./clients/reports.ts";
import { EgressSetup } from "./egress/setup.ts";
import { SourceLook, type SourceLookOptions } from "./gateways/source_look.ts";
import { EgressSource } from "./gateways/source.ts";
import {
  answering,
  GatewayMetrics,
  gatewayStates,
} from "./observe/gateway_metrics.ts";
import type { NodeDependencies } from "./node_part.ts";

const log = getLogger("egress");

/** Egress, with all that works for it. */
export interface EgressPart {
  readonly calls: EgressCalls;
  readonly setup: EgressSetup;
  readonly loops: Loops;
}

export interface EgressDependencies extends NodeDependencies {
  readonly attachments: Attachments;
  /** The network inside pods. */
  readonly plane: EgressPlane;
  /** How gateways are probed. Default: by the node's own network. */
  readonly openProbe?: OpenProbeSocket | undefined;
  /** How the node's connections are read. Default: in its own network. */
  readonly openConntrack?: SourceLookOptions["open"];
  /** By which tokens for gateways are renewed, and lost ones reported. Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/** What is known of gateways, by probes and by the API server, and what they are sent. */
function followGateways(
  dependencies: EgressDependencies,
  { setup, onChange }: {
    readonly setup: () => EgressSetup;
    /** Probes found that gateways of these Egresses are lost, or no longer. */
    readonly onChange: (egresses: Iterable<string>) => void;
  },
) {
  const { client, clock, options, pods, stack } = dependencies;
  const source = new EgressSource(client, {
    isNamed: (namespace) => pods.hasClientsOf(namespace),
  });
  const tokens = new EgressTokens({ client, clock });
  const { announceTimeoutMs: timeoutMs } = options;
  const announcer = stack.use(
    new AnnounceClient({ tokens, port: ANNOUNCE_PORT, timeoutMs }),
  );
  const prober = new GatewayProber({
    port: options.egressPort,
    open: dependencies.openProbe ?? openDatagramSocket,
    groups: () => setup().chosenFrom,
    isLocal: (gateway) => pods.withAddress(gateway).length > 0,
    onLoss(loss) {
      losses.add(loss);
      // One of before the start changes no client that is known.
      reporter.trigger();
    },
    onSuspects: () => reporter.trigger(),
    onChange(egresses) {
      onChange(egresses);
      reporter.trigger();
    },
  });
  const metrics = new GatewayMetrics(
    dependencies.registry,
    () => gatewayStates(prober, setup().ready),
  );
  const losses = new Losses({ metrics, lost: () => prober.lost, clock });
  const reporter = new LossReporter({
    client: announcer,
    groups: () => setup().chosenFrom,
    answering: () => answering(prober.health, setup().ready),
    losses: () => losses.list,
    suspects: () => prober.suspects,
    metrics,
    clock,
  });
  return {
    source,
    announcer,
    prober,
    losses,
    loops: {
      ...source.loops,
      "egress probes": (signal: AbortSignal) => prober.run(signal),
      "egress losses": (signal: AbortSignal) => reporter.run(signal),
      "egress tokens": (signal: AbortSignal) => tokens.run(signal),
    },
  };
}

export function connectEgress(dependencies: EgressDependencies): EgressPart {
  const { attachments, client, events, kubeMetrics, locks } = dependencies;
  const { metrics, nodeName, options, plane, pods, stack } = dependencies;
  const followed = followGateways(dependencies, {
    setup: () => setup,
    onChange(egresses) {
      for (const egress of egresses) reconciler.enqueueClients(egress);
    },
  });
  const { source, announcer, prober, losses, loops } = followed;
  const book = new AttachmentBook();
  const setup: EgressSetup = new EgressSetup({
    source,
    health: prober,
    isTaken: (address, uid) => pods.isOfAnother(address, uid),
    place: new NodePlace(client, { node: nodeName, clock: dependencies.clock }),
    onEnded: (done, gateways) => losses.ended(done, gateways),
    onSwitched: (lost) => losses.left(lost),
    plane,
    announcer: new Announcer(announcer, metrics),
    reports: stack.use(
      new EgressReports({ events, delayMs: options.egressEventDelayMs }),
    ),
    port: options.egressPort,
    originatingOnly: options.originatingOnly,
  });
  const shared = { book, locks, metrics, setup };
  const reconciler: EgressReconciler = new EgressReconciler({
    ...shared,
    attachments,
    events,
    kubeMetrics,
    pods,
    source,
  });
  const look = new SourceLook({
    client,
    announcer,
    pods,
    port: options.egressPort,
    open: dependencies.openConntrack,
    clock: dependencies.clock,
  });
  const inspector = new EgressInspector({
    ...shared,
    reconciler,
    intervalMs: options.reconcileIntervalMs,
  });
  return {
    calls: new WithEgress({ ...shared, reconciler }),
    setup,
    loops: {
      ...loops,
      "egress kernel": () => reportKernel(plane),
      "egress reconciler": (signal) => reconciler.run(signal),
      "egress inspector": (signal) => inspector.run(signal),
      "gateway sources": (signal) => look.run(signal),
    },
  };
}

/** Logs once, at the start, what every client's ADD would report. Never throws: the rest of coild does not need it. */
// mutate: only records of the log.
async function reportKernel(plane: EgressPlane): Promise<void> {
  const problems: unknown[] = [];
  for (const family of FAMILIES) {
    try {
      await plane.prepare([family]);
    } catch (error) {
      problems.push(error);
    }
  }
  const [err] = problems;
  if (err === undefined) return;
  // A cluster of one family needs no more than that.
  if (problems.length < FAMILIES.length) {
    log.warn("This kernel supports egress clients of one family only", { err });
  } else {
    log.error(
      "This kernel does not support egress clients; pods with egress annotations cannot start, other pods can",
      { err },
    );
  }
}
