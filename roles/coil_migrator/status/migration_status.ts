import type { ManifestComparison } from "../dump/manifest_check.ts";
import type { MigrationRecord } from "../cluster/record.ts";

/** How far a migration is. */
export type Phase =
  | "not begun"
  | "v1 at work"
  /** v1 is gone, and etcd was not read again after it. */
  | "dump unfinished"
  | "dumped"
  | "manifest applied in part"
  | "waiting for v2"
  | "replacing pods"
  | "releasing blocks"
  | "restarting coild"
  | "done"
  | "nothing to migrate";

/** Where a migration stands. This is what `-o json` prints. */
export interface MigrationStatus {
  readonly phase: Phase;
  /** What to do next, for people. */
  readonly next: string;
  readonly record: MigrationRecord;
  /** Objects of v1's installation that are there. */
  readonly v1Objects: readonly string[];
  readonly v1AtWork: boolean;
  /** Whether Coil's resources are installed. */
  readonly crds: boolean;
  readonly pools: number;
  readonly reservedBlocks: number;
  /** Of these, blocks that have addresses of pods. */
  readonly reservedInUse: number;
  readonly pods: {
    readonly toReplace: number;
    readonly byNode: Readonly<Record<string, number>>;
    /** Pods that are kept, and why. */
    readonly kept: Readonly<Record<string, string>>;
  };
  readonly coild: {
    readonly pods: number;
    readonly ready: number;
    /** Not restarted since the reserved blocks were removed. */
    readonly old: number;
  };
  readonly problems: readonly string[];
  readonly manifest?: ManifestComparison;
}
