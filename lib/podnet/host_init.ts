import { FAMILIES } from "../inet/mod.ts";
import { type Netns, writeSysctl } from "../linux/mod.ts";
import { NetlinkError, type RouteSocket, ruleAdd } from "../netlink/mod.ts";

/** What a node needs before it can connect pods. */
export interface HostSettings {
  readonly tableId: number;
  readonly rulePriority: number;
  /** Absent: the process's own network namespace. */
  readonly netns?: Netns;
}

const FORWARDING = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/**
 * Switches forwarding on and adds the rule that looks up the pod table, for
 * each family, unless a rule of that priority is there: one for another table is
 * left alone and reported. Idempotent. Goes on after a failure and returns all
 * of them: a node without IPv6 is no reason not to serve IPv4 pods.
 */
export async function prepareHost(
  host: RouteSocket,
  settings: HostSettings,
): Promise<unknown[]> {
  const problems: unknown[] = [];
  for (const name of FORWARDING) {
    try {
      const { netns } = settings;
      writeSysctl(name, 1, netns === undefined ? {} : { netns });
    } catch (error) {
      problems.push(error);
    }
  }
  for (const family of FAMILIES) {
    try {
      await ensureRule(host, { ...settings, family });
    } catch (error) {
      problems.push(error);
    }
  }
  return problems;
}

async function ensureRule(
  host: RouteSocket,
  rule: HostSettings & { readonly family: "ipv4" | "ipv6" },
): Promise<void> {
  const { family, rulePriority: priority, tableId: table } = rule;
  const rules = await host.listRules({ family });
  const present = rules.filter((other) => other.priority === priority);
  if (present.some((other) => other.table === table)) return;
  const [foreign] = present;
  if (foreign !== undefined) {
    // As upstream, which says nothing: somebody may have put it there on purpose.
    throw new Error(
      `Cannot route ${family} pods by table ${table}: priority ${priority} has a rule for table ${foreign.table}`,
    );
  }
  const [error] = await host.tryExecute([ruleAdd({ family, priority, table })]);
  // Another process was faster.
  if (error instanceof NetlinkError && error.code !== "EEXIST") throw error;
}
