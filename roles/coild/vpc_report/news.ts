import {
  canonicalJson,
  sameConditions,
  type VpcNodeStatus,
} from "../../../lib/api/mod.ts";

/** Whether two statuses say the same. */
export function isSame(
  a: VpcNodeStatus | undefined,
  b: VpcNodeStatus,
): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

/** Whether more than counts of addresses changed. */
export function isNews(
  before: VpcNodeStatus | undefined,
  after: VpcNodeStatus,
): boolean {
  return before === undefined ||
    !sameConditions(before.conditions, after.conditions) ||
    enisText(before) !== enisText(after);
}

function enisText({ enis = [], maxEnis, mode }: VpcNodeStatus): string {
  const texts = enis.map(({ id, device, blocks }) =>
    [id, device, ...blocks].join(" ")
  );
  return [maxEnis, mode, ...texts].join("\n");
}
