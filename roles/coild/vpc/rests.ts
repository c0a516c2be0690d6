import {
  type Clock,
  Gate,
  jittered,
  sleep,
  systemClock,
} from "../../../lib/async/mod.ts";
import {
  type Address,
  type DualStack,
  valuesOf,
} from "../../../lib/inet/mod.ts";
import type { RestingAddress } from "../../../lib/ipam/mod.ts";
import { getLogger } from "../../../lib/telemetry/mod.ts";
import type { RestTable } from "../../../lib/vpc/mod.ts";
import type { RestStore } from "../blocks/supply.ts";

const log = getLogger("vpc");

/** How often rests that are over are forgotten; a restart leaves them out anyway. */
const SWEEP_MS = 30_000;

type Table = Pick<RestTable, "begin" | "end" | "list">;

/** Addresses that rest, kept in the kernel. */
export class KernelRests implements RestStore {
  readonly #table: Table;
  readonly #cooldownMs: number;
  readonly #clock: Clock;
  #begun = new Gate();

  /** `clock`: by which it looks for rests that are over. Default: the machine's. */
  constructor(
    table: Table,
    { cooldownMs, clock = systemClock }: {
      readonly cooldownMs: number;
      readonly clock?: Clock | undefined;
    },
  ) {
    this.#table = table;
    this.#cooldownMs = cooldownMs;
    this.#clock = clock;
  }

  async list(): Promise<RestingAddress[]> {
    return (await this.#table.list())
      .map(({ address, seconds }) => ({ address, restedMs: seconds * 1_000 }))
      .filter(({ restedMs }) => restedMs < this.#cooldownMs);
  }

  async begin(addresses: DualStack<Address>): Promise<void> {
    await this.#table.begin(valuesOf(addresses));
    this.#begun.open();
  }

  /** Forgets rests that are over, until the signal. While nothing rests, the kernel is left alone. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(jittered(SWEEP_MS), { signal, clock: this.#clock });
      const begun = this.#begun = new Gate();
      if (await this.#sweep()) await begun.wait({ signal });
    }
  }

  /** Returns whether nothing rests any longer. */
  async #sweep(): Promise<boolean> {
    try {
      const all = await this.#table.list();
      const over = all
        .filter(({ seconds }) => seconds * 1_000 >= this.#cooldownMs);
      if (over.length > 0) {
        await this.#table.end(over.map(({ address }) => address));
      }
      return over.length === all.length;
    } catch (err) {
      log.warn(
        "Cannot delete expired entries of the cooldown table; retrying",
        { err },
      );
      return false;
    }
  }
}
