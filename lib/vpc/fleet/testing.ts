/**
 * A model of EC2 for tests of the plan: attachments take time, lists are as they were.
 *
 * @module
 */
import { Address, Prefix } from "../../inet/mod.ts";
import type { Action, EniOutcome, RefusalReason } from "./calls.ts";
import {
  type BlockKind,
  type Ec2Eni,
  type ImdsEni,
  PREFIX_SIZE,
  sizeOf,
} from "./eni.ts";
import { type Limits, slotsOf } from "./limits.ts";

/** The subnet of all ENIs. */
export const SUBNET = "subnet-1";
/** What an operator does: to an ENI that is attached, the first one for `unassign` being that of the lowest device. */
export type ByHand = "attach" | "assign" | "unassign" | "detach";

/** EC2 does not do what a call asks. */
export function refusedBy(why: RefusalReason): EniOutcome {
  return { kind: "refused", why };
}

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
  perform(action: Action, now: number): EniOutcome {
    switch (action.kind) {
      case "create": {
        const { what, count } = action;
        if (count > slotsOf(this.limits)) return refusedBy("limit");
        if (!this.#hasRoom(what, count, 1)) return refusedBy("exhausted");
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
        if (this.enis.get(action.eni)?.attachment) return refusedBy("other");
        this.enis.delete(action.eni);
        return { kind: "done" };
      }
    }
  }

  /** Does what an operator does, if it can be done; `pick` chooses among ENIs and devices. */
  byHand(what: ByHand, pick: number, now: number): void {
    if (what === "attach") {
      const made = this.perform({
        kind: "create",
        subnet: SUBNET,
        what: "address",
        count: 0,
      }, now);
      if (made.kind !== "done" || made.eni === undefined) return;
      const eni: Ec2Eni = { ...made.eni, ownership: "adopted" };
      this.enis.set(eni.id, eni);
      const device = 1 + pick % 3;
      const { kind } = this.#attach(
        { kind: "attach", eni: eni.id, device },
        now,
      );
      if (kind !== "done") this.enis.delete(eni.id);
      return;
    }
    const attached = [...this.enis.values()].filter(({ attachment }) =>
      attachment?.state === "attached"
    );
    const eni = attached[pick % attached.length];
    if (eni === undefined) return;
    const { id, attachment, blocks } = eni;
    const own = { eni: id, subnet: SUBNET } as const;
    if (what === "assign") {
      this.#assign({ kind: "assign", ...own, what: "address", count: 1 });
    } else if (what === "unassign") {
      this.enis.set(id, { ...eni, blocks: blocks.slice(1) });
    } else if (attachment?.device !== 0) {
      this.#detach({
        kind: "detach",
        eni: id,
        attachment: attachment?.id ?? "",
      }, now);
    }
  }

  #attach(
    { eni, device }: Action & { readonly kind: "attach" },
    now: number,
  ): EniOutcome {
    const attached = [...this.enis.values()].filter((e) => e.attachment);
    if (attached.length >= this.limits.enis) return refusedBy("limit");
    if (attached.some((e) => e.attachment?.device === device)) {
      return refusedBy("other");
    }
    const found = this.enis.get(eni);
    if (found === undefined || found.attachment) return refusedBy("other");
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
  ): EniOutcome {
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

  #change(id: string, change: (eni: Ec2Eni) => Ec2Eni): EniOutcome {
    const eni = this.enis.get(id);
    if (eni !== undefined) this.enis.set(id, change(eni));
    return { kind: "done" };
  }

  #assign(
    { eni: id, what, count }: Action & { readonly kind: "assign" },
  ): EniOutcome {
    const eni = this.enis.get(id);
    if (eni === undefined || what === "ipv6") return refusedBy("other");
    const slots = slotsOf(this.limits) - eni.blocks.length;
    if (count > slots) return refusedBy("limit");
    if (!this.#hasRoom(what, count, 0)) return refusedBy("exhausted");
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
