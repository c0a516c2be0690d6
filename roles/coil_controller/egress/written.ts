import type { Egress, EgressStatus } from "../../../lib/api/mod.ts";
import { precedes } from "../base/versions.ts";

/** A status as the API server has it, and the version of its Egress. */
interface Written {
  readonly uid: string | undefined;
  readonly version: string | undefined;
  readonly status: EgressStatus;
}

/** The statuses that were written last: a reconciliation may come before the watch shows them. */
export class WrittenStatuses {
  readonly #written = new Map<string, Written>();

  /** Keeps the status of an Egress as the API server returned it. */
  keep(key: string, { metadata, status = {} }: Egress): void {
    const { uid, resourceVersion: version } = metadata;
    this.#written.set(key, { uid, version, status });
  }

  /** The newer of the statuses: what was written, or what the watch has. */
  newest(key: string, { metadata, status }: Egress): EgressStatus | undefined {
    const written = this.#written.get(key);
    const isNewer = written !== undefined && written.uid === metadata.uid &&
      precedes(metadata.resourceVersion, written.version);
    return isNewer ? written.status : status;
  }

  /** Forgets an Egress that is gone. */
  forget(key: string): void {
    this.#written.delete(key);
  }
}
