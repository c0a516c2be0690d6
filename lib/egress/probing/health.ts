/**
 * What a node thinks of a gateway by the probes that it sends, and which
 * gateways its clients avoid for that. Pure: the prober says which probes were answered.
 *
 * @module
 */

/** For how long a gateway that was lost is held off. */
export interface HealthLimits {
  /** How long a gateway that answers again gets no new connections; twice as long with each further loss. */
  readonly holdMs: number;
  readonly maxHoldMs: number;
  /** A gateway that was healthy for so long is held off as after its first loss. */
  readonly calmMs: number;
}

/** What a node thinks of one gateway. */
export type GatewayHealth =
  /** It has never answered: one of another version does not, and counts as it is in the API. */
  | { readonly kind: "unknown"; readonly misses: number }
  | {
    readonly kind: "healthy";
    readonly losses: number;
    readonly sinceMs: number;
  }
  | {
    /** Its last probes have had no answer. */
    readonly kind: "doubted";
    readonly losses: number;
    readonly sinceMs: number;
    readonly misses: number;
  }
  | { readonly kind: "lost"; readonly losses: number }
  /** It answers again, and gets no new connections until then. */
  | {
    readonly kind: "held";
    readonly losses: number;
    readonly untilMs: number;
    readonly misses: number;
  };

/** What a gateway is before its first probe. */
export function newHealth(): GatewayHealth {
  return { kind: "unknown", misses: 0 };
}

/** What a gateway is that was lost before a start. */
export function lostBefore(): GatewayHealth {
  return { kind: "lost", losses: 1 };
}

/** A probe that was answered, or was not while others were. */
export interface Probe {
  readonly isAnswered: boolean;
  readonly nowMs: number;
  /** So many in a row without an answer, and the gateway is lost. */
  readonly misses: number;
}

/** What a gateway is after one probe more. */
export function afterProbe(
  health: GatewayHealth,
  probe: Probe,
  limits: HealthLimits,
): GatewayHealth {
  return probe.isAnswered
    ? afterAnswer(health, probe.nowMs, limits)
    : afterMiss(health, probe, limits);
}

/** Whether a gateway may be lost soon. */
export function isInDoubt(health: GatewayHealth): boolean {
  return health.kind === "doubted" ||
    health.kind === "held" && health.misses > 0;
}

function afterAnswer(
  health: GatewayHealth,
  nowMs: number,
  limits: HealthLimits,
): GatewayHealth {
  switch (health.kind) {
    case "unknown":
      return { kind: "healthy", losses: 0, sinceMs: nowMs };
    case "healthy":
      return health;
    case "doubted": {
      const { losses, sinceMs } = health;
      return { kind: "healthy", losses, sinceMs };
    }
    case "lost": {
      const { losses } = health;
      const untilMs = nowMs + holdMs(losses, limits);
      return { kind: "held", losses, untilMs, misses: 0 };
    }
    case "held":
      if (nowMs < health.untilMs) return { ...health, misses: 0 };
      return { kind: "healthy", losses: health.losses, sinceMs: nowMs };
  }
}

function afterMiss(
  health: GatewayHealth,
  { nowMs, misses: enough }: Probe,
  limits: HealthLimits,
): GatewayHealth {
  switch (health.kind) {
    case "lost":
      return health;
    case "unknown":
      return { kind: "unknown", misses: health.misses + 1 };
    case "held": {
      const { losses, misses } = health;
      if (misses + 1 < enough) return { ...health, misses: misses + 1 };
      return { kind: "lost", losses: losses + 1 };
    }
    default: {
      const { losses, sinceMs } = health;
      const misses = health.kind === "doubted" ? health.misses + 1 : 1;
      if (misses < enough) return { kind: "doubted", losses, sinceMs, misses };
      const isCalm = nowMs - sinceMs >= limits.calmMs;
      return { kind: "lost", losses: isCalm ? 1 : losses + 1 };
    }
  }
}

function holdMs(losses: number, { holdMs, maxHoldMs }: HealthLimits): number {
  return Math.min(maxHoldMs, holdMs * 2 ** (losses - 1));
}

/** The gateways that get no new connections. Where all are lost or held off, the held ones are good enough. */
export function avoided(
  gateways: ReadonlyMap<string, GatewayHealth>,
): ReadonlySet<string> {
  const namesOf = (...kinds: readonly GatewayHealth["kind"][]) =>
    [...gateways].flatMap(([name, { kind }]) =>
      kinds.includes(kind) ? [name] : []
    );
  const avoided = namesOf("lost", "held");
  return new Set(
    avoided.length < gateways.size ? avoided : namesOf("lost"),
  );
}
