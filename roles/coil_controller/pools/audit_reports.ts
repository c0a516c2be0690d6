import type { PoolAuditReport } from "../../../lib/api/mod.ts";
import {
  ADDRESS_FINDING_CODES,
  countFindings,
  findingsText,
} from "../../../lib/ipam/audit/mod.ts";
import type { IpamMetrics } from "../ipam/metrics.ts";
import type { PoolFinding } from "./pool_audit.ts";

/** Findings of the last audit: as a metric, and for the status of each pool. */
export class AuditReports {
  readonly #metrics: Pick<IpamMetrics, "findings">;
  readonly #onChanged: (pool: string) => void;
  /** By pool, what its status says; undefined before the first audit. */
  #problems: ReadonlyMap<string, string> | undefined;

  constructor(
    { metrics, onChanged }: {
      readonly metrics: Pick<IpamMetrics, "findings">;
      /** Another audit has found something else about a pool. */
      readonly onChanged: (pool: string) => void;
    },
  ) {
    this.#metrics = metrics;
    this.#onChanged = onChanged;
  }

  /** What is known of a pool; undefined before the first audit. */
  of(pool: string): PoolAuditReport | undefined {
    return this.#problems && { problem: this.#problems.get(pool) };
  }

  /** Takes over what an audit has found. When one failed, statuses stay as they are. */
  note(
    findings: readonly PoolFinding[] | undefined,
    pools: readonly string[],
  ): void {
    const gauge = this.#metrics.findings;
    if (findings === undefined) return gauge.reset();
    const counts = countFindings(ADDRESS_FINDING_CODES, findings);
    for (const [code, count] of counts) gauge.set({ code }, count);
    const byPool = Map.groupBy(findings, ({ pool = "" }) => pool);
    const before = this.#problems;
    const problems = new Map(
      [...byPool].map(([pool, own]) => [
        pool,
        `${findingsText(own)}. What to do: coil ipam check`,
      ]),
    );
    this.#problems = problems;
    for (const pool of pools) {
      const isNews = before === undefined ||
        before.get(pool) !== problems.get(pool);
      if (isNews) this.#onChanged(pool);
    }
  }
}
