import { type Clock, sleep, systemClock } from "../../async/mod.ts";
import type { Address } from "../../inet/mod.ts";
import { avoided, type GatewayHealth } from "./health.ts";
import { type OpenProbeSocket, ProbeLine } from "./probe_line.ts";
import { ProbedGateway } from "./probed_gateway.ts";
import { bestWitnesses, type Witness, witnessed } from "./witnesses.ts";

/** Between two rounds of probes of all gateways, give or take a fifth, as all of these. */
const PERIOD_MS = 250;
/** How long an answer may take, of a gateway that is not in doubt; one that comes later ends the doubt. */
const ANSWER_MS = 60;
/** Between two probes of a gateway in doubt. */
const DOUBT_PERIOD_MS = 28;
/** How many probes a node sends in a second at most; with more gateways rounds are rarer. */
const MAX_PER_SECOND = 2_000;
/** Likewise to gateways in doubt and their witnesses, for as long as there are some. */
const MAX_IN_DOUBT_PER_SECOND = 2_000;
/** So many gateways of a group are asked each time that one is in doubt. */
const WITNESSES = 3;

/** Gateways of which any can stand in for another one: those of an Egress, of one family. */
export interface GatewayGroup {
  /** Name of the Egress; it has a group for each family. */
  readonly name: string;
  readonly gateways: readonly Address[];
  /** UIDs of their pods, by address: another pod is another gateway. */
  readonly uids?: ReadonlyMap<string, string> | undefined;
}

/** A gateway that is lost while others answer. */
export interface GatewayLoss {
  readonly gateway: Address;
  /** Since the last probe that was answered was sent; undefined of one that is lost since before the start. */
  readonly silentMs?: number | undefined;
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
  /** Called when `avoided` or `lost` has changed, or a recalled gateway is in a group, with the names of the groups that this concerns. */
  readonly onChange: (groups: ReadonlySet<string>) => void;
  /** Called before that for each gateway that is lost now. */
  readonly onLoss: (loss: GatewayLoss) => void;
  /** Called when `suspects` has changed. */
  readonly onSuspects: () => void;
  readonly clock?: Clock;
  /** In [0, 1); for tests. */
  readonly random?: () => number;
}

/**
 * Probes the gateways of a node's clients, in rounds, and those in doubt more
 * often. A probe without an answer counts only if another gateway of the group
 * answers one that was sent no earlier: else the node is cut off, for all that is
 * known.
 */
export class GatewayProber implements Disposable {
  readonly #with: ProberOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #probed = new Map<string, ProbedGateway>();
  /** When the next round is due. */
  #roundMs = -Infinity;
  /** Gateways that are lost since before the start, and not followed yet. */
  readonly #recalled = new Set<string>();
  #avoided: ReadonlySet<string> = new Set();
  #lost: ReadonlySet<string> = new Set();
  #suspects: ReadonlySet<string> = new Set();

  constructor(options: ProberOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** Gateways that get no new connections, as text. */
  get avoided(): ReadonlySet<string> {
    return this.#avoided;
  }

  /** The gateways among the avoided ones that do not answer: connections through them have no future. */
  get lost(): ReadonlySet<string> {
    return this.#lost;
  }

  /** Gateways that work and of which many probes are lost, as text. */
  get suspects(): ReadonlySet<string> {
    return this.#suspects;
  }

  /** What is thought of each gateway. */
  get health(): ReadonlyMap<string, GatewayHealth["kind"]> {
    return new Map(
      this.#probed.entries().map(([key, { health }]) => [key, health.kind]),
    );
  }

  /** Takes gateways for lost that were so before a start, until they answer. */
  recall(gateways: readonly Address[]): void {
    const recalled = gateways.filter((gateway) => {
      const name = gateway.toString();
      const probed = this.#probed.get(name);
      // What is known by a probe is known better.
      if (probed !== undefined) return probed.recall();
      this.#recalled.add(name);
      return true;
    });
    const lost = new Set(recalled.map(String));
    const known = this.#lost;
    this.#avoided = this.#avoided.union(lost);
    this.#lost = known.union(lost);
    for (const gateway of recalled) {
      if (!known.has(gateway.toString())) this.#with.onLoss({ gateway });
    }
    this.#reportChange(this.#with.groups(), lost);
  }

  /** Probes until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    using _closed = this;
    for (;;) {
      this.#step();
      await sleep(this.#restMs(), { signal, clock: this.#clock });
    }
  }

  [Symbol.dispose](): void {
    for (const each of this.#probed.values()) each[Symbol.dispose]();
    // mutate: it is not used again.
    this.#probed.clear();
  }

  #spread(ms: number): number {
    return ms * (0.8 + 0.4 * this.#random());
  }

  /** Whether no gateway is probed, and nothing is thought of any. */
  get #isAtRest(): boolean {
    return this.#probed.size + this.#avoided.size + this.#suspects.size === 0;
  }

  /** Takes answers, judges what has none, and sends what is due. */
  #step(): void {
    const groups = this.#with.groups();
    const nowMs = this.#clock.nowMs();
    if (groups.length === 0 && this.#isAtRest) {
      // mutate: on a node without clients, four times a second; it makes nothing that has to be collected.
      this.#roundMs = nowMs + this.#spread(PERIOD_MS);
      return;
    }
    this.#follow(groups);
    for (const each of this.#probed.values()) each.takeAnswer(nowMs);
    this.#missLate(groups, nowMs);
    this.#decide(groups);
    this.#suspect();
    this.#send(groups, nowMs);
  }

  #missLate(groups: readonly GatewayGroup[], nowMs: number): void {
    const late = [...this.#probed.values()]
      .filter(({ missedMs = Infinity }) => missedMs <= nowMs);
    if (late.length === 0) return;
    const counting = new Set(
      groups.flatMap((group) => witnessed(this.#witnesses(group))),
    );
    for (const each of late) {
      each.miss(nowMs, { counts: counting.has(each.name) });
    }
  }

  #probedOf({ gateways }: GatewayGroup): ProbedGateway[] {
    return gateways.flatMap((each) => this.#probed.get(each.toString()) ?? []);
  }

  #witnesses(group: GatewayGroup): Witness[] {
    return this.#probedOf(group).map(
      ({ name, address, sentMs, answeredMs }) => ({
        name,
        isLocal: this.#with.isLocal(address),
        sentMs,
        answeredMs,
      }),
    );
  }

  /** Those in doubt that are to be asked now, and who is asked with them. */
  #doubted(groups: readonly GatewayGroup[]): ReadonlySet<string> {
    const doubted = new Set(
      [...this.#probed.values()]
        .filter((each) => each.isDoubted && each.missedMs === undefined)
        .map(({ name }) => name),
    );
    if (doubted.size === 0) return doubted;
    const witnesses = groupsWith(doubted, groups).flatMap((group) => {
      const others = this.#witnesses(group)
        .filter(({ name }) => this.#probed.get(name)?.isDoubted === false);
      return bestWitnesses(others, WITNESSES);
    });
    return doubted.union(new Set(witnesses));
  }

  #send(groups: readonly GatewayGroup[], nowMs: number): void {
    const doubted = this.#doubted(groups);
    const isRound = nowMs >= this.#roundMs;
    if (isRound) this.#roundMs = nowMs + this.#spread(this.#periodMs());
    const answerMs = this.#spread(ANSWER_MS);
    const doubtMs = this.#spread(
      Math.max(DOUBT_PERIOD_MS, msFor(doubted.size, MAX_IN_DOUBT_PER_SECOND)),
    );
    for (const each of this.#probed.values()) {
      if (!(isRound && each.isDue(nowMs)) && !doubted.has(each.name)) continue;
      each.send(nowMs, { answerMs, doubtMs });
    }
  }

  #periodMs(): number {
    return Math.max(PERIOD_MS, msFor(this.#probed.size, MAX_PER_SECOND));
  }

  /** Until there is something to do. */
  #restMs(): number {
    const nextMs = [...this.#probed.values()]
      // One that was late waits for the next round.
      .reduce((ms, { missedMs = ms }) => Math.min(ms, missedMs), this.#roundMs);
    return Math.max(0, nextMs - this.#clock.nowMs());
  }

  #follow(groups: readonly GatewayGroup[]): void {
    const wanted = new Map(
      groups.flatMap(({ gateways }) => gateways)
        .map((address) => [address.toString(), address]),
    );
    const uids = new Map(
      groups.flatMap(({ uids = new Map<string, string>() }) => [...uids]),
    );
    for (const [name, probed] of this.#probed) {
      if (wanted.has(name) && probed.isPod(uids.get(name))) continue;
      probed[Symbol.dispose]();
      this.#probed.delete(name);
    }
    const { open, port } = this.#with;
    const recalled = this.#recalled.intersection(wanted);
    for (const [name, address] of wanted) {
      if (this.#probed.has(name)) continue;
      const line = new ProbeLine(address, port, open);
      const probed = new ProbedGateway(address, line, this.#clock.nowMs());
      if (this.#recalled.delete(name)) probed.recall();
      this.#probed.set(name, probed);
    }
    // mutate: without any no group is concerned.
    if (recalled.size > 0) this.#reportChange(groups, recalled);
  }

  #decide(groups: readonly GatewayGroup[]): void {
    const names = new Set(
      groups.flatMap((group) => [...this.#avoidedOf(group)]),
    ).union(this.#recalled);
    const isLost = (name: string) =>
      this.#recalled.has(name) ||
      this.#probed.get(name)?.health.kind === "lost";
    const lost = new Set(names.values().filter(isLost));
    const changed = names.symmetricDifference(this.#avoided)
      .union(lost.symmetricDifference(this.#lost));
    if (changed.size === 0) return;
    const newlyLost = lost.difference(this.#lost);
    this.#avoided = names;
    this.#lost = lost;
    for (const name of newlyLost) this.#reportLoss(name);
    this.#reportChange(groups, changed);
  }

  #suspect(): void {
    const suspects = new Set(
      this.#probed.values().filter(({ isSuspect }) => isSuspect)
        .map(({ name }) => name),
    );
    if (suspects.symmetricDifference(this.#suspects).size === 0) return;
    this.#suspects = suspects;
    this.#with.onSuspects();
  }

  #reportChange(
    groups: readonly GatewayGroup[],
    changed: ReadonlySet<string>,
  ): void {
    const concerned = groupsWith(changed, groups);
    if (concerned.length === 0) return;
    this.#with.onChange(new Set(concerned.map(({ name }) => name)));
  }

  #avoidedOf(group: GatewayGroup): ReadonlySet<string> {
    const probed = this.#probedOf(group);
    return avoided(new Map(probed.map(({ name, health }) => [name, health])));
  }

  #reportLoss(name: string): void {
    const probed = this.#probed.get(name);
    if (probed === undefined) return;
    const silentMs = this.#clock.nowMs() - probed.answeredMs;
    this.#with.onLoss({ gateway: probed.address, silentMs });
  }
}

/** The groups that have any of these gateways. */
function groupsWith(
  names: ReadonlySet<string>,
  groups: readonly GatewayGroup[],
): GatewayGroup[] {
  return groups.filter(({ gateways }) =>
    gateways.some((each) => names.has(each.toString()))
  );
}

/** What so many probes take at this rate. */
function msFor(probes: number, perSecond: number): number {
  return 1_000 * probes / perSecond;
}
