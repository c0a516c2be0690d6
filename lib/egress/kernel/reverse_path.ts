import {
  inNetns,
  type Netns,
  readSysctl,
  tryReadSysctl,
  writeSysctl,
} from "../../linux/mod.ts";

/** A packet may come by any link (`rp_filter`, RFC 3704): off. */
const OFF = "0";
/** Strict: only by the link that an answer would leave by. */
const STRICT = "1";
/** Loose: by any link, as long as there is a route back. */
const LOOSE = "2";

/** Links by name; `all` and `default` are the kernel's words for every link and for those to come. */
export interface ReversePathLinks {
  /** Links that take packets from anywhere. */
  readonly open: readonly string[];
  /** Links that take packets although the answers would leave by another link. */
  readonly loose?: readonly string[];
}

/**
 * Accepts packets whose answers would leave by another link: what comes out of
 * a receiver is answered through a tunnel. IPv4 only; IPv6 has no such check.
 * The kernel uses the higher of the values of the link and of `all`.
 *
 * Returns what it did, one phrase each.
 *
 * @throws {Error} when the kernel's check is on and cannot be switched off
 */
export function openReversePath(
  netns: Netns,
  links: ReversePathLinks,
): string[] {
  return inNetns(netns, () => [
    ...links.open.flatMap((link) => change(link, OFF)),
    ...(links.loose ?? []).flatMap((link) =>
      read(link) === STRICT ? change(link, LOOSE) : []
    ),
  ]);
}

/**
 * Those of the links' sysctls, by name, that have the kernel drop what comes
 * in. Loose is good enough, as it is where they cannot be written; links that
 * are not there have none.
 */
export function strictReversePaths(
  netns: Netns,
  links: readonly string[],
): string[] {
  return inNetns(
    netns,
    () => links.map(sysctl).filter((name) => tryReadSysctl(name) === STRICT),
  );
}

function change(link: string, value: string): string[] {
  const found = read(link);
  if (found === value) return [];
  try {
    writeSysctl(sysctl(link), value);
  } catch (cause) {
    // Read-only here, but good enough.
    if (found === LOOSE) return [];
    throw new Error(
      `Cannot set sysctl "${
        sysctl(link)
      }" to ${value}: it is ${found}, and answers out of tunnels would be dropped; make /proc/sys writable for this process`,
      { cause },
    );
  }
  return [`set sysctl "${sysctl(link)}" to ${value}`];
}

function read(link: string): string {
  return readSysctl(sysctl(link));
}

function sysctl(link: string): string {
  return `net/ipv4/conf/${link}/rp_filter`;
}
