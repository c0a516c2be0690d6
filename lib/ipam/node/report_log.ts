import { keyText } from "../../cni/mod.ts";
import { getLogger } from "../../telemetry/mod.ts";
import type { AllocationRecord, PodReport } from "./reconcile.ts";

const log = getLogger("node-ipam");

/** Records of one kind in one comparison; the rest is counted. */
const MAX_RECORDS = 20;

/** Something to log: what lasts is logged again only when its text changes. */
interface Finding {
  readonly key: string;
  readonly fields: Record<string, unknown>;
  /** The fields whose change makes a new record; all where absent. */
  readonly compared?: Record<string, unknown>;
}

/**
 * Records what admins want to know of comparisons, also when they look for a
 * fault. What lasts is recorded when it begins or changes, and when it
 * is over, not at every comparison. Missing pods are routine.
 */
export class ReportLog {
  /** By message: what was logged of each key. */
  readonly #recorded = new Map<string, ReadonlyMap<string, string>>();

  /** Records one comparison. */
  record(report: PodReport): void {
    for (const record of report.registered) {
      log.info("Found a pod that was not known", fieldsOf(record));
    }
    for (const record of report.freed) {
      const fields = fieldsOf(record);
      log.warn("Freed the addresses of a deleted pod", fields);
    }
    this.#recordChanges(
      "warn",
      "A pod interface has no address",
      report.withoutAddress.map((key) => ({
        key: keyText(key),
        fields: { containerId: key.containerId, iface: key.ifname },
      })),
    );
    this.#recordChanges(
      "warn",
      "Releasing addresses takes too long",
      report.stuckReleases.map((record) => ({
        key: keyText(record),
        compared: fieldsOf(record),
        fields: {
          ...fieldsOf(record),
          seconds: Math.round(record.ageMs / 1000),
        },
      })),
    );
    this.#recordChanges(
      "error",
      "A pod has an address outside this node's blocks; it is quarantined",
      report.quarantined.map((record) => ({
        key: keyText(record),
        fields: fieldsOf(record),
      })),
    );
    this.#recordChanges(
      "error",
      "Several pods have the same address",
      report.duplicates.map(({ address, holders }) => ({
        key: address.toString(),
        fields: {
          address: address.toString(),
          attachments: holders.map(keyText),
        },
      })),
    );
  }

  #recordChanges(
    level: "warn" | "error",
    message: string,
    findings: readonly Finding[],
  ): void {
    const before = this.#recorded.get(message);
    const texts = new Map(
      findings.map(({ key, fields, compared = fields }) =>
        [key, JSON.stringify(compared)] as const
      ),
    );
    const fresh = findings.filter(({ key }) =>
      before?.get(key) !== texts.get(key)
    );
    for (const { fields } of fresh.slice(0, MAX_RECORDS)) {
      log[level](message, fields);
    }
    if (fresh.length > MAX_RECORDS) {
      const more = fresh.length - MAX_RECORDS;
      log[level](`${message}; there are more of these`, { more });
    }
    const over = [...before?.keys() ?? []].filter((key) => !texts.has(key));
    if (over.length > 0) {
      log.info(`No longer: ${message}`, {
        count: over.length,
        of: over.slice(0, MAX_RECORDS),
      });
    }
    this.#recorded.set(message, texts);
  }
}

function fieldsOf(record: AllocationRecord): Record<string, unknown> {
  const { pool, containerId, ifname, addresses } = record;
  return {
    pool,
    containerId,
    iface: ifname,
    ipv4: addresses.ipv4?.toString(),
    ipv6: addresses.ipv6?.toString(),
  };
}
