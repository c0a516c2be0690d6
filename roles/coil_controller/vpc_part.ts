import type { Registry } from "../../lib/telemetry/mod.ts";
import { RegionAccount } from "./vpc/account.ts";
import { SweepMetrics } from "./vpc/metrics.ts";
import { VpcSweep } from "./vpc/sweep.ts";

/** A node that starts has its ENIs attached within seconds. */
const AFTER_MS = 300_000;

export interface VpcPartOptions {
  /** The cluster whose ENIs are looked at. */
  readonly cluster: string;
  readonly registry: Registry;
  readonly env: Pick<Deno.Env, "get">;
  /** For how long an ENI must have had no instance. Default 5 min. */
  readonly sweepAfterMs?: number | undefined;
}

/** Returns what a leader does with ENIs that deleted nodes have left. */
export function openVpcSweep(
  options: VpcPartOptions,
): (leading: AbortSignal) => Promise<void> {
  const { cluster, env, registry, sweepAfterMs: afterMs = AFTER_MS } = options;
  const metrics = new SweepMetrics(registry);
  return async (leading) => {
    using account = new RegionAccount(env);
    const open = (signal: AbortSignal) => account.open(signal);
    await new VpcSweep({ cluster, afterMs, metrics, open }).run(leading);
  };
}
