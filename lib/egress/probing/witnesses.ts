/** What a round shows of a group of gateways, all by name. */
export interface GroupRound {
  readonly gateways: readonly string[];
  /** Those that answered. */
  readonly answering: ReadonlySet<string>;
  /** Those on this node: they answer even while it is cut off. */
  readonly local: ReadonlySet<string>;
}

/**
 * The gateways of which it counts that they did not answer: another one did. One
 * on this node is a witness only where there is no other.
 */
export function witnessed(
  { gateways, answering, local }: GroupRound,
): string[] {
  const remote = gateways.filter((name) => !local.has(name));
  const counts = (names: readonly string[]) => ({
    all: names.length,
    answering: names.filter((name) => answering.has(name)).length,
  });
  const [ofAll, ofRemote] = [counts(gateways), counts(remote)];
  return gateways.filter((name) => {
    if (answering.has(name)) return false;
    const hasRemote = ofRemote.all > (local.has(name) ? 0 : 1);
    return (hasRemote ? ofRemote : ofAll).answering > 0;
  });
}
