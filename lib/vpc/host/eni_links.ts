import type { Link } from "../../netlink/mod.ts";
import type { HostEni } from "./host_settings.ts";
import { VpcHostProblem } from "./host_problem.ts";

/** Facts that identify an ENI among links. */
export type LinkFacts = Pick<Link, "index" | "name" | "mac" | "kind">;

/**
 * The link of an ENI, by its MAC address: names and indexes change. VLANs,
 * bridges and macvlans take over the address of the link below, so a link
 * without a kind, as network cards are, is preferred. Pure.
 */
export function findEniLink<T extends LinkFacts>(
  eni: Pick<HostEni, "id" | "mac">,
  links: readonly T[],
): T | VpcHostProblem {
  const mac = eni.mac.toLowerCase();
  const all = links.filter((link) => link.mac === mac);
  const cards = all.filter(({ kind }) => kind === undefined);
  const candidates = cards.length > 0 ? cards : all;
  const [link] = candidates;
  if (link === undefined) {
    return new VpcHostProblem(
      `Cannot configure ENI "${eni.id}": no link has MAC address ${mac}; its pods have no network until the link appears`,
      { eni: eni.id },
    );
  }
  if (candidates.length === 1) return link;
  const names = candidates.map(({ name }) => `"${name}"`).join(", ");
  return new VpcHostProblem(
    `Cannot configure ENI "${eni.id}": links ${names} all have MAC address ${mac}; give the others another one`,
    { eni: eni.id },
  );
}
