import { type Clock, sleep, systemClock } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import {
  afterProbe,
  avoided,
  type GatewayHealth,
  type HealthLimits,
  newHealth,
} from "./health.ts";
import { type OpenProbeSocket, ProbeLine } from "./probe_line.ts";
import { witnessed } from "./witnesses.ts";

/** Between two rounds of probes, give or take a fifth. */
const PERIOD_MS = 250;
/** Likewise, while a gateway is suspected that may be lost after the next round. */
const SUSPECT_PERIOD_MS = 100;
/** How many probes a node sends in a second at most, but for the two rounds in which a gateway is suspected; with more gateways rounds are rarer. */
const MAX_PER_SECOND = 400;
/** After so long without an answer another socket is tried. */
const REOPEN_MS = 5_000;
/** So many probes of a gateway that has never answered; further ones are rarer and rarer. */
const EAGER_PROBES = 4;
const MAX_UNKNOWN_MS = 30_000;

const LIMITS: HealthLimits = {
  misses: 3,
  holdMs: 5_000,
  maxHoldMs: 300_000,
  calmMs: 600_000,
};

/** Gateways of which any can stand in for another one: those of an Egress, of one family. */
export interface GatewayGroup {
  /** Several groups may have one name. */
  readonly name: string;
  readonly gateways: readonly Address[];
}

/** A gateway that is lost while others answer. */
export interface GatewayLoss {
  readonly gateway: Address;
  /** Since the last probe that was answered was sent. */
  readonly silentMs: number;
}

/** How a prober works. */
export interface ProberOptions {
  /** The UDP port of the tunnels. */
  readonly port: number;
  readonly open: OpenProbeSocket;
  /** The gateways to probe now. */
  readonly groups: () => readonly GatewayGroup[];
  /** Whether the gateway is on this node. */
  readonly isLocal: (gateway: Address) => boolean;
  /** Called when `avoided` or `lost` has changed, with the names of the groups that this concerns. */
  readonly onChange: (groups: ReadonlySet<string>) => void;
  /** Called before that for each gateway that is lost now. */
  readonly onLoss: (loss: GatewayLoss) => void;
  readonly clock?: Clock;
  /** In [0, 1); for tests. */
  readonly random?: () => number;
}

interface Probed {
  readonly address: Address;
  readonly line: ProbeLine;
  health: GatewayHealth;
  /** When the next probe is due, the last one was sent, and the last one that was answered. */
  dueMs: number;
  sentMs: number;
  answeredMs: number;
  isAwaiting: boolean;
  openedMs: number;
}

/**
 * Probes the gateways of a node's clients, in rounds. A probe without an answer
 * counts only if another gateway of the group answers in the same round: else
 * the node is cut off, for all that is known.
 */
export class GatewayProber implements Disposable {
  readonly #with: ProberOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #probed = new Map<string, Probed>();
  /** Whether a gateway may be lost after the next round. */
  #isClose = false;
  #avoided: ReadonlySet<string> = new Set();
  #lost: ReadonlySet<string> = new Set();

  constructor(options: ProberOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** Gateways that get no new connections, as text. */
  get avoided(): ReadonlySet<string> {
    return this.#avoided;
  }

  /** Those of them that do not answer: connections through them have no future. */
  get lost(): ReadonlySet<string> {
    return this.#lost;
  }

  /** What is thought of each gateway. */
  get health(): ReadonlyMap<string, GatewayHealth["kind"]> {
    return new Map(
      this.#probed.entries().map(([key, { health }]) => [key, health.kind]),
    );
  }

  /** Probes until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    using _closed = this;
    for (;;) {
      this.#round();
      const ms = this.#periodMs() * (0.8 + 0.4 * this.#random());
      await sleep(ms, { signal, clock: this.#clock });
    }
  }

  [Symbol.dispose](): void {
    for (const { line } of this.#probed.values()) line[Symbol.dispose]();
    this.#probed.clear();
  }

  #periodMs(): number {
    if (this.#isClose) return SUSPECT_PERIOD_MS;
    return Math.max(PERIOD_MS, 1_000 * this.#probed.size / MAX_PER_SECOND);
  }

  /** Judges the probes of the last round and sends those of the next one. */
  #round(): void {
    const groups = this.#with.groups();
    this.#follow(groups);
    const nowMs = this.#clock.nowMs();
    const answering = new Set(
      this.#probed.entries().filter(([, { line }]) => line.takeAnswers())
        .map(([key]) => key),
    );
    const silent = groups.flatMap((group) => this.#witnessed(group, answering));
    this.#judge({ answering, silent: new Set(silent), nowMs });
    this.#isClose = silent.some((name) =>
      this.#probed.get(name)?.health.kind === "suspect"
    );
    this.#decide(groups);
    for (const probed of this.#probed.values()) {
      if (probed.dueMs > nowMs) continue;
      probed.line.send();
      probed.sentMs = nowMs;
      probed.isAwaiting = true;
    }
  }

  #witnessed(
    { gateways }: GatewayGroup,
    answering: ReadonlySet<string>,
  ): string[] {
    const local = gateways.filter((each) => this.#with.isLocal(each));
    return witnessed({
      gateways: gateways.map(String),
      answering,
      local: new Set(local.map(String)),
    });
  }

  #follow(groups: readonly GatewayGroup[]): void {
    const wanted = new Map(
      groups.flatMap(({ gateways }) => gateways)
        .map((address) => [address.toString(), address]),
    );
    for (const [key, { line }] of this.#probed) {
      if (wanted.has(key)) continue;
      line[Symbol.dispose]();
      this.#probed.delete(key);
    }
    const { open, port } = this.#with;
    const openedMs = this.#clock.nowMs();
    for (const [key, address] of wanted) {
      if (this.#probed.has(key)) continue;
      this.#probed.set(key, {
        address,
        line: new ProbeLine(address, port, open),
        health: newHealth(),
        dueMs: 0,
        sentMs: 0,
        answeredMs: 0,
        isAwaiting: false,
        openedMs,
      });
    }
  }

  #judge(
    { answering, silent, nowMs }: {
      readonly answering: ReadonlySet<string>;
      /** The gateways of which a missing answer counts. */
      readonly silent: ReadonlySet<string>;
      readonly nowMs: number;
    },
  ): void {
    for (const [key, probed] of this.#probed) {
      const isAnswered = answering.has(key);
      if (!isAnswered && !probed.isAwaiting) continue;
      probed.isAwaiting = false;
      const isUnknown = probed.health.kind === "unknown";
      if (isAnswered || isUnknown || silent.has(key)) {
        const probe = { isAnswered, nowMs };
        probed.health = afterProbe(probed.health, probe, LIMITS);
      }
      if (isAnswered) probed.answeredMs = probed.sentMs;
      else reopenInTime(probed, nowMs);
      probed.dueMs = probed.health.kind === "unknown"
        ? nowMs + unknownWaitMs(probed.health.misses)
        : 0;
    }
  }

  #decide(groups: readonly GatewayGroup[]): void {
    const names = new Set(
      groups.flatMap((group) => [...this.#avoidedOf(group)]),
    );
    const isLost = (name: string) =>
      this.#probed.get(name)?.health.kind === "lost";
    const lost = new Set(names.values().filter(isLost));
    const changed = names.symmetricDifference(this.#avoided)
      .union(lost.symmetricDifference(this.#lost));
    if (changed.size === 0) return;
    const newlyLost = lost.difference(this.#lost);
    this.#avoided = names;
    this.#lost = lost;
    for (const name of newlyLost) this.#tellLoss(name);
    const concerned = groups.filter(({ gateways }) =>
      gateways.some((each) => changed.has(each.toString()))
    );
    this.#with.onChange(new Set(concerned.map(({ name }) => name)));
  }

  #avoidedOf({ gateways }: GatewayGroup): ReadonlySet<string> {
    const health = new Map(gateways.flatMap((gateway) => {
      const probed = this.#probed.get(gateway.toString());
      return probed === undefined ? [] : [[gateway.toString(), probed.health]];
    }));
    return avoided(health);
  }

  #tellLoss(name: string): void {
    const probed = this.#probed.get(name);
    if (probed === undefined) return;
    const silentMs = this.#clock.nowMs() - probed.answeredMs;
    this.#with.onLoss({ gateway: probed.address, silentMs });
  }
}

/** Routes and the node's own addresses may have changed. Not at once: an answer may be late. */
function reopenInTime(probed: Probed, nowMs: number): void {
  const sinceMs = Math.max(probed.answeredMs, probed.openedMs);
  if (nowMs - sinceMs < REOPEN_MS) return;
  probed.line.reopen();
  probed.openedMs = nowMs;
}

/** Gateways of other versions never answer. */
function unknownWaitMs(misses: number): number {
  if (misses < EAGER_PROBES) return 0;
  return Math.min(MAX_UNKNOWN_MS, PERIOD_MS * 2 ** (misses - EAGER_PROBES + 1));
}
