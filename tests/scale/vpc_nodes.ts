// Nodes that start against one EC2 account whose calls are limited: their plans, budgets and pauses are coild's own, EC2
// is a model, and the clock is turned.
import {
  Allowance,
  Backoff,
  type Clock,
  type Rate,
  retry,
  sleep,
} from "../../lib/async/mod.ts";
import { settle } from "../../lib/async/testing.ts";
import { AwsError, CallBudget } from "../../lib/aws/mod.ts";
import type { CallKind } from "../../lib/aws/query/budget.ts";
import {
  type Action,
  type BlockUse,
  type EniCall,
  type EniOutcome,
  learn,
  type Limits,
  mergeEnis,
  type Pace,
  plan,
  type Situation,
  unforgotten,
  withAnswers,
} from "../../lib/vpc/mod.ts";
import type { Targets } from "../../lib/vpc/fleet/targets.ts";
import { Ec2Model, SUBNET } from "../../lib/vpc/fleet/testing.ts";
import { outcomeOf } from "../../roles/coild/cloud/calls.ts";
import { SimClock } from "./clock.ts";

/** What EC2 takes for each call, and what passes between two looks at what is due. */
const CALL_MS = 80;
const STEP_MS = 20;
/** How soon a node looks again while something is being attached, and plans again at the latest. */
const SOON_MS = 1_000;
const LATEST_MS = 60_000;

/** Nodes, and what each of them needs when it starts. */
export interface Starts {
  readonly nodes: number;
  /** Nodes start at any time of it. */
  readonly withinMs: number;
  /** Of the account. */
  readonly rates: Readonly<Record<CallKind, Rate>>;
  readonly limits: Limits;
  readonly targets: Targets;
  /** Pods of each node, which wait from its start on. */
  readonly pods: number;
  readonly random: () => number;
}

/** How one node started. */
export interface Started {
  /** Until EC2 had granted, and the metadata shown, what its pods and targets need. */
  readonly waitedMs: number;
  /** Calls that EC2 let through. */
  readonly made: Readonly<Record<CallKind, number>>;
  /** Calls that it refused because of the rate. */
  readonly refused: number;
}

/** Starts all nodes and waits, in turned time, until each has what it needs. */
export async function startNodes(starts: Starts): Promise<Started[]> {
  const sim = new SimClock();
  const clock: Clock = {
    nowMs: () => sim.nowMs,
    after: (ms, callback) => sim.after(ms, callback),
  };
  const nowMs = clock.nowMs;
  const account = {
    read: new Allowance(starts.rates.read, { nowMs }),
    change: new Allowance(starts.rates.change, { nowMs }),
  };
  const started: Started[] = [];
  for (let n = 0; n < starts.nodes; n++) {
    const node = new Node({ ...starts, clock, account });
    sleep(starts.random() * starts.withinMs, { clock })
      .then(() => node.start()).then((end) => started.push(end));
  }
  while (started.length < starts.nodes) {
    await settle(12);
    sim.runUntil(sim.nowMs + STEP_MS);
  }
  return started;
}

type Account = Readonly<Record<CallKind, Allowance>>;

class Node {
  readonly #options: Starts & { readonly clock: Clock };
  readonly #account: Account;
  readonly #budget: CallBudget;
  readonly #ec2: Ec2Model;
  readonly #made = { read: 0, change: 0 };
  #refused = 0;
  #calls: EniCall[] = [];
  #pace: Pace = new Map();
  #startedAt = 0;
  #onAnswer = (): void => {};

  constructor(
    { account, ...options }: Starts & {
      readonly clock: Clock;
      readonly account: Account;
    },
  ) {
    const { clock, random, limits } = options;
    this.#options = options;
    this.#account = account;
    this.#budget = new CallBudget({ clock, random });
    this.#ec2 = new Ec2Model(limits, "10.0.0.0/24");
  }

  async start(): Promise<Started> {
    const { clock, random } = this.#options;
    const beganAt = this.#startedAt = clock.nowMs();
    // As coild does: which type it is, then its ENIs and those that it may have left.
    await retry(() => this.#call("DescribeInstanceTypes", "read"), {
      clock,
      backoff: new Backoff({ initialMs: 500, maxMs: 30_000, random }),
    });
    await Promise.all([this.#look(), this.#look()]);
    for (let nextMs = this.#act(); nextMs > 0; nextMs = this.#act()) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onAnswer = resolve;
      using _timer = clock.after(nextMs, resolve);
      await promise;
    }
    return {
      waitedMs: clock.nowMs() - beganAt,
      made: this.#made,
      refused: this.#refused,
    };
  }

  async #look(): Promise<void> {
    const { clock } = this.#options;
    await retry(() => this.#call("DescribeNetworkInterfaces", "read"), {
      clock,
      backoff: new Backoff({
        initialMs: 500,
        maxMs: 5_000,
        random: this.#options.random,
      }),
    });
  }

  /** Begins what the plan says. Returns when to do so again without an answer: 0 when nothing is left to be done. */
  #act(): number {
    const situation = this.#situation();
    const made = plan(situation);
    for (const action of made.actions) this.#begin(action);
    const latestMs = Math.min(LATEST_MS, made.dueAt - situation.now);
    const isCalling = this.#calls.some(({ ended }) => ended === undefined);
    if (isCalling) return LATEST_MS;
    const isShown = situation.enis.every(({ ec2, inImds, grants }) =>
      ec2?.attachment?.state === "attached" && inImds &&
      grants.every(({ inEc2, inImds }) => inEc2 && inImds)
    );
    if (!isShown) return Math.min(SOON_MS, latestMs);
    return made.unmet === undefined ? 0 : latestMs;
  }

  #begin(action: Action): void {
    const call: { -readonly [K in keyof EniCall]: EniCall[K] } = { action };
    this.#calls.push(call);
    this.#perform(action).then((outcome) => {
      const now = this.#options.clock.nowMs();
      call.ended = { at: now, outcome };
      const { random } = this.#options;
      this.#pace = learn(this.#pace, { action, outcome }, { now, random });
      this.#onAnswer();
    });
  }

  async #perform(action: Action): Promise<EniOutcome> {
    try {
      await this.#call(action.kind, "change");
    } catch (error) {
      return outcomeOf(error, action);
    }
    return this.#ec2.perform(action, this.#options.clock.nowMs());
  }

  /** One call within the node's budget, which the account lets through or not. */
  async #call(name: string, kind: CallKind): Promise<void> {
    const { clock } = this.#options;
    await this.#budget.spend({ name, kind }, async () => {
      await sleep(CALL_MS, { clock });
      if (this.#account[kind].take()) {
        this.#made[kind] += 1;
        return;
      }
      this.#refused += 1;
      throw new AwsError({
        call: name,
        peer: "EC2",
        service: "ec2",
        code: "RequestLimitExceeded",
        reason: "Request limit exceeded.",
        status: 503,
      });
    });
  }

  #situation(): Situation {
    const { clock, limits, targets, pods } = this.#options;
    const now = clock.nowMs();
    this.#ec2.advance(now);
    const [ec2, imds] = [this.#ec2.listAt(now), this.#ec2.imdsAt(now)];
    this.#calls = unforgotten(this.#calls, { lookedAt: now, imds });
    const enis = mergeEnis(withAnswers(ec2, this.#calls), imds);
    const uses = usesOf(enis, { pods });
    const used = [...uses.values()].reduce((sum, { used }) => sum + used, 0);
    return {
      now,
      startedAt: this.#startedAt,
      enis,
      lookedAt: now,
      uses,
      waiting: pods - used,
      limits,
      targets,
      subnet: SUBNET,
      ipv4: true,
      ipv6: false,
      calls: this.#calls,
      pace: this.#pace,
      returnDelayMs: 30_000,
      attaches: true,
    };
  }
}

/** Pods take what both EC2 and the metadata show, of low devices first. */
function usesOf(
  enis: ReturnType<typeof mergeEnis>,
  { pods }: { readonly pods: number },
): Map<string, BlockUse> {
  const uses = new Map<string, BlockUse>();
  let left = pods;
  for (const { grants } of enis) {
    for (const { block, inEc2, inImds } of grants) {
      if (!inEc2 || !inImds) continue;
      const used = Math.min(left, Number(block.size));
      left -= used;
      const emptySince = used === 0 ? 0 : undefined;
      uses.set(String(block), {
        block,
        used,
        cooling: 0,
        emptySince,
        retired: false,
      });
    }
  }
  return uses;
}
