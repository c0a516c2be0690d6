import type { Figure } from "./figures.ts";

/** Whose memory is measured with 110 pods on a node. */
export const WITH_PODS = ["coild", "controller", "router"] as const;

/** What a whole run must have measured: others compare these figures by their names. */
export const REQUIRED_NAMES: readonly string[] = [
  ...["add.ipv4.coil", "add.ipv4.ptp", "add.dual.coil", "add.dual.ptp"],
  ...["del.ipv4.coil", "del.ipv4.ptp"],
  ...["wave110.add.coil", "wave110.add.ptp"],
  ...["wave110.del.coil", "wave110.del.ptp"],
  ...["daemon.add.ipv4", "daemon.add.dual", "daemon.add.first"],
  ...["plugin.rpc", "plugin.empty"],
  ...["rss.coild.idle", "rss.controller.idle", "rss.router.idle"],
  ...WITH_PODS.map((role) => `rss.${role}.110`),
  ...["rss.coild.110.crowded", "rss.controller.50k"],
  ...["blockrequest.5000"],
  ...["blockrequest.writes", "blockrequest.writes.go"],
  ...["blockrequest.all", "blockrequest.all.go"],
  ...["check.100k", "check.100k.peak"],
  ...["watches.none.ratio", "watches.now.ratio"],
  ...["egress.apply.one.estimate", "egress.apply.two.estimate"],
];

/** The required names that no figure has, in words. */
export function missingNames(figures: readonly Figure[]): string[] {
  const names = new Set(figures.map(({ name }) => name));
  return REQUIRED_NAMES.filter((name) => !names.has(name))
    .map((name) => `${name} was not measured`);
}
