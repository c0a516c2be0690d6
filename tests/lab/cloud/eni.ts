import type { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { InstanceType } from "./instance_types.ts";
import type { SubnetSpace, SubnetSpace6 } from "./subnet_space.ts";

/** An elastic network interface, as it is at one moment. */
export interface Eni {
  readonly id: string;
  readonly mac: string;
  readonly subnet: Subnet;
  readonly securityGroups: readonly string[];
  readonly description: string;
  readonly primary: Address;
  readonly secondary: readonly Address[];
  readonly prefixes: readonly Prefix[];
  readonly addresses6: readonly Address[];
  readonly prefixes6: readonly Prefix[];
  readonly tags: ReadonlyMap<string, string>;
  readonly attachment?: EniAttachment | undefined;
}

/** Which instance has an ENI. */
export interface EniAttachment {
  readonly id: string;
  readonly instance: Instance;
  readonly deviceIndex: number;
  readonly status: "attaching" | "attached" | "detaching";
  readonly deleteOnTermination: boolean;
  /** ISO 8601. */
  readonly since: string;
}

/** An instance that runs. */
export interface Instance {
  readonly id: string;
  readonly type: InstanceType;
  readonly subnet: Subnet;
  readonly securityGroups: readonly string[];
  readonly tags: ReadonlyMap<string, string>;
}

/** A subnet with what is free in it. */
export interface Subnet {
  readonly id: string;
  readonly zone: string;
  readonly space: SubnetSpace;
  readonly space6?: SubnetSpace6 | undefined;
}

/** ENIs by their IDs. */
export type Enis = ReadonlyMap<string, Eni>;

/** What one more ENI, or one that grows, is to get. */
export interface Wanted {
  readonly addresses: number | readonly Address[];
  readonly prefixes: number | readonly Prefix[];
  readonly addresses6: number;
  readonly prefixes6: number;
}

export const NOTHING: Wanted = {
  addresses: 0,
  prefixes: 0,
  addresses6: 0,
  prefixes6: 0,
};

/** What an ENI was given. */
export type Granted = Pick<
  Eni,
  "secondary" | "prefixes" | "addresses6" | "prefixes6"
>;

/** ENIs of an instance, lowest device first. */
export function enisOf(enis: Enis, instanceId: string): Eni[] {
  return [...enis.values()]
    .filter(({ attachment }) => attachment?.instance.id === instanceId)
    .sort((a, b) => deviceOf(a) - deviceOf(b));
}

function deviceOf({ attachment }: Eni): number {
  return attachment?.deviceIndex ?? -1;
}
