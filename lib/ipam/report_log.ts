import { keyText } from "./attachment.ts";
import type { IpamLogger } from "./ports.ts";
import type { AllocationRecord, PodReport } from "./reconcile.ts";

/** Records what an admin, or somebody who looks for a fault, wants to know of a comparison. Missing pods are routine. */
export function logReport(log: IpamLogger, report: PodReport): void {
  for (const record of report.registered) {
    log.info("Found a pod that was not known", fieldsOf(record));
  }
  for (const record of report.freed) {
    log.warn("Freed the addresses of a pod that is gone", fieldsOf(record));
  }
  for (const { containerId, ifname: iface } of report.withoutAddress) {
    log.warn("A pod interface has no address", { containerId, iface });
  }
  for (const record of report.stuckReleases) {
    log.warn("The release of addresses does not end", {
      ...fieldsOf(record),
      seconds: Math.round(record.ageMs / 1000),
    });
  }
  for (const record of report.quarantined) {
    log.error(
      "A pod has an address of no block of this node; it is quarantined",
      fieldsOf(record),
    );
  }
  for (const { address, holders } of report.duplicates) {
    log.error("Several pods have the same address", {
      address: address.toString(),
      attachments: holders.map(keyText),
    });
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
