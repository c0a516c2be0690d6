import {
  type Caller,
  MAX_TRANSLATED,
  type SourceReport,
  type Verdict,
} from "../../../lib/announce/mod.ts";
import type { EgressTranslation } from "../../../lib/api/mod.ts";
import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import { type Address, valuesOf } from "../../../lib/inet/mod.ts";
import { type GatewayIdentity, misdirected } from "../base/identity.ts";
import { refused } from "../base/verdict.ts";

/** coild says about once a minute what it still sees. A gateway may be idle for a while. */
const FORGET_MS = 600_000;

/** A translation that the node has made. */
interface Translation {
  /** As it was said first: another destination would be a change. */
  readonly shown: EgressTranslation;
  saidMs: number;
}

export interface TranslatedSourcesOptions {
  readonly identity: GatewayIdentity;
  /** The user that may report. */
  readonly user: string;
  /** Called after each report. */
  readonly onChange: () => void;
  readonly clock?: Clock;
}

/** What the gateway's node makes of the sources of its packets, as coild there says. */
export class TranslatedSources {
  readonly #with: TranslatedSourcesOptions;
  readonly #clock: Clock;
  readonly #translations = new Map<string, Translation>();

  constructor(options: TranslatedSourcesOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Takes a report of the own node. What it says about other addresses than the own ones is left out. */
  take({ egress, translated }: SourceReport, caller: Caller): Verdict {
    const { identity, user, onChange } = this.#with;
    if (caller.username !== user) {
      return refused(403, `only "${user}" may report`);
    }
    if (identity.node === undefined || caller.nodeName !== identity.node) {
      return refused(403, "only the node of this gateway may report");
    }
    const { namespace, egress: name } = identity;
    const other = misdirected(egress, { namespace, name });
    if (other !== undefined) return refused(403, other);
    for (const each of translated) {
      if (this.#isOwn(each.source)) this.#note(each);
    }
    onChange();
    return { status: 204 };
  }

  /** What was said within the last ten minutes. */
  list(): EgressTranslation[] {
    this.#forget();
    return [...this.#translations.values()].map(({ shown }) => shown);
  }

  #isOwn(address: Address): boolean {
    return valuesOf(this.#with.identity.addresses)
      .some((own) => own.equals(address));
  }

  #note(
    { source, seenAs, destination }: SourceReport["translated"][number],
  ): void {
    const saidMs = this.#clock.nowMs();
    const key = `${source} ${seenAs}`;
    const known = this.#translations.get(key);
    if (known !== undefined) {
      known.saidMs = saidMs;
      return;
    }
    this.#forget();
    if (this.#translations.size >= MAX_TRANSLATED) return;
    const shown = {
      address: source.toString(),
      seenAs: seenAs.toString(),
      destination: destination.toString(),
    };
    this.#translations.set(key, { shown, saidMs });
  }

  #forget(): void {
    const oldestMs = this.#clock.nowMs() - FORGET_MS;
    for (const [key, { saidMs }] of this.#translations) {
      if (saidMs <= oldestMs) this.#translations.delete(key);
    }
  }
}
