import { getLogger } from "../../../lib/telemetry/mod.ts";
import { NODE_NFT_TABLE } from "../../../lib/names/mod.ts";
import type { CoildMetrics, Repair } from "./metrics.ts";
import type { NodeEvents } from "./node_events.ts";

const log = getLogger("upkeep");

/** How many repairs within this time make an Event. */
const EVENT_REPAIRS = 3;
const WINDOW_MS = 10 * 60_000;

/** What is put back together is one repair. */
const SAME_MS = 500;

/** After the first ones, one log record covers all repairs within this time. */
const LOG_MS = 60_000;

const REPAIRED_REASON = "NodeNetworkRepaired";

export interface RepairReportsOptions {
  readonly metrics: Pick<CoildMetrics, "repaired">;
  readonly nodeEvents: Pick<NodeEvents, "record">;
  /** Milliseconds that never go back; replaced in tests. */
  readonly now?: () => number;
}

/** One repair: everything that was put back at about the same time. */
interface RepairEntry {
  readonly atMs: number;
  readonly what: Set<Repair>;
}

/**
 * Reports that another program removes what is Coil's: in the metrics each time, in the
 * log without flooding it, and by an Event on the Node when it goes on.
 */
export class RepairReports {
  readonly #options: RepairReportsOptions;
  readonly #now: () => number;
  /** Within the window, oldest first. */
  #repairs: RepairEntry[] = [];
  #loggedAtMs = -Infinity;
  #eventAtMs = -Infinity;

  constructor(options: RepairReportsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Records what was put back. */
  repaired(what: readonly Repair[]): void {
    if (what.length === 0) return;
    for (const each of what) this.#options.metrics.repaired(each);
    const now = this.#now();
    const last = this.#repairs.at(-1);
    if (last !== undefined && now - last.atMs < SAME_MS) {
      for (const each of what) last.what.add(each);
      return;
    }
    this.#repairs = this.#repairs.filter((r) => now - r.atMs < WINDOW_MS);
    this.#repairs.push({ atMs: now, what: new Set(what) });
    this.#log(now);
    this.#record(now);
  }

  #log(now: number): void {
    const count = this.#repairs.length;
    if (count > EVENT_REPAIRS && now - this.#loggedAtMs < LOG_MS) return;
    this.#loggedAtMs = now;
    log.warn(
      "Restored parts of the node's network that another program removed",
      {
        what: this.#kinds(),
        repairs: count,
        withinMs: WINDOW_MS,
      },
    );
  }

  #record(now: number): void {
    if (this.#repairs.length < EVENT_REPAIRS) return;
    if (now - this.#eventAtMs < WINDOW_MS) return;
    this.#eventAtMs = now;
    this.#options.nodeEvents.record({
      type: "Warning",
      reason: REPAIRED_REASON,
      message: messageOf(this.#kinds()),
    });
  }

  #kinds(): Repair[] {
    return [...new Set(this.#repairs.flatMap(({ what }) => [...what]))].sort();
  }
}

// mutate: words for people.
const WORDS: Readonly<Record<Repair, string>> = {
  rule: "its routing rules",
  forwarding: "IP forwarding",
  link: "pods' host links",
  address: "gateway addresses of pods",
  route: "routes to pods",
  export: "routes of its address blocks",
  sources: "the table that drops forged sources",
};

const FLUSHED =
  `Another program keeps deleting or changing the nftables table "inet ${NODE_NFT_TABLE}" on this node; coild restores it, but pods can send from any source for a moment each time. The usual cause is nftables.service or a script with "flush ruleset": let it delete only its own tables`;

function messageOf(kinds: readonly Repair[]): string {
  if (kinds.every((kind) => kind === "sources")) return FLUSHED;
  const network = kinds.filter((kind) => kind !== "sources");
  const what = network.map((kind) => WORDS[kind]).join(", ");
  const flushed = network.length < kinds.length ? `. ${FLUSHED}` : "";
  return `Another program keeps removing what Coil needs on this node (${what}); coild restored it at least ${EVENT_REPAIRS} times within 10 minutes, but pods lost their network each time. The usual cause is systemd-networkd, which "netplan apply" restarts:  set ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no in section [Network] of /etc/systemd/networkd.conf.d/coil.conf and restart systemd-networkd${flushed}`;
}
