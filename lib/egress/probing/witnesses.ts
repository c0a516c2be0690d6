/** A gateway of a group, as far as its probes go. */
export interface Witness {
  readonly name: string;
  /** On this node: it answers even while the node is cut off. */
  readonly isLocal: boolean;
  /** When its last probe was sent, and the last one that was answered. */
  readonly sentMs: number;
  readonly answeredMs: number;
}

/**
 * The gateways of a group of which it counts that they have not answered:
 * another one answered a probe that was sent no earlier. One on this node is a
 * witness only where there is no other.
 */
export function witnessed(group: readonly Witness[]): string[] {
  const remote = group.filter(({ isLocal }) => !isLocal);
  const latest = (some: readonly Witness[]) =>
    some.reduce((ms, each) => Math.max(ms, each.answeredMs), -Infinity);
  const [ofAll, ofRemote] = [latest(group), latest(remote)];
  return group.filter(({ isLocal, sentMs, answeredMs }) => {
    if (answeredMs >= sentMs) return false;
    const hasRemote = remote.length > (isLocal ? 0 : 1);
    return (hasRemote ? ofRemote : ofAll) >= sentMs;
  }).map(({ name }) => name);
}

/** Those of a group that are most likely to answer next, of other nodes first. */
export function bestWitnesses(
  group: readonly Witness[],
  count: number,
): string[] {
  const score = ({ isLocal, answeredMs }: Witness) =>
    isLocal ? -Infinity : answeredMs;
  return group.filter(({ answeredMs }) => answeredMs > -Infinity)
    .toSorted((a, b) => score(b) - score(a))
    .slice(0, count).map(({ name }) => name);
}
