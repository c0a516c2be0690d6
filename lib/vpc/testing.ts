/**
 * A model of EC2 and of a node's address management, for tests of the plan: calls take time and can fail, lists are
 * late, the process can be killed.
 *
 * @module
 */
import { Address, Prefix } from "../inet/mod.ts";
import {
  type Action,
  type Call,
  isSettled,
  type Outcome,
  withAnswers,
} from "./fleet/calls.ts";
import {
  type BlockKind,
  type Ec2Eni,
  type ImdsEni,
  kindOf,
  mergeEnis,
  PREFIX_SIZE,
  sizeOf,
} from "./fleet/eni.ts";
import {
  type BlockUse,
  doubtfulBlocks,
  membersOf,
  type Situation,
} from "./fleet/fleet.ts";
import { type Limits, slotsOf } from "./fleet/limits.ts";
import { learn, type Pace } from "./fleet/pace.ts";
import { type Plan, plan } from "./fleet/plan.ts";
import type { Targets } from "./fleet/targets.ts";

const SUBNET = "subnet-1";
const REFUSED = (why: "exhausted" | "limit" | "other"): Outcome => ({
  kind: "refused",
  why,
});

/** EC2 with one instance and one subnet. What is against its rules or takes an address from a pod is an error. */
export class Ec2Model {
  readonly limits: Limits;
  readonly subnet: Prefix;
  /** The ENIs as they are. */
  readonly enis: Map<string, Ec2Eni> = new Map();
  /** Addresses that others in the subnet have. */
  readonly others: Set<bigint> = new Set();
  #history: { readonly at: number; readonly enis: readonly Ec2Eni[] }[] = [];
  #next = 1;
  #changes: { readonly at: number; readonly change: () => void }[] = [];

  constructor(limits: Limits, subnet: string) {
    this.limits = limits;
    this.subnet = Prefix.parse(subnet);
    // EC2 keeps the first four and the last.
    for (const n of [0n, 1n, 2n, 3n]) this.others.add(n);
    this.others.add(this.subnet.size - 1n);
    const primary = this.#create(0, "address");
    this.enis.set(primary.id, {
      ...primary,
      ownership: "primary",
      attachment: {
        id: "attach-0",
        device: 0,
        state: "attached",
        since: 0,
        endsWithInstance: true,
      },
    });
    this.advance(0);
  }

  /** Lets time pass: attachments end, and what can be seen then is kept. */
  advance(now: number): void {
    const due = this.#changes.filter(({ at }) => at <= now);
    this.#changes = this.#changes.filter(({ at }) => at > now);
    for (const { change } of due) change();
    this.#history.push({ at: now, enis: [...this.enis.values()] });
    if (this.#history.length > 400) this.#history.shift();
  }

  /** EC2's list as it was at that time. */
  listAt(time: number): readonly Ec2Eni[] {
    const seen = this.#history.findLast(({ at }) => at <= time);
    return (seen ?? this.#history[0])?.enis ?? [];
  }

  /** The metadata of the instance as they were at that time. */
  imdsAt(time: number): ImdsEni[] {
    return this.listAt(time).flatMap(({ id, attachment, address, blocks }) => {
      if (attachment?.state !== "attached") return [];
      const all = [Prefix.host(address), ...blocks];
      return [{ id, device: attachment.device, blocks: all }];
    });
  }

  /** Does what a call asks for. */
  perform(action: Action, now: number): Outcome {
    switch (action.kind) {
      case "create": {
        const { what, count } = action;
        if (count > slotsOf(this.limits)) return REFUSED("limit");
        if (!this.#hasRoom(what, count, 1)) return REFUSED("exhausted");
        const eni = this.#create(count, what);
        this.enis.set(eni.id, eni);
        return { kind: "done", eni };
      }
      case "attach":
        return this.#attach(action, now);
      case "assign":
        return this.#assign(action);
      case "unassign":
        return this.#change(action.eni, (eni) => {
          const gone = new Set(action.blocks.map(String));
          const left = eni.blocks.filter((block) => !gone.has(String(block)));
          return { ...eni, blocks: left };
        });
      case "endWithInstance":
        return this.#change(action.eni, ({ attachment, ...eni }) => ({
          ...eni,
          attachment: attachment && { ...attachment, endsWithInstance: true },
        }));
      case "detach":
        return this.#detach(action, now);
      case "delete": {
        if (this.enis.get(action.eni)?.attachment) return REFUSED("other");
        this.enis.delete(action.eni);
        return { kind: "done" };
      }
    }
  }

  #attach(
    { eni, device }: Action & { readonly kind: "attach" },
    now: number,
  ): Outcome {
    const attached = [...this.enis.values()].filter((e) => e.attachment);
    if (attached.length >= this.limits.enis) return REFUSED("limit");
    if (attached.some((e) => e.attachment?.device === device)) {
      return REFUSED("other");
    }
    const found = this.enis.get(eni);
    if (found === undefined || found.attachment) return REFUSED("other");
    const attachment = {
      id: `attach-${this.#next++}`,
      device,
      state: "attaching",
      since: now,
      endsWithInstance: false,
    } as const;
    this.enis.set(eni, { ...found, attachment });
    this.#later(now + 1_000, eni, (e) => ({
      ...e,
      attachment: e.attachment?.id === attachment.id &&
          e.attachment.state === "attaching"
        ? { ...e.attachment, state: "attached" }
        : e.attachment,
    }));
    return { kind: "done", attachment };
  }

  #detach(
    { eni, attachment }: Action & { readonly kind: "detach" },
    now: number,
  ): Outcome {
    const found = this.enis.get(eni);
    if (found?.attachment?.id !== attachment) return { kind: "done" };
    const detaching = { ...found.attachment, state: "detaching" } as const;
    this.enis.set(eni, { ...found, attachment: detaching });
    this.#later(
      now + 2_000,
      eni,
      (e) =>
        e.attachment?.id === attachment ? { ...e, attachment: undefined } : e,
    );
    return { kind: "done" };
  }

  #later(at: number, eni: string, change: (eni: Ec2Eni) => Ec2Eni): void {
    this.#changes.push({ at, change: () => this.#change(eni, change) });
  }

  #change(id: string, change: (eni: Ec2Eni) => Ec2Eni): Outcome {
    const eni = this.enis.get(id);
    if (eni !== undefined) this.enis.set(id, change(eni));
    return { kind: "done" };
  }

  #assign(
    { eni: id, what, count }: Action & { readonly kind: "assign" },
  ): Outcome {
    const eni = this.enis.get(id);
    if (eni === undefined || what === "ipv6") return REFUSED("other");
    const slots = slotsOf(this.limits) - eni.blocks.length;
    if (count > slots) return REFUSED("limit");
    if (!this.#hasRoom(what, count, 0)) return REFUSED("exhausted");
    const blocks = this.#take(what, count, [eni]);
    this.enis.set(id, { ...eni, blocks: [...eni.blocks, ...blocks] });
    return { kind: "done", blocks };
  }

  #create(count: number, what: BlockKind): Ec2Eni {
    const [host] = this.#take("address", 1, []);
    const address = host?.address ?? Address.of("ipv4", 0n);
    const id = `eni-${this.#next++}`;
    const eni: Ec2Eni = {
      id,
      subnet: SUBNET,
      ownership: "owned",
      address,
      blocks: [],
    };
    return { ...eni, blocks: this.#take(what, count, [eni]) };
  }

  #hasRoom(what: BlockKind, count: number, addresses: number): boolean {
    const free = this.#free([]);
    const blocks = this.#candidates(what, free).slice(0, count);
    const left = free.size - blocks.length * sizeOf(what);
    return blocks.length >= count && left >= addresses;
  }

  #take(what: BlockKind, count: number, more: readonly Ec2Eni[]): Prefix[] {
    const blocks = this.#candidates(what, this.#free(more));
    return blocks.slice(0, count)
      .map((place) => Prefix.of(this.subnet.nth(place), 32 - bitsOf(what)));
  }

  /** Places in the subnet that are free: prefixes from its beginning, addresses from its end. */
  #candidates(what: BlockKind, free: ReadonlySet<bigint>): bigint[] {
    if (what === "address") return [...free].toReversed();
    return [...free].filter((place) =>
      place % BigInt(PREFIX_SIZE) === 0n &&
      Array.from({ length: PREFIX_SIZE }, (_, i) => place + BigInt(i))
        .every((one) => free.has(one))
    );
  }

  #free(more: readonly Ec2Eni[]): Set<bigint> {
    const free = new Set<bigint>();
    for (let place = 0n; place < this.subnet.size; place++) {
      if (!this.others.has(place)) free.add(place);
    }
    for (const { address, blocks } of [...this.enis.values(), ...more]) {
      free.delete(this.subnet.indexOf(address));
      for (const block of blocks) {
        const first = this.subnet.indexOf(block.address);
        for (let i = 0n; i < block.size; i++) free.delete(first + i);
      }
    }
    return free;
  }
}

function bitsOf(what: BlockKind): number {
  return Math.log2(sizeOf(what));
}

/** How a call goes: when EC2 does what it asks, when the answer comes, and what becomes of it. */
export interface Fate {
  readonly doneMs: number;
  readonly answerMs: number;
  /** `lost`: done without an answer; `refused`: refused for some other reason. */
  readonly kind: "answered" | "lost" | "dropped" | "refused";
}

interface Flight {
  readonly call: { -readonly [K in keyof Call]: Call[K] };
  readonly doneAt: number;
  readonly answerAt: number;
  readonly kind: Fate["kind"];
  outcome: Outcome | undefined;
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
  readonly outcomes: Outcome[] = [];
  now = 0;
  /** Pods of the node, with an address or waiting for one. */
  pods = 0;
  lastPlan: Plan | undefined;
  readonly lagMs: { ec2: number; imds: number };
  readonly #options: NodeOptions;
  readonly #uses = new Map<string, Use>();
  #flights: Flight[] = [];
  #calls: Call[] = [];
  #orphans: Flight[] = [];
  #pace: Pace = new Map();
  #startedAt = -1_000_000;

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
    const calls = this.#calls = this.#calls
      .filter((call) => !isSettled(call, this.now));
    const list = withAnswers(
      this.ec2.listAt(this.now - ec2),
      calls,
      this.now,
    );
    return {
      now: this.now,
      startedAt: this.#startedAt,
      enis: mergeEnis(list, this.ec2.imdsAt(this.now - imds)),
      lookedAt: this.now,
      uses: this.#blockUses(),
      waiting: Math.max(0, this.pods - this.used),
      limits: this.ec2.limits,
      targets: this.#options.targets,
      subnet: SUBNET,
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
      const shown: Outcome = kind === "answered" || kind === "refused"
        ? outcome ?? { kind: "unknown" }
        : { kind: "unknown" };
      this.outcomes.push(shown);
      this.#calls.push({ action, ended: { at: this.now, outcome: shown } });
      this.#pace = learn(this.#pace, { action, outcome: shown }, {
        now: this.now,
        random: () => 0.5,
      });
    }
  }

  #perform({ call: { action }, kind }: Flight): Outcome {
    if (kind === "refused") return REFUSED("other");
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
        // What was given back is not ours, whatever the metadata show.
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
