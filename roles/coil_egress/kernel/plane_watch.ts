import { LookLoop, TaskGroup } from "../../../lib/async/mod.ts";
import {
  listen,
  type Listener,
  warnOfDeafness,
} from "../../../lib/netlink/mod.ts";
import { getLogger, RepeatFilter } from "../../../lib/telemetry/mod.ts";
import type { KernelSync } from "./kernel_sync.ts";
import type { PlaneUpkeep } from "../base/ports.ts";

const log = getLogger("egress-sync");

/** How often to look, also when the kernel reports nothing. */
const LOOK_MS = 30_000;

/** The most missing things that are named. */
const MAX_NAMED = 10;

export interface PlaneWatchOptions {
  readonly upkeep: PlaneUpkeep;
  readonly sync: Pick<KernelSync, "repair">;
  /** Called when something was restored. */
  readonly onRepair: () => void;
  readonly signal: AbortSignal;
  /** Default 30 s. */
  readonly lookMs?: number | undefined;
}

/** What is checked: links, rules and routes, or also the content of the nftables table. */
type Part = "gateway" | "table";

/** Puts back what others remove from the gateway's network, until the signal. */
export async function watchPlane(options: PlaneWatchOptions): Promise<void> {
  const { upkeep, signal, lookMs = LOOK_MS } = options;
  const failures = new RepeatFilter();
  const loop = new LookLoop<Part>({
    all: ["gateway", "table"],
    everyMs: lookMs,
    look: (parts, signal) =>
      look(options, { failures, signal, table: parts.has("table") }),
    onFailure: (err) => {
      if (!failures.passes(err)) return;
      log.warn("Cannot check the gateway's network; retrying", { err });
    },
  });
  const onFailure = warnOfDeafness(
    log,
    "checking the gateway every 30 s",
    failures,
  );
  const listening = <T>(watch: () => Listener<T>, part: Part) => {
    const want = () => loop.want([part]);
    return (signal: AbortSignal) =>
      listen({ watch, onStart: want, onHeard: want, onFailure, signal });
  };
  await using tasks = new TaskGroup({ signal });
  tasks.run(
    "listening to rtnetlink",
    listening(() => upkeep.watch(), "gateway"),
  );
  tasks.run(
    "listening to nf_tables",
    listening(() => upkeep.watchTable(), "table"),
  );
  tasks.run("looking at the gateway", (signal) => loop.run(signal));
  await tasks.wait();
}

async function look(
  { upkeep, sync, onRepair }: PlaneWatchOptions,
  { failures, signal, table }: {
    readonly failures: RepeatFilter;
    readonly signal: AbortSignal;
    readonly table: boolean;
  },
): Promise<boolean> {
  const problems = await upkeep.findDamage({ table });
  if (problems.length === 0) return false;
  await sync.repair({ signal });
  const left = new Set(await upkeep.findDamage({ table }));
  const restored = problems.filter((problem) => !left.has(problem));
  if (restored.length > 0) {
    onRepair();
    log.warn("Restored what another program removed from the gateway", {
      problems: restored.slice(0, MAX_NAMED),
      total: restored.length,
    });
  }
  const lasting = problems.filter((problem) => left.has(problem));
  if (lasting.length > 0 && failures.passes(lasting.join())) {
    log.error("Cannot restore the gateway's network", {
      problems: lasting.slice(0, MAX_NAMED),
      total: lasting.length,
    });
  }
  return true;
}
