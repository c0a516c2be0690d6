import { CniError, ErrorCode } from "../../cni/mod.ts";
import { type Address, distinct, type Prefix } from "../../inet/mod.ts";
import { COORDINATOR_HOST_TABLE } from "../../names/mod.ts";
import type { ProbeTimes } from "../../probe/mod.ts";
import type { Given, Mode, PolicyRoute } from "./config.ts";
import { DETECT_TIMES } from "./detect_options.ts";
import { NOTHING_SHARED, type Problem } from "./shared.ts";

/** The configuration in force for one call. */
export interface Settings {
  readonly mode: Mode;
  readonly firstNic: string;
  /** Absent: the interface that has the default route keeps it. */
  readonly defaultRouteNic?: string | undefined;
  readonly tunePodRoutes: boolean;
  /** What goes through the host: pods, services and others, each once. */
  readonly hijacked: readonly Prefix[];
  readonly policyRoutes: readonly PolicyRoute[];
  readonly hostRuleTable: number;
  readonly podRpFilter: number;
  readonly txQueueLength: number;
  readonly macPrefix?: string | undefined;
  readonly vethLinkAddress?: Address | undefined;
  readonly vethMtu: number;
  readonly detectIpConflict: boolean;
  readonly detectGateway: boolean;
  readonly detectTimes: ProbeTimes;
}

/** What counts where no source says anything else: upstream's values. */
const BUILT_IN = {
  mode: "auto",
  firstNic: "eth0",
  tunePodRoutes: true,
  policyRoutes: [],
  hostRuleTable: COORDINATOR_HOST_TABLE,
  podRpFilter: 0,
  txQueueLength: 0,
  vethMtu: 1500,
  detectIpConflict: false,
  detectGateway: false,
  detectTimes: DETECT_TIMES,
} as const satisfies Partial<Settings>;

/**
 * The configuration in force: of each value the first source that gives it,
 * else the built-in one.
 */
export function settingsOf(sources: readonly Given[]): Settings {
  const given = sources.reduceRight<Given>(
    (lower, source) => ({ ...lower, ...withoutUnset(source) }),
    {},
  );
  const { overlayPodCidrs, serviceCidrs, hijackCidrs, ...rest } = given;
  return {
    ...BUILT_IN,
    ...withoutUnset(rest),
    hijacked: distinct([
      ...overlayPodCidrs ?? [],
      ...serviceCidrs ?? [],
      ...hijackCidrs ?? [],
    ]),
  };
}

/** Whether a source says where the cluster's Services are. */
export function hasServices(sources: readonly Given[]): boolean {
  return sources.some(({ serviceCidrs }) => serviceCidrs !== undefined);
}

/**
 * Refuses to connect a pod while nothing says where the cluster's Services
 * are: it would start, and reach none of them.
 *
 * @throws {CniError} with code 11
 */
export function requireServices(
  sources: readonly Given[],
  problem: Problem | undefined = NOTHING_SHARED.problem,
): void {
  if (hasServices(sources)) return;
  const { message = "", details = "" } = problem ?? {};
  throw new CniError(message, { code: ErrorCode.TRY_AGAIN_LATER, details });
}

function withoutUnset<T extends object>(
  fields: T,
): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as { [K in keyof T]: Exclude<T[K], undefined> }; // exactly what is left
}
