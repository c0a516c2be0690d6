import { FAMILIES, type Family } from "../../inet/mod.ts";
import {
  FORWARDING,
  type Netns,
  tryReadSysctl,
  writeSysctl,
} from "../../linux/mod.ts";
import { NetlinkError, type RouteSocket, ruleAdd } from "../../netlink/mod.ts";
import { messageOf } from "../../errors/mod.ts";
import {
  type FoundHost,
  type HostLack,
  HostProblem,
  type HostSettings,
  planHost,
} from "./host_state.ts";

/** Where a node is, and what it should have. */
export interface HostOptions extends HostSettings {
  /** Absent: the process's own network namespace. */
  readonly netns?: Netns | undefined;
}

/** Changes and failures of {@linkcode ensureHost}. */
export interface HostReport {
  /** What was missing and is there now. */
  readonly repaired: readonly HostLack[];
  /** What is missing still. */
  readonly problems: readonly HostProblem[];
}

/** Reads the rules and sysctls that pods need. @throws {NetlinkError} when the kernel refuses */
export async function readHost(
  host: RouteSocket,
  { netns }: Pick<HostOptions, "netns">,
): Promise<FoundHost> {
  const rules: FoundHost["rules"] & Map<Family, unknown> = new Map();
  const forwarding = new Map<Family, string>();
  for (const family of FAMILIES) {
    const value = tryReadSysctl(FORWARDING[family], { netns });
    // A kernel started without IPv6.
    if (value === undefined) continue;
    forwarding.set(family, value);
    rules.set(family, await host.listRules({ family }));
  }
  return { rules, forwarding };
}

/**
 * Switches forwarding on and adds the rule that looks up the pod table, for
 * each family that the kernel has. Idempotent. Goes on after a failure and
 * returns all of them: trouble with one family does not keep it from serving the
 * other.
 *
 * @throws {NetlinkError} when the rules cannot be listed
 */
export async function ensureHost(
  host: RouteSocket,
  options: HostOptions,
): Promise<HostReport> {
  const plan = planHost(options, await readHost(host, options));
  const problems = [...plan.problems];
  const repaired: HostLack[] = [];
  for (const lack of plan.lacks) {
    try {
      await supply(host, lack, options);
      repaired.push(lack);
    } catch (cause) {
      problems.push(
        new HostProblem(lack.family, messageOf(cause), { cause }),
      );
    }
  }
  return { repaired, problems };
}

async function supply(
  host: RouteSocket,
  lack: HostLack,
  { netns }: HostOptions,
): Promise<void> {
  if (lack.what === "forwarding") {
    writeSysctl(lack.sysctl, 1, { netns });
    return;
  }
  const [error] = await host.tryExecute([ruleAdd(lack.rule)]);
  // Another process was faster.
  if (error instanceof NetlinkError && error.code !== "EEXIST") throw error;
}
