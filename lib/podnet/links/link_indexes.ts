import type { RandomBytes } from "../../netlink/mod.ts";

/** The kernel counts up from 1 and does not come to indexes from here on. */
const FIRST_INDEX = 2 ** 30;

/** That many places to begin at leave as many indexes behind the last of them (INT_MAX is the highest). */
const START_MASK = 2 ** 29 - 1;

/**
 * The index of a pod's end, which has the pod's namespace almost for itself:
 * the kernel's own links in it have the first few, `lib/egress` takes those
 * that follow.
 */
export const POD_END_INDEX = 10_000;

/**
 * Chooses the indexes of new host ends, so that the send which makes a link
 * can go on with it: were the link refused, so would all the rest be, since
 * no link has that index. By its name it could be another program's.
 */
export class LinkIndexes {
  #last: number;
  readonly #isTaken: (index: number) => boolean;

  /** Where it begins is random: links of an earlier process are not met. `isTaken` knows them, too. */
  constructor(
    { random, isTaken }: {
      readonly random: RandomBytes;
      readonly isTaken: (index: number) => boolean;
    },
  ) {
    const [start = 0] = new Uint32Array(random(new Uint8Array(4)).buffer);
    this.#last = FIRST_INDEX + (start & START_MASK);
    this.#isTaken = isTaken;
  }

  /** An index that no link has had. */
  next(): number {
    do this.#last++; while (this.#isTaken(this.#last));
    return this.#last;
  }
}
