import { LookLoop, TaskGroup } from "../../lib/async/mod.ts";
import { listen } from "../../lib/netlink/mod.ts";
import { getLogger } from "../../lib/telemetry/mod.ts";
import type { KernelSync } from "./kernel_sync.ts";
import type { PlaneUpkeep } from "./ports.ts";

const log = getLogger("egress-sync");

/** How often to look, whatever the kernel tells. */
const LOOK_MS = 30_000;

/** So many of the things that are missing are named. */
const MAX_NAMED = 10;

/** What {@linkcode watchPlane} works with. */
export interface PlaneWatchOptions {
  readonly upkeep: PlaneUpkeep;
  readonly sync: Pick<KernelSync, "repair">;
  /** Is called when something was put back. */
  readonly onRepair: () => void;
  readonly signal: AbortSignal;
  /** Default 30 s. */
  readonly lookMs?: number;
}

/** Puts back what others remove from the gateway's network, until the signal. */
export async function watchPlane(options: PlaneWatchOptions): Promise<void> {
  const { upkeep, signal, lookMs = LOOK_MS } = options;
  const loop = new LookLoop<"gateway">({
    all: ["gateway"],
    everyMs: lookMs,
    look: (_parts, signal) => look(options, signal),
    onFailure: (err) =>
      log.warn("Cannot look at the gateway's network; trying again", { err }),
  });
  await using tasks = new TaskGroup({ signal });
  tasks.run("listening to the kernel", (signal) =>
    listen({
      watch: () => upkeep.watch(),
      onStart: () => loop.want(["gateway"]),
      onHeard: () => loop.want(["gateway"]),
      onFailure: (err) =>
        log.warn(
          "Cannot listen to the kernel: what others remove is seen every 30 s only",
          { err },
        ),
      signal,
    }));
  tasks.run("looking at the gateway", (signal) => loop.run(signal));
  await tasks.wait();
}

async function look(
  { upkeep, sync, onRepair }: PlaneWatchOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const problems = await upkeep.findDamage();
  if (problems.length === 0) return false;
  await sync.repair({ signal });
  onRepair();
  log.warn("Put back what another program removed from the gateway", {
    problems: problems.slice(0, MAX_NAMED),
    total: problems.length,
  });
  return true;
}
