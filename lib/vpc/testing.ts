/**
 * A model of a node's address management, for tests of the plan: calls take time and can fail, lists are late, the
 * process can be killed.
 *
 * @module
 */
import type { Prefix } from "../inet/mod.ts";
import {
  type Action,
  type EniCall,
  type EniOutcome,
  unforgotten,
  withAnswers,
} from "./fleet/calls.ts";
import { kindOf, mergeEnis, sizeOf } from "./fleet/eni.ts";
import {
  type BlockUse,
  doubtfulBlocks,
  membersOf,
  type Situation,
} from "./fleet/fleet.ts";
import { learn, type Pace } from "./fleet/pace.ts";
import { type Plan, plan } from "./fleet/plan.ts";
import type { Targets } from "./fleet/targets.ts";
import { type Ec2Model, refusedBy, SUBNET } from "./fleet/testing.ts";

/** How a call goes: when EC2 does what it asks, when the answer comes, and what becomes of it. */
export interface Fate {
  readonly doneMs: number;
  readonly answerMs: number;
  /** `lost`: done without an answer; `refused`: for some other reason; `throttled`: because of the account. */
  readonly kind: "answered" | "lost" | "dropped" | "refused" | "throttled";
}

interface Flight {
  readonly call: { -readonly [K in keyof EniCall]: EniCall[K] };
  readonly doneAt: number;
  readonly answerAt: number;
  readonly kind: Fate["kind"];
  outcome: EniOutcome | undefined;
}

/** Addresses of one block. */
interface Use {
  readonly block: Prefix;
  used: number;
  cooling: number[];
  emptySince: number | undefined;
  retired: boolean;
}

export interface NodeOptions {
  readonly targets: Targets;
  readonly fate?: () => Fate;
  /** How far EC2's list and the metadata are behind. */
  readonly lagMs?: { ec2: number; imds: number };
  readonly cooldownMs?: number;
}

/** A node that carries out plans against the model. */
export class NodeModel {
  readonly ec2: Ec2Model;
  /** Calls that were begun. */
  readonly calls: Action[] = [];
  /** How those that have ended did, as the process knows it. */
  readonly outcomes: EniOutcome[] = [];
  now = 0;
  /** Pods of the node, with an address or waiting for one. */
  pods = 0;
  lastPlan: Plan | undefined;
  readonly lagMs: { ec2: number; imds: number };
  readonly #options: NodeOptions;
  readonly #uses = new Map<string, Use>();
  #flights: Flight[] = [];
  #calls: EniCall[] = [];
  #orphans: Flight[] = [];
  #pace: Pace = new Map();
  #startedAt = -1_000_000;
  #imdsAt = -Infinity;

  constructor(ec2: Ec2Model, options: NodeOptions) {
    this.ec2 = ec2;
    this.#options = options;
    this.lagMs = options.lagMs ?? { ec2: 0, imds: 0 };
  }

  get used(): number {
    return [...this.#uses.values()].reduce((sum, { used }) => sum + used, 0);
  }

  get resting(): number {
    return [...this.#uses.values()]
      .reduce((sum, { cooling }) => sum + cooling.length, 0);
  }

  get isIdle(): boolean {
    return this.#flights.length + this.#orphans.length === 0;
  }

  /** Blocks of each attached ENI, lowest device first. */
  get layout(): number[] {
    return [...this.ec2.enis.values()].filter(({ attachment }) => attachment)
      .sort((a, b) => (a.attachment?.device ?? 0) - (b.attachment?.device ?? 0))
      .map(({ blocks }) => blocks.length);
  }

  /** One step: time passes, EC2 answers, pods get addresses, a plan is made and begun. */
  step(ms: number): void {
    this.now += ms;
    this.#answer();
    this.ec2.advance(this.now);
    this.#cool();
    const situation = this.situation();
    this.#adopt(situation);
    this.#serve();
    const made = plan(this.situation());
    this.lastPlan = made;
    for (const block of made.retire) {
      const use = this.#uses.get(String(block));
      if (use === undefined || use.used > 0 || use.cooling.length > 0) {
        throw new Error(`Cannot retire "${block}": it is in use`);
      }
      use.retired = true;
    }
    for (const action of made.actions) this.#begin(action);
  }

  /** Takes addresses from pods, of the block that `pick` chooses among those in use. */
  stop(pods: number, pick: (n: number) => number): void {
    for (let i = 0; i < pods && this.pods > 0; i++) {
      this.pods -= 1;
      const inUse = [...this.#uses.values()].filter(({ used }) => used > 0);
      if (this.used <= this.pods) continue;
      const use = inUse[pick(inUse.length)];
      if (use === undefined) continue;
      use.used -= 1;
      use.cooling.push(this.now + (this.#options.cooldownMs ?? 30_000));
    }
  }

  /** Kills the process and starts it again: what it knew is lost, what it asked for may still be done. */
  kill(): void {
    this.#orphans.push(...this.#flights.filter((f) => f.kind !== "dropped"));
    this.#flights = [];
    this.#calls = [];
    this.#pace = new Map();
    this.#startedAt = this.now;
    for (const [text, use] of this.#uses) {
      if (use.used === 0 && use.cooling.length === 0) this.#uses.delete(text);
      use.retired = false;
    }
  }

  situation(): Situation {
    const { ec2, imds } = this.lagMs;
    const list = this.ec2.listAt(this.now - ec2);
    // Unlike EC2's, which come from several servers, the metadata never go back.
    this.#imdsAt = Math.max(this.#imdsAt, this.now - imds);
    const shown = this.ec2.imdsAt(this.#imdsAt);
    const calls = this.#calls = unforgotten(this.#calls, {
      imds: shown,
      lookedAt: this.now,
    });
    return {
      now: this.now,
      startedAt: this.#startedAt,
      enis: mergeEnis(withAnswers(list, calls), shown),
      lookedAt: this.now,
      uses: this.#blockUses(),
      waiting: Math.max(0, this.pods - this.used),
      limits: this.ec2.limits,
      targets: this.#options.targets,
      subnet: SUBNET,
      ipv4: true,
      ipv6: false,
      calls: [...calls, ...this.#flights.map(({ call }) => call)],
      pace: this.#pace,
      returnDelayMs: 30_000,
      attaches: true,
    };
  }

  #blockUses(): Map<string, BlockUse> {
    return new Map(
      [...this.#uses].map(([text, { cooling, ...use }]) => [
        text,
        { ...use, cooling: cooling.length },
      ]),
    );
  }

  #answer(): void {
    for (const flight of [...this.#flights, ...this.#orphans]) {
      if (flight.outcome === undefined && this.now >= flight.doneAt) {
        flight.outcome = this.#perform(flight);
      }
    }
    this.#orphans = this.#orphans.filter(({ outcome }) => !outcome);
    const ended = this.#flights.filter((f) => this.now >= f.answerAt);
    this.#flights = this.#flights.filter((f) => this.now < f.answerAt);
    for (const { call, outcome, kind } of ended) {
      const { action } = call;
      const shown: EniOutcome = kind === "lost" || kind === "dropped"
        ? { kind: "unknown" }
        : outcome ?? { kind: "unknown" };
      this.outcomes.push(shown);
      this.#calls.push({ action, ended: { at: this.now, outcome: shown } });
      this.#pace = learn(this.#pace, { action, outcome: shown }, {
        now: this.now,
        random: () => 0.5,
      });
    }
  }

  #perform({ call: { action }, kind }: Flight): EniOutcome {
    if (kind === "refused") return refusedBy("other");
    if (kind === "throttled") return refusedBy("throttled");
    if (kind === "dropped") return { kind: "unknown" };
    const before = this.#granted();
    const outcome = this.ec2.perform(action, this.now);
    const after = this.#granted();
    for (const [text, { used }] of this.#uses) {
      if (used > 0 && before.has(text) && !after.has(text)) {
        throw new Error(`Cannot ${action.kind}: "${text}" is in use`);
      }
    }
    return outcome;
  }

  /** Blocks that pods' packets may have, as EC2 has it. */
  #granted(): Set<string> {
    return new Set(
      [...this.ec2.enis.values()].flatMap(({ attachment, blocks }) =>
        attachment && attachment.state !== "detaching" ? blocks.map(String) : []
      ),
    );
  }

  #cool(): void {
    for (const use of this.#uses.values()) {
      use.cooling = use.cooling.filter((until) => until > this.now);
      if (use.used > 0 || use.cooling.length > 0) use.emptySince = undefined;
      else use.emptySince ??= this.now;
    }
  }

  #adopt(situation: Situation): void {
    const shown = new Set<string>();
    for (const { grants } of situation.enis) {
      for (const { block, inEc2 } of grants) {
        const text = String(block);
        // What was given back is not ours, also while the metadata show it.
        if (inEc2 || this.#uses.get(text)?.retired !== true) shown.add(text);
      }
    }
    for (const text of [...this.#uses.keys()]) {
      if (!shown.has(text)) this.#uses.delete(text);
    }
    for (const { attachment, slots } of membersOf(situation)) {
      if (attachment.state !== "attached") continue;
      for (const { block, inEc2, inImds } of slots) {
        const text = String(block);
        if (!inEc2 || !inImds || this.#uses.has(text)) continue;
        this.#uses.set(text, {
          block,
          used: 0,
          cooling: [],
          emptySince: this.now,
          retired: false,
        });
      }
    }
  }

  /** Pods that wait get addresses, of low devices first. */
  #serve(): void {
    const situation = this.situation();
    const doubtful = doubtfulBlocks(situation);
    const order = situation.enis.flatMap(({ grants }) => grants);
    for (const { block, inEc2, inImds } of order) {
      const use = this.#uses.get(String(block));
      if (use === undefined || use.retired || !inEc2 || !inImds) continue;
      if (doubtful.has(String(block))) continue;
      const size = sizeOf(kindOf(block));
      const free = size - use.used - use.cooling.length;
      const given = Math.min(free, Math.max(0, this.pods - this.used));
      if (given <= 0) continue;
      use.used += given;
      use.emptySince = undefined;
    }
  }

  #begin(action: Action): void {
    const busy = new Set(
      this.#flights.flatMap(({ call }) =>
        call.action.kind === "create" ? [] : call.action.eni
      ),
    );
    if (action.kind !== "create" && busy.has(action.eni)) {
      throw new Error(`Cannot ${action.kind} "${action.eni}": a call is open`);
    }
    this.calls.push(action);
    const fate = this.#options.fate?.() ??
      { doneMs: 200, answerMs: 300, kind: "answered" };
    this.#flights.push({
      call: { action },
      doneAt: this.now + fate.doneMs,
      answerAt: this.now + Math.max(fate.doneMs, fate.answerMs),
      kind: fate.kind,
      outcome: undefined,
    });
  }
}

/** A node with targets, and nothing else said: what `--warm-enis` and others are by default is off. */
export function targetsOf(targets: Partial<Targets>): Targets {
  return {
    kind: "address",
    warmEnis: 0,
    warmIps: 0,
    minIps: 0,
    warmPrefixes: 0,
    maxPods: Infinity,
    ...targets,
  };
}
