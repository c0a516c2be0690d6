/** What a type of instance can have. */
export interface InstanceType {
  readonly name: string;
  /** ENIs of the first network card. */
  readonly enis: number;
  /** IPv4 addresses, the primary one included, and as many of IPv6, of each ENI. */
  readonly addresses: number;
  /** Prefixes and IPv6 need Nitro. */
  readonly hypervisor: "nitro" | "xen";
}

const types: readonly InstanceType[] = [
  { name: "t2.nano", enis: 2, addresses: 2, hypervisor: "xen" },
  { name: "t3.nano", enis: 2, addresses: 2, hypervisor: "nitro" },
  { name: "t3.small", enis: 3, addresses: 4, hypervisor: "nitro" },
  { name: "t3.medium", enis: 3, addresses: 6, hypervisor: "nitro" },
  { name: "m4.4xlarge", enis: 8, addresses: 30, hypervisor: "xen" },
  { name: "m5.large", enis: 3, addresses: 10, hypervisor: "nitro" },
  { name: "m5.xlarge", enis: 4, addresses: 15, hypervisor: "nitro" },
  { name: "m5.4xlarge", enis: 8, addresses: 30, hypervisor: "nitro" },
  { name: "m5.24xlarge", enis: 15, addresses: 50, hypervisor: "nitro" },
];

/** Some types with the limits that EC2 has for them. */
export const INSTANCE_TYPES: ReadonlyMap<string, InstanceType> = new Map(
  types.map((type) => [type.name, type]),
);
