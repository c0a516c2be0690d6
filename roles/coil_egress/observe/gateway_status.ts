import {
  EGRESS_CAPACITY_LOW_PERCENT,
  EGRESS_CAPACITY_OK_PERCENT,
  EGRESSES,
  type EgressGatewayStatus,
} from "../../../lib/api/mod.ts";
import type { PortUse } from "../../../lib/egress/mod.ts";
import { Gate, jittered, Mutex, withTimeout } from "../../../lib/async/mod.ts";
import { hostPort, valuesOf } from "../../../lib/inet/mod.ts";
import type { KubeClient } from "../../../lib/kube/mod.ts";
import { compareText } from "../../../lib/names/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { GatewayIdentity } from "../base/identity.ts";
import type { LimitedClients } from "./limited_clients.ts";
import type { Readings } from "./readings.ts";
import type { ReportedLosses } from "./reported_losses.ts";
import type { TranslatedSources } from "./translated_sources.ts";

const log = getLogger("status");

/** The nodes of its clients follow the Egress: what no condition follows from is written about once in this time, by each of its gateways. */
const INTERVAL_MS = 300_000;
/** The least change of a percentage that is worth a write. */
const STEP_PERCENT = 5;
/** Likewise of the number of nodes, as a share of it. */
const STEP_NODES = 0.1;
const RETRY_MS = 10_000;
const WRITE_TIMEOUT_MS = 10_000;
/** The end of the process does not wait longer for its last report. */
const LAST_WRITE_MS = 2_000;

/** The most clients that an entry names. */
const MAX_NAMES = 10;

/** What is known of the gateway; what it cannot find out is absent. */
export type GatewayReport = Omit<
  EgressGatewayStatus,
  "name" | "addresses" | "node" | "since" | "updatedAt"
>;

/** Sums up what is known of the gateway; who has the most, only where there may be too little. */
export function gatewayReport(
  { draining, limited, losses, readings, translated }: {
    readonly draining: boolean;
    readonly translated: Pick<TranslatedSources, "list">;
    readonly losses: Pick<ReportedLosses, "list" | "suspects">;
    readonly limited: Pick<LimitedClients, "names" | "limits" | "nameOf">;
    readonly readings: Pick<Readings, "flows" | "conntrack" | "nodes">;
  },
): GatewayReport {
  const { flows, conntrack, nodes = 0 } = readings;
  const [worst] = flows?.ports ?? [];
  const names = limited.names();
  const lost = losses.list();
  const suspects = losses.suspects();
  const sources = translated.list();
  const [largest] = flows?.clients ?? [];
  const conntrackPercent = conntrack &&
    percentOf(conntrack.entries, conntrack.max);
  const snatPortsPercent = flows &&
    percentOf(worst?.used ?? 0, worst?.limit ?? 0);
  return {
    draining,
    ...(conntrackPercent !== undefined && { conntrackPercent }),
    ...(snatPortsPercent !== undefined && { snatPortsPercent }),
    ...(worst !== undefined && isTight(snatPortsPercent) && {
      snatPortsDestination: destinationText(worst),
      snatPortsClient: limited.nameOf(worst.largest),
    }),
    ...(largest !== undefined && isTight(conntrackPercent) && {
      largestClient: limited.nameOf(largest.address),
    }),
    ...(names.length > 0 && {
      limitedClients: names.slice(0, MAX_NAMES),
    }),
    ...(!limited.limits.isSupported && { unlimited: true }),
    ...(nodes > 0 && { probingNodes: nodes }),
    ...(lost.length > 0 && { losses: lost }),
    ...(suspects.length > 0 && { suspects }),
    ...(sources.length > 0 && { translated: sources }),
  };
}

/** Whether an entry may name who has the most: of others it never does, and a name takes a look at each client. */
function isTight(percent = 0): boolean {
  return percent >= EGRESS_CAPACITY_OK_PERCENT;
}

/** An address, with the port of protocols that have some. */
function destinationText(
  { destination, port }: Pick<PortUse, "destination" | "port">,
): string {
  if (port === 0) return destination.toString();
  return hostPort(destination.toString(), port);
}

/** A whole number from 0 to 100. */
function percentOf(part: number, whole: number): number {
  return whole <= 0 ? 0 : Math.min(100, Math.floor(100 * part / whole));
}

export interface StatusWriterOptions {
  readonly client: Pick<KubeClient, "patch">;
  readonly identity: GatewayIdentity;
  /** The gateway at this moment; undefined before anything is known. */
  readonly report: () => GatewayReport | undefined;
  /** The time between two writes of what no condition follows from, about. Default five minutes. */
  readonly intervalMs?: number | undefined;
}

/**
 * Keeps this pod's entry in the status of its Egress, by server-side apply:
 * each pod owns its own. Written at once when a condition of the Egress follows
 * from it. Beyond that it has names of clients and percentages of a gateway that
 * is short of something, how many nodes probe it, to a tenth, and which gateways
 * they have lost or suspect: these are written about every five minutes. All
 * numbers are metrics. A failure is a warning, the gateway works without it.
 */
export class GatewayStatusWriter {
  readonly #options: StatusWriterOptions;
  /** Once for all entries: another time would be a change. */
  readonly #since = new Date().toISOString();
  /** Guards the entry in the API, so that an older report does not come after a newer one. */
  readonly #turn = new Mutex();
  #changed = new Gate();
  #urgent = new Gate();
  #written: GatewayReport | undefined;
  #news: News | undefined;
  #isFailing = false;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** Says that something may have changed; what is urgent does not wait for its turn. */
  trigger(options: { readonly urgent?: boolean } = {}): void {
    this.#changed.open();
    const report = this.#options.report();
    const isNews = report !== undefined &&
      JSON.stringify(newsOf(report, this.#news)) !== JSON.stringify(this.#news);
    if (options.urgent || isNews) this.#urgent.open();
  }

  /** Writes until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#changed.wait({ signal });
      this.#changed = new Gate();
      const urgent = this.#urgent = new Gate();
      const isWritten = await this.#writeIfChanged(signal);
      if (!isWritten) this.#changed.open();
      const waitMs = this.#pauseMs(isWritten);
      await urgent.waitAtMost(waitMs, { signal });
    }
  }

  #pauseMs(isWritten: boolean): number {
    const { intervalMs = INTERVAL_MS } = this.#options;
    return jittered(isWritten ? intervalMs : Math.min(intervalMs, RETRY_MS));
  }

  /** Writes the last report, if that can be done soon. */
  async writeLast(options: { readonly signal: AbortSignal }): Promise<void> {
    await withTimeout(
      LAST_WRITE_MS,
      async (signal) => void await this.#writeIfChanged(signal),
      options,
    ).catch((err) => log.debug("Cannot write the last status", { err }));
  }

  /** False when it should be tried again. */
  async #writeIfChanged(signal: AbortSignal): Promise<boolean> {
    using _turn = await this.#turn.lock({ signal });
    const report = this.#options.report();
    if (report === undefined) return true;
    const news = newsOf(report, this.#news);
    const entry = entryOf(report, { news, written: this.#written });
    if (JSON.stringify(entry) === JSON.stringify(this.#written)) return true;
    try {
      await this.#write(entry, signal);
      this.#written = entry;
      this.#news = news;
      this.#isFailing = false;
      return true;
    } catch (err) {
      signal.throwIfAborted();
      if (!this.#isFailing) {
        log.warn("Cannot write the gateway's status; retrying", { err });
      }
      this.#isFailing = true;
      return false;
    }
  }

  async #write(report: GatewayReport, signal: AbortSignal): Promise<void> {
    const { client, identity } = this.#options;
    const { namespace, egress, pod, addresses, node } = identity;
    const entry: EgressGatewayStatus = {
      name: pod,
      addresses: valuesOf(addresses).map(String),
      ...(node !== undefined && { node }),
      since: this.#since,
      ...report,
    };
    await client.patch(
      EGRESSES,
      { namespace, name: egress },
      { status: { gateways: [entry] } },
      {
        kind: "apply",
        subresource: "status",
        fieldManager: `coil-egress-${pod}`,
        force: true,
        timeoutMs: WRITE_TIMEOUT_MS,
        signal,
      },
    );
  }
}

/** What conditions of the Egress follow from. */
interface News {
  readonly draining: boolean;
  readonly isUnlimited: boolean;
  readonly hasLimited: boolean;
  readonly isConntrackHigh: boolean;
  readonly isPortsHigh: boolean;
  /** Addresses of gateways that nodes have lost. */
  readonly lost: readonly string[];
  /** What the node makes of the own addresses. */
  readonly translated: readonly string[];
}

function newsOf(report: GatewayReport, before: News | undefined): News {
  const { draining = false, unlimited = false } = report;
  const { limitedClients = [], losses = [], translated = [] } = report;
  const isHigh = (percent = 0, was = false) =>
    percent >= (was ? EGRESS_CAPACITY_OK_PERCENT : EGRESS_CAPACITY_LOW_PERCENT);
  return {
    draining,
    isUnlimited: unlimited,
    hasLimited: limitedClients.length > 0,
    isConntrackHigh: isHigh(report.conntrackPercent, before?.isConntrackHigh),
    isPortsHigh: isHigh(report.snatPortsPercent, before?.isPortsHigh),
    lost: losses.flatMap(({ address, nodes }) => nodes > 0 ? [address] : [])
      .sort(compareText),
    translated: translated.map(({ address, seenAs }) => `${address} ${seenAs}`),
  };
}

/** What is written: percentages only of what the gateway is short of, and those only when they are others; likewise who has the most of it. */
function entryOf(
  {
    conntrackPercent,
    largestClient,
    snatPortsPercent,
    snatPortsDestination,
    snatPortsClient,
    probingNodes,
    ...rest
  }: GatewayReport,
  { news, written }: {
    readonly news: News;
    readonly written: GatewayReport | undefined;
  },
): GatewayReport {
  const conntrack = steady(conntrackPercent, written?.conntrackPercent);
  const ports = steady(snatPortsPercent, written?.snatPortsPercent);
  const nodes = steady(probingNodes, written?.probingNodes, {
    step: STEP_NODES * (probingNodes ?? 0),
  });
  return {
    ...rest,
    ...(probingNodes !== undefined && { probingNodes: nodes }),
    ...(news.isConntrackHigh && {
      conntrackPercent: conntrack,
      ...(largestClient !== undefined && { largestClient }),
    }),
    ...(news.isPortsHigh && {
      snatPortsPercent: ports,
      ...(snatPortsDestination !== undefined && { snatPortsDestination }),
      ...(snatPortsClient !== undefined && { snatPortsClient }),
    }),
  };
}

/** The number that was written, as long as the new one differs little. */
function steady(
  now = 0,
  written: number | undefined,
  { step = STEP_PERCENT }: { readonly step?: number } = {},
): number {
  return written !== undefined && Math.abs(now - written) < step
    ? written
    : now;
}
