import type { Family, Prefix } from "../../../lib/inet/mod.ts";

export interface VpcOptions {
  /** `auto`: prefixes where the instance type has them. */
  readonly mode: "auto" | "prefix" | "address";
  /** Of which pods get addresses. */
  readonly families: readonly Family[];
  readonly warmEnis: number;
  readonly warmIps: number;
  readonly minIps: number;
  readonly warmPrefixes: number;
  readonly free?: { readonly min: number; readonly max: number } | undefined;
  readonly maxEnis?: number | undefined;
  readonly eniLimits?:
    | { readonly enis: number; readonly addressesPerEni: number }
    | undefined;
  readonly eniMtu: number;
  readonly externalSnat: boolean;
  readonly noSnatCidrs: readonly Prefix[];
  readonly nodePorts: boolean;
  readonly podImds: boolean;
  readonly manageUntagged: boolean;
  /** Whether ENIs and their addresses may be asked for and given back. */
  readonly provision: boolean;
  readonly clusterName: string;
  readonly eniTags: Readonly<Record<string, string>>;
  /** Empty: nothing is served. */
  readonly introspectionAddress: string;
}
