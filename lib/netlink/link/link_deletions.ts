import type { Link } from "./link.ts";
import { linkDelete, linkSet } from "./link_requests.ts";
import type { Request } from "../message/request.ts";

/** Fills an array with random bytes, as `crypto.getRandomValues()` does. */
export type RandomBytes = (
  bytes: Uint8Array<ArrayBuffer>,
) => Uint8Array<ArrayBuffer>;

export interface LinkDeletionsOptions {
  /** All links of the network namespace. */
  readonly present: readonly Link[];
  /** Source of the group's number. Default `crypto.getRandomValues()`. */
  readonly random?: RandomBytes | undefined;
  /**
   * The lower 16 bits of the group's number, for rules that must hold for the
   * links until they are gone. Random unless given.
   */
  readonly groupLow?: number;
}

/**
 * Requests that delete links by their indexes, to be sent together. Deleting
 * a veth or a tunnel costs the kernel a grace period of some 15 ms, and the
 * links of one group share it: the requests put the links into a group and
 * delete the group.
 *
 * Deleting a group takes all that is in it, so its number is a random one that
 * no link has: another program's link is in it only if that program picks the
 * number while these requests are carried out.
 */
export function linkDeletions(
  indexes: readonly number[],
  options: LinkDeletionsOptions,
): Request[] {
  if (indexes.length < 2) return indexes.map((index) => linkDelete({ index }));
  const group = unusedGroup(options);
  return [
    ...indexes.map((index) => linkSet({ index }, { group })),
    linkDelete({ group }),
  ];
}

/** Large, since people pick small numbers, and positive as the kernel's `int`. */
function unusedGroup(
  { present, random = randomBytes, groupLow }: LinkDeletionsOptions,
): number {
  for (;;) {
    const bytes = random(new Uint8Array(4));
    const number = new DataView(bytes.buffer).getUint32(0) & 0x3fff_ffff;
    const drawn = number | 0x4000_0000;
    const group = groupLow === undefined
      ? drawn
      : (drawn & 0x7fff_0000) | groupLow;
    if (present.every((link) => link.group !== group)) return group;
  }
}

function randomBytes(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(bytes);
}
