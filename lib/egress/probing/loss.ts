/** How much the last probe counts, of all those before. */
const WEIGHT = 1 / 64;
/** That a gateway which works is taken for lost has no more than this chance, each time that a probe of it is missed. */
const MAX_CHANCE = 1e-8;
/** So many misses in a row are always needed. */
const MIN_MISSES = 10;
/** So many are always enough: a way that loses two thirds of all probes is none. */
const MAX_MISSES = 40;
/** From this share on the way to a gateway is bad, until the share is below the other one. */
const BAD = { from: 0.1, until: 0.05 };

/**
 * What share of a gateway's probes is lost on the way while the gateway works.
 * An answer is the proof that it does: only misses before an answer count.
 */
export class ProbeLoss {
  #share = 0;
  #run = 0;
  #isBad = false;

  /** Whether so many are lost that clients notice. */
  get isBad(): boolean {
    return this.#isBad;
  }

  /** So many misses in a row have to be seen before the gateway is lost. */
  get misses(): number {
    const misses = Math.ceil(Math.log(MAX_CHANCE) / Math.log(this.#share));
    return Math.min(MAX_MISSES, Math.max(MIN_MISSES, misses));
  }

  /** Takes note of a probe. */
  add(isAnswered: boolean): void {
    if (!isAnswered) {
      this.#run = Math.min(this.#run + 1, MAX_MISSES);
      return;
    }
    for (; this.#run > 0; this.#run--) {
      this.#share += WEIGHT * (1 - this.#share);
    }
    this.#share -= WEIGHT * this.#share;
    this.#isBad = this.#share >= (this.#isBad ? BAD.until : BAD.from);
  }
}
