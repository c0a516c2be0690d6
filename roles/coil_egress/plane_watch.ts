import { LookLoop, TaskGroup } from "../../lib/async/mod.ts";
import { listen } from "../../lib/netlink/mod.ts";
import { getLogger, RepeatFilter } from "../../lib/telemetry/mod.ts";
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
  const failures = new RepeatFilter();
  const loop = new LookLoop<"gateway">({
    all: ["gateway"],
    everyMs: lookMs,
    look: (_parts, signal) => look(options, { failures, signal }),
    onFailure: (err) => {
      if (!failures.passes(err)) return;
      log.warn("Cannot look at the gateway's network; trying again", { err });
    },
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
  { failures, signal }: {
    readonly failures: RepeatFilter;
    readonly signal: AbortSignal;
  },
): Promise<boolean> {
  const problems = await upkeep.findDamage();
  if (problems.length === 0) return false;
  await sync.repair({ signal });
  const left = new Set(await upkeep.findDamage());
  const restored = problems.filter((problem) => !left.has(problem));
  if (restored.length > 0) {
    onRepair();
    log.warn("Put back what another program removed from the gateway", {
      problems: restored.slice(0, MAX_NAMED),
      total: restored.length,
    });
  }
  const lasting = problems.filter((problem) => left.has(problem));
  if (lasting.length > 0 && failures.passes(lasting.join())) {
    log.error("Cannot put back what is missing from the gateway", {
      problems: lasting.slice(0, MAX_NAMED),
      total: lasting.length,
    });
  }
  return true;
}
