import type {
  Caller,
  LossReport,
  ReportedLoss,
  Verdict,
} from "../../../lib/announce/mod.ts";
import type { EgressLoss, EgressSuspect } from "../../../lib/api/mod.ts";
import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import { misdirected } from "../base/identity.ts";
import { refused } from "../base/verdict.ts";
import type { NamespacedName } from "../../../lib/names/mod.ts";

/** Nodes report a loss within so long of each other; what they say is looked at together. */
const GATHER_MS = 5_000;
/** A node that has lost gateways says so about once a minute. */
const FORGET_MS = 180_000;
/** How long a gateway that answers again is remembered. */
const KEEP_MS = 3_600_000;
/** The most gateways that the status has. */
const MAX_SHOWN = 8;
/** The most addresses that are remembered; a node can name 64 at a time. */
const MAX_LOSSES = 256;
const MAX_NAMES = 3;
/** More nodes than a cluster has. */
const MAX_NODES = 20_000;

/** A gateway that was lost, and the nodes of which it is. */
interface Loss {
  readonly address: string;
  /** RFC 3339. Once for all reports: another time would be a change. */
  readonly since: string;
  /** When it was last said. */
  saidMs: number;
  /** Nodes that have lost it now. */
  readonly nodes: Set<string>;
  /** Connections that each node has ended. */
  readonly ended: Map<string, number>;
}

export interface ReportedLossesOptions {
  /** The Egress that is served here. */
  readonly egress: NamespacedName;
  /** The user that may report. */
  readonly user: string;
  /** Called some seconds after the first report of something. */
  readonly onChange: () => void;
  readonly clock?: Clock;
}

/**
 * What nodes say about other gateways of the Egress: each sends all that it has
 * lost, to one gateway that answers. Bounded in any case: it is theirs to
 * say, and not checked.
 */
export class ReportedLosses implements Disposable {
  readonly #with: ReportedLossesOptions;
  readonly #clock: Clock;
  readonly #losses = new Map<string, Loss>();
  /** The nodes that lose many packets of a gateway, by its address. */
  readonly #suspects = new Map<string, Set<string>>();
  /** When each node last spoke. */
  readonly #spokeMs = new Map<string, number>();
  /** Present while reports are gathered. */
  #gathering: Disposable | undefined;

  constructor(options: ReportedLossesOptions) {
    this.#with = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Takes a report; it replaces the node's last one. */
  take({ egress, losses, suspects }: LossReport, caller: Caller): Verdict {
    const { egress: own, user } = this.#with;
    const { username, nodeName: node } = caller;
    if (username !== user || node === undefined) {
      return refused(
        403,
        `only "${user}", with a token of its node, may report`,
      );
    }
    const other = misdirected(egress, own);
    if (other !== undefined) return refused(403, other);
    const nowMs = this.#clock.nowMs();
    if (this.#spokeMs.size >= MAX_NODES && !this.#spokeMs.has(node)) {
      return refused(403, "too many nodes have reported");
    }
    this.#spokeMs.set(node, nowMs);
    const lost = new Set(losses.map(({ gateway }) => gateway.toString()));
    for (const { address, nodes } of this.#losses.values()) {
      if (!lost.has(address)) nodes.delete(node);
    }
    for (const loss of losses) this.#note(node, loss);
    this.#suspect(node, new Set(suspects.map(String)));
    this.#forget();
    this.#gathering ??= this.#clock.after(GATHER_MS, () => {
      this.#gathering = undefined;
      this.#with.onChange();
    });
    return { status: 204 };
  }

  /** The gateways that are lost or were, those that most nodes have lost first. */
  list(): EgressLoss[] {
    this.#forget();
    return [...this.#losses.values()]
      .sort((a, b) => b.nodes.size - a.nodes.size || b.saidMs - a.saidMs)
      .slice(0, MAX_SHOWN)
      .map(({ address, nodes, ended, since }) => ({
        address,
        nodes: nodes.size,
        ...(nodes.size > 0 && {
          nodeNames: [...nodes].slice(0, MAX_NAMES),
        }),
        since,
        endedConnections: ended.values().reduce((sum, n) => sum + n, 0),
      }));
  }

  /** The gateways of which nodes lose many packets now, those of most nodes first. */
  suspects(): EgressSuspect[] {
    this.#forget();
    return [...this.#suspects]
      .sort(([, a], [, b]) => b.size - a.size)
      .slice(0, MAX_SHOWN)
      .map(([address, nodes]) => ({
        address,
        nodes: nodes.size,
        nodeNames: [...nodes].slice(0, MAX_NAMES),
      }));
  }

  #suspect(node: string, suspects: ReadonlySet<string>): void {
    for (const [address, nodes] of this.#suspects) {
      if (!suspects.has(address)) nodes.delete(node);
      if (nodes.size === 0) this.#suspects.delete(address);
    }
    for (const address of suspects) {
      const known = this.#suspects.get(address);
      if (known === undefined && this.#suspects.size >= MAX_LOSSES) continue;
      this.#suspects.set(address, (known ?? new Set()).add(node));
    }
  }

  [Symbol.dispose](): void {
    this.#gathering?.[Symbol.dispose]();
  }

  #note(node: string, { gateway, seconds, ended }: ReportedLoss): void {
    const address = gateway.toString();
    const loss = this.#lossOf(address, seconds);
    if (loss === undefined) return;
    loss.saidMs = this.#clock.nowMs();
    loss.nodes.add(node);
    // A coild that was restarted counts from 0.
    loss.ended.set(node, Math.max(ended, loss.ended.get(node) ?? 0));
  }

  /** Undefined when too many are known. */
  #lossOf(address: string, seconds: number): Loss | undefined {
    const known = this.#losses.get(address);
    if (known !== undefined && known.nodes.size > 0) return known;
    if (this.#losses.size >= MAX_LOSSES) this.#forget({ keepMs: 0 });
    if (this.#losses.size >= MAX_LOSSES) return undefined;
    const loss = {
      address,
      since: new Date(Date.now() - 1_000 * seconds).toISOString(),
      saidMs: this.#clock.nowMs(),
      nodes: new Set<string>(),
      ended: new Map<string, number>(),
    };
    this.#losses.set(address, loss);
    return loss;
  }

  /** Nodes that are silent, and gateways that answer again since long. */
  #forget({ keepMs = KEEP_MS }: { readonly keepMs?: number } = {}): void {
    const nowMs = this.#clock.nowMs();
    for (const [node, spokeMs] of this.#spokeMs) {
      if (nowMs - spokeMs < FORGET_MS) continue;
      this.#spokeMs.delete(node);
      for (const { nodes } of this.#losses.values()) nodes.delete(node);
      this.#suspect(node, new Set());
    }
    for (const [address, { nodes, saidMs }] of this.#losses) {
      if (nodes.size > 0 || nowMs - saidMs < keepMs) continue;
      this.#losses.delete(address);
    }
  }
}
