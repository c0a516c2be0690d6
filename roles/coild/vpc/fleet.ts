import {
  type Clock,
  Gate,
  jittered,
  systemClock,
  TaskGroup,
} from "../../../lib/async/mod.ts";
import type { Attempt } from "../../../lib/aws/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import {
  type Action,
  type BlockUse,
  type Eni,
  type EniBlock,
  type Goal,
  type Plan,
  plan,
  type Situation,
} from "../../../lib/vpc/mod.ts";
import type { NodeScheduling } from "../cluster/node_source.ts";
import { NodeAccount } from "../cloud/account.ts";
import { type FleetView, fleetViewOf, givesAddresses } from "./fleet_view.ts";
import { GrantedBlocks } from "./granted_blocks.ts";
import type { VpcHostKeeper } from "./host.ts";
import { CloudLooks } from "./looks.ts";
import type { VpcOptions } from "../cloud/options.ts";
import { PlanCalls } from "./plan_calls.ts";
import { type Addresses, BlockUses } from "./uses.ts";
import { CloudView, type Scene } from "../cloud/view.ts";

const log = getLogger("vpc");

/** Without any reason, plans are made so often. */
const PLAN_MS = 60_000;

/** While the kernel lacks something, it is tried again so often. */
const RETRY_MS = 500;

/** A plan takes as long as a quarter of an ADD: it waits until those that changed something have their answers. */
const SOON_MS = 20;

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
  readonly #looks: CloudLooks;
  readonly #calls: PlanCalls;
  readonly #granted: GrantedBlocks;
  readonly #published = new Gate();
  #startedAt = 0;
  #enis: readonly Eni[] = [];
  #plan: Plan | undefined;
  readonly #failures = new RepeatFilter();
  #woken = new Gate();
  #changed = new Gate();
  #soon: Disposable | undefined;

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
    const [account, view, clock] = [this.#account, this.#view, this.#clock];
    this.#looks = new CloudLooks({
      account,
      view,
      clock,
      families,
      startedAt: () => this.#startedAt,
      onLook: () => this.wake(),
    });
    this.#calls = new PlanCalls({
      account,
      view,
      clock,
      onBegin: options.onAction,
      onEnd: (action, outcome) => {
        this.#looks.askAfter(action, outcome);
        this.wake();
      },
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
      pace: this.#calls.pace,
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
    return this.#calls.lastRefusal;
  }

  /** Whether the block of a name is to go back. */
  isRetiring(name: string): boolean {
    return this.#granted.isRetiring(name);
  }

  /** Calls back when blocks have come, changed or gone, or others are to go back. */
  subscribe(listener: () => void): Disposable {
    return this.#granted.subscribe(listener);
  }

  /** Asks for a plan at once. */
  wake(): void {
    this.#woken.open();
  }

  /** Asks for one plan for all pods that come or go now. */
  wakeSoon(): void {
    this.#soon ??= this.#clock.after(SOON_MS, () => {
      this.#soon = undefined;
      this.wake();
    });
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
   * Runs until the signal, and waits then for calls that were sent.
   *
   * @throws {RangeError} when the instance type does not allow what the flags say
   */
  async run(signal: AbortSignal): Promise<void> {
    await this.#account.open(signal);
    this.#startedAt = this.#clock.nowMs();
    try {
      await using tasks = new TaskGroup({ signal });
      tasks.runAll(this.#looks.loops);
      tasks.run("limits of the instance", async (s) => {
        // mutate: without the call behind it the plan comes half a second later.
        await this.#account.readLimits(s);
        this.wake();
      });
      tasks.run("plans of ENIs", (s) => this.#planAll(s));
      await tasks.wait();
    } finally {
      await this.#calls.finish();
    }
  }

  [Symbol.dispose](): void {
    this.#soon?.[Symbol.dispose]();
    this.#account[Symbol.dispose]();
  }

  async #planAll(signal: AbortSignal): Promise<void> {
    let dueAt = Infinity;
    for (;;) {
      const woken = this.#woken = new Gate();
      const isDone = await this.#tryPlan(signal);
      const nowMs = this.#clock.nowMs();
      // The time may have come while the plan was made, which then does not have it any longer.
      if (nowMs >= dueAt) this.#looks.askEc2();
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
    // mutate: else a call begins that is not sent.
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
    for (const action of made.actions) this.#calls.begin(action, { signal });
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
      pace: this.#calls.pace,
      returnDelayMs: this.#options.returnDelayMs,
      attaches: !this.isCordoned,
      provisions: this.#options.options.provision,
    };
  }
}
