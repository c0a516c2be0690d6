import {
  abortable,
  type Clock,
  Gate,
  jittered,
  systemClock,
  TaskGroup,
  withTimeout,
} from "../../../lib/async/mod.ts";
import type { Attempt } from "../../../lib/aws/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import {
  type Action,
  type BlockUse,
  type Call,
  type Eni,
  type EniBlock,
  type Goal,
  learn,
  type Outcome,
  type Pace,
  type Plan,
  plan,
  type Situation,
} from "../../../lib/vpc/mod.ts";
import type { NodeScheduling } from "../cluster/node_source.ts";
import { NodeAccount } from "../cloud/account.ts";
import { type FleetView, fleetViewOf, givesAddresses } from "./fleet_view.ts";
import { GrantedBlocks } from "./granted_blocks.ts";
import type { VpcHostKeeper } from "./host.ts";
import type { VpcOptions } from "../cloud/options.ts";
import { MetadataSight } from "../cloud/sight.ts";
import { type Addresses, BlockUses } from "./uses.ts";
import { CloudView, type Scene } from "../cloud/view.ts";
import { Watcher } from "./watcher.ts";

const log = getLogger("vpc");

/** Lists of EC2 cost the account; those of the metadata service cost little. */
const EC2_CALM_MS = 300_000;
const IMDS_CALM_MS = 30_000;
const EC2_SOON = { initialMs: 500, maxMs: 20_000 };
const IMDS_SOON = { initialMs: 100, maxMs: 2_000 };

/** ENIs without an instance are looked for so long after the start, for what an earlier process has begun. */
const START_MS = 15_000;

/** Without any reason, plans are made so often. */
const PLAN_MS = 60_000;

/** While the kernel lacks something, it is tried again so often. */
const RETRY_MS = 500;

/** How long a stop waits for calls that are under way, within the grace of the daemon. */
const STOP_MS = 15_000;

export interface FleetOptions {
  readonly options: VpcOptions;
  readonly env: Pick<Deno.Env, "get">;
  readonly host: VpcHostKeeper;
  readonly addresses: Addresses;
  /** Which pods the node is to have; undefined while that is not known. */
  readonly scheduling: () => NodeScheduling | undefined;
  /** How long a block must have been empty before it goes back. */
  readonly returnDelayMs: number;
  /** Called when a request to EC2 has ended. */
  readonly onAttempt: (attempt: Attempt) => void;
  /** Called when a call of the plan begins. */
  readonly onAction: (action: Action) => void;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/** Runs the plan of the node's ENIs: looks at EC2 and the metadata service, and makes the calls. */
export class VpcFleet implements Disposable {
  readonly #options: FleetOptions;
  readonly #clock: Clock;
  readonly #account: NodeAccount;
  readonly #view: CloudView;
  readonly #uses: BlockUses;
  readonly #sights: MetadataSight;
  readonly #atEc2: Watcher;
  readonly #atImds: Watcher;
  readonly #granted: GrantedBlocks;
  readonly #open = new Set<Promise<void>>();
  readonly #published = new Gate();
  #startedAt = 0;
  #pace: Pace = new Map();
  #enis: readonly Eni[] = [];
  #plan: Plan | undefined;
  #lastRefusal: unknown;
  readonly #failures = new RepeatFilter();
  #woken = new Gate();
  #changed = new Gate();

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#account = new NodeAccount(options);
    this.#uses = new BlockUses(options.addresses, options.options);
    const { families } = options.options;
    this.#view = new CloudView((list) => this.#account.enisOf(list), {
      families,
    });
    this.#granted = new GrantedBlocks({ families });
    this.#sights = new MetadataSight(this.#account.imds, families);
    this.#atEc2 = new Watcher({
      // mutate: a word of a record.
      what: "EC2",
      look: (signal) => this.#lookAtEc2(signal),
      isAwaited: () => this.#view.awaitsEc2,
      soon: EC2_SOON,
      calmMs: EC2_CALM_MS,
    });
    this.#atImds = new Watcher({
      // mutate: a word of a record.
      what: "the instance metadata service",
      look: (signal) => this.#lookAtImds(signal),
      isAwaited: () => this.#view.awaitsMetadata,
      soon: IMDS_SOON,
      calmMs: IMDS_CALM_MS,
    });
  }

  /** Resolves when it is known what the node has. */
  get published(): Promise<void> {
    return this.#published.wait();
  }

  /** All blocks that EC2 or the metadata service shows. */
  get blocks(): readonly EniBlock[] {
    return this.#granted.all;
  }

  /** How many ENIs the instance has that give addresses. */
  get eniCount(): number {
    return this.#enis.filter(givesAddresses).length;
  }

  /** Whether the node gets no new pods, and so no new ENIs. */
  get isCordoned(): boolean {
    return this.#options.scheduling()?.isCordoned === true;
  }

  /** What is known of the ENIs; undefined before it is known which instance this is. */
  get view(): FleetView | undefined {
    const { instance, goal } = this.#account;
    if (instance === undefined || goal === undefined) return undefined;
    return fleetViewOf({
      instance,
      goal,
      enis: this.#enis,
      pace: this.#pace,
      unmet: this.unmet,
      isCordoned: this.isCordoned,
      families: this.#options.options.families,
      now: this.#clock.nowMs(),
    });
  }

  /** What the last plan could not get, and why. */
  get unmet(): Plan["unmet"] {
    return this.#plan?.unmet;
  }

  /** Whether the instance has all that it may have, and nothing is on its way. */
  get isFull(): boolean {
    const { why } = this.unmet ?? {};
    return (why === "limit" || why === "fixed") && !this.#view.isCalling &&
      !this.#view.awaitsEc2 && !this.#view.awaitsMetadata &&
      // The kernel may not have them yet.
      this.blocks.every(({ usable }) => usable);
  }

  /** The last refusal of EC2, until a call succeeds. */
  get lastRefusal(): unknown {
    return this.#lastRefusal;
  }

  /** Whether the block of a name is to go back. */
  isRetiring(name: string): boolean {
    return this.#granted.isRetiring(name);
  }

  /** Calls back when blocks have come, changed or gone, or others are to go back. */
  subscribe(listener: () => void): Disposable {
    return this.#granted.subscribe(listener);
  }

  /** Asks for a plan: pods came, went or wait. */
  wake(): void {
    this.#woken.open();
  }

  /** Waits until a plan was made, with all that had been shown before. */
  async planned({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    await this.#changed.wait({ signal });
  }

  /** Gives blocks back. Resolves when EC2 no longer has them. */
  async release(
    names: readonly string[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<void> {
    this.#granted.release(names);
    const { released } = this.#granted;
    const isLeft = () => names.some((name) => released.has(name));
    this.wake();
    while (isLeft()) await this.planned({ signal });
  }

  /**
   * Runs until the signal, and waits then for calls under way.
   *
   * @throws {RangeError} when the instance type does not allow what the flags say
   */
  async run(signal: AbortSignal): Promise<void> {
    await this.#account.open(signal);
    this.#startedAt = this.#clock.nowMs();
    try {
      await using tasks = new TaskGroup({ signal });
      tasks.run("looks at EC2", (s) => this.#atEc2.run(s));
      tasks.run("looks at the instance metadata", (s) => this.#atImds.run(s));
      tasks.run("plans of ENIs", (s) => this.#planAll(s));
      await tasks.wait();
    } finally {
      const under = [...this.#open];
      if (under.length > 0) {
        log.info("Waiting for calls to EC2", { calls: under.length });
      }
      const ended = Promise.allSettled(under);
      await withTimeout(STOP_MS, (signal) => abortable(ended, signal))
        .catch(() => {}); // the time is over
    }
  }

  [Symbol.dispose](): void {
    this.#account[Symbol.dispose]();
  }

  async #lookAtEc2(signal: AbortSignal): Promise<void> {
    const lookedAt = this.#clock.nowMs();
    // What an earlier process has begun may come yet.
    const isNew = lookedAt < this.#startedAt + START_MS;
    const loose = isNew || this.#view.mayHaveLoose;
    const enis = await this.#account.list({ loose, signal });
    this.#view.saw({ enis, lookedAt });
    // Others attach ENIs and assign addresses, too.
    if (this.#view.awaitsMetadata) this.#atImds.ask();
    this.wake();
  }

  async #lookAtImds(signal: AbortSignal): Promise<void> {
    const sight = await this.#sights.look({ signal });
    if (!sight.enis.some(({ device }) => device === 0)) {
      throw new Error(
        "Cannot use the instance metadata: it has no primary ENI",
      );
    }
    if (this.#view.sawMetadata(sight)) this.#atEc2.ask();
    this.wake();
  }

  async #planAll(signal: AbortSignal): Promise<void> {
    let dueAt = Infinity;
    for (;;) {
      const woken = this.#woken = new Gate();
      const isDone = await this.#tryPlan(signal);
      const nowMs = this.#clock.nowMs();
      // The time may have come while the plan was made, which then does not have it any longer.
      if (nowMs >= dueAt) this.#atEc2.ask();
      dueAt = this.#plan?.dueAt ?? Infinity;
      const mostMs = isDone ? PLAN_MS : RETRY_MS;
      const leftMs = Math.min(jittered(mostMs), Math.max(1, dueAt - nowMs));
      await woken.waitAtMost(leftMs, { signal });
    }
  }

  /** Returns false when the kernel is not yet as it should be. */
  async #tryPlan(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#planOnce(signal);
      return this.#options.host.isComplete;
    } catch (err) {
      // mutate: else there is a record more at the end.
      signal.throwIfAborted();
      if (this.#failures.passes(err)) {
        log.error("Cannot follow the node's ENIs; retrying", { err });
      }
      return false;
    }
  }

  async #planOnce(signal: AbortSignal): Promise<void> {
    const [scene, goal] = [this.#view.scene(), this.#account.goal];
    if (scene === undefined || goal === undefined) return;
    const { enis, sight } = scene;
    const { ready } = await this.#options.host.follow(enis, sight);
    const uses = await this.#uses.read(enis, {
      now: this.#clock.nowMs(),
      released: this.#granted.released,
    });
    signal.throwIfAborted();
    // What the kernel was asked for is what pods can have.
    this.#granted.publish(this.#situation(scene, { goal, uses }), {
      ready,
      sight,
    });
    this.#published.open();
    // A call may have ended in the meantime: it must not be planned again.
    const now = this.#view.scene() ?? scene;
    this.#enis = now.enis;
    const made = this.#plan = plan(this.#situation(now, { goal, uses }));
    for (const action of made.actions) this.#begin(action);
    this.#granted.retire(made.retire);
    const changed = this.#changed;
    this.#changed = new Gate();
    changed.open();
  }

  #situation(
    { enis, lookedAt }: Scene,
    { goal, uses }: {
      readonly goal: Goal;
      readonly uses: ReadonlyMap<string, BlockUse>;
    },
  ): Situation {
    const primary = enis.find(({ ec2 }) => ec2?.ownership === "primary");
    const scheduling = this.#options.scheduling();
    return {
      now: this.#clock.nowMs(),
      startedAt: this.#startedAt,
      enis,
      lookedAt,
      uses,
      waiting: this.#options.addresses.waiting(),
      limits: goal.limits,
      targets: { ...goal.targets, maxPods: scheduling?.maxPods ?? Infinity },
      subnet: primary?.ec2?.subnet ?? "",
      ipv4: this.#options.options.families.includes("ipv4"),
      ipv6: this.#options.options.families.includes("ipv6"),
      calls: this.#view.calls,
      pace: this.#pace,
      returnDelayMs: this.#options.returnDelayMs,
      attaches: !this.isCordoned,
      provisions: this.#options.options.provision,
    };
  }

  #begin(action: Action): void {
    const call: Call = { action };
    this.#options.onAction(action);
    log.info("Calling EC2", fieldsOf(action));
    this.#view.begin(call);
    const done = this.#account.perform(action, {
      groups: this.#view.groups,
      onError: (err) => {
        this.#lastRefusal = err;
        log.warn("EC2 refused or did not answer a call", {
          action: action.kind,
          err,
        });
      },
    }).then((outcome) => this.#ended(call, outcome))
      .finally(() => this.#open.delete(done));
    this.#open.add(done);
  }

  #ended(call: Call, outcome: Outcome): void {
    const { action } = call;
    const now = this.#clock.nowMs();
    this.#view.end(call, { at: now, outcome });
    this.#pace = learn(this.#pace, { action, outcome }, {
      now,
      random: Math.random,
    });
    if (outcome.kind === "done") this.#lastRefusal = undefined;
    this.#atImds.ask();
    const isSlow = ["attach", "detach"].includes(action.kind);
    if (isSlow || outcome.kind === "unknown") this.#atEc2.ask();
    this.wake();
  }
}

// mutate: fields of a record.
function fieldsOf(action: Action): Record<string, unknown> {
  return action.kind === "unassign"
    ? { ...action, blocks: action.blocks.map(String) }
    : { ...action };
}
