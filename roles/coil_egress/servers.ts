import { announceHandler } from "../../lib/announce/mod.ts";
import type { TaskGroup } from "../../lib/async/mod.ts";
import {
  type Registry,
  serveAt,
  serveMonitoring,
} from "../../lib/telemetry/mod.ts";
import type { Admission } from "./admission/admission.ts";
import type { TokenReviews } from "./admission/token_reviews.ts";
import type { EgressOptions } from "./flags.ts";
import type { Lifecycle } from "./lifecycle/lifecycle.ts";
import type { EgressMetrics } from "./observe/metrics.ts";
import type { ReportedLosses } from "./observe/reported_losses.ts";
import type { TranslatedSources } from "./observe/translated_sources.ts";

/** A node may start all its pods at the same time, and each announces itself; a kept connection outlives those of coild. */
const ANNOUNCE_LIMITS = {
  maxConnections: 512,
  maxPerPeer: 128,
  perSecond: 500,
  idleMs: 150_000,
};

export interface ServedGateway {
  readonly options: EgressOptions;
  readonly registry: Registry;
  readonly lifecycle: Lifecycle;
  readonly metrics: EgressMetrics;
  readonly reviews: TokenReviews;
  readonly admission: Admission;
  readonly losses: ReportedLosses;
  readonly translated: TranslatedSources;
}

export function serve(gateway: ServedGateway, tasks: TaskGroup): void {
  const { options, registry, lifecycle, metrics } = gateway;
  const { reviews, admission, losses, translated } = gateway;
  const { signal } = tasks;
  tasks.runAll(serveMonitoring({
    ...options,
    registry,
    readyz: { "pod-sync": () => lifecycle.check() },
    signal,
  }));
  const announcements = serveAt(
    options.announceAddress,
    announceHandler({
      authenticate: (token, peer) => reviews.callerOf(token, peer),
      admit: (announcement, rest) => admission.admit(announcement, rest),
      takeLosses: (report, caller) => losses.take(report, caller),
      takeSources: (report, caller) => translated.take(report, caller),
      onAnswer: (status) => metrics.announced(status),
    }),
    { flag: "--announce-addr", limits: ANNOUNCE_LIMITS, signal },
  );
  tasks.run("announcements server", () => announcements.finished);
}
