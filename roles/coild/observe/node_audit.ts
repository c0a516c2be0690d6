import type { NodeAddresses } from "../../../lib/cnirpc/inspection/mod.ts";
import {
  countFindings,
  findingsText,
  MIN_AGE_MS,
  NODE_FINDING_CODES,
  type NodeFinding,
  nodeFindings,
  runAudits,
} from "../../../lib/ipam/audit/mod.ts";
import type { Clock } from "../../../lib/async/mod.ts";
import {
  type Gauge,
  MetricFactory,
  type Registry,
} from "../../../lib/telemetry/mod.ts";
import type { NodeEvents } from "./node_events.ts";

const INCONSISTENT_REASON = "AddressesInconsistent";

export interface NodeAuditOptions {
  /** What kernel, address table and API server have. */
  readonly read: () => Promise<NodeAddresses>;
  readonly registry: Registry;
  readonly nodeEvents: Pick<NodeEvents, "record">;
  readonly intervalMs: number;
  /** Replaced in tests. */
  readonly clock?: Clock;
}

/**
 * Looks from time to time for what `coil ipam check --nodes` finds on this
 * node, and reports it: a metric, and an Event on the Node when it changes.
 */
export class NodeAudit {
  readonly #with: NodeAuditOptions;
  readonly #findings: Gauge<"code">;
  /** What the last Event said. */
  #reported = "";

  constructor(options: NodeAuditOptions) {
    this.#with = options;
    const make = new MetricFactory(options.registry);
    this.#findings = make.gauge("coil_coild_audit_findings", {
      help:
        "Inconsistencies of the node's addresses, as coil ipam check --nodes finds them, by code; absent while they are not known.",
      labels: ["code"],
    });
  }

  /** Audits until the signal. */
  run(signal: AbortSignal): Promise<void> {
    const { read, intervalMs, clock } = this.#with;
    return runAudits({
      look: async () => {
        const answer = await read();
        if (answer.pods === undefined) {
          throw new Error("Cannot audit: the node's pods are not known yet");
        }
        return nodeFindings(answer, { minAgeSeconds: MIN_AGE_MS / 1_000 });
      },
      onFindings: (findings) => this.#report(findings),
      intervalMs,
      clock,
    }, signal);
  }

  #report(findings: readonly NodeFinding[] | undefined): void {
    if (findings === undefined) return this.#findings.reset();
    const counts = countFindings(NODE_FINDING_CODES, findings);
    for (const [code, count] of counts) this.#findings.set({ code }, count);
    const text = findings.map(({ object, code }) => `${code} ${object}`).sort()
      .join();
    if (text === this.#reported) return;
    this.#reported = text;
    if (findings.length === 0) return;
    this.#with.nodeEvents.record({
      type: "Warning",
      reason: INCONSISTENT_REASON,
      message: `${findingsText(findings)}. What to do: coil ipam check --nodes`,
    });
  }
}
