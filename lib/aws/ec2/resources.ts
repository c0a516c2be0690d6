import type { Address, Prefix } from "../../inet/mod.ts";

/** Values by key. */
export type Tags = Readonly<Record<string, string>>;

/** Values by the filter's name; a resource matches when each filter has one of its values. */
export type Filters = Readonly<Record<string, readonly string[]>>;

/** Where an interface is attached. */
export interface InterfaceAttachment {
  readonly attachmentId: string;
  /** Undefined where the instance is of another account. */
  readonly instanceId: string | undefined;
  readonly deviceIndex: number;
  readonly networkCardIndex: number;
  /** attaching, attached, detaching or detached. */
  readonly status: string;
  readonly deleteOnTermination: boolean;
}

/** An elastic network interface. */
export interface NetworkInterface {
  readonly networkInterfaceId: string;
  readonly subnetId: string;
  readonly vpcId: string;
  readonly availabilityZone: string;
  readonly macAddress: string;
  /** available, associated, attaching, in-use or detaching. */
  readonly status: string;
  readonly description: string;
  /** Its own address; undefined where it has IPv6 only. */
  readonly primaryAddress: Address | undefined;
  /** Its other IPv4 addresses, without those of prefixes. */
  readonly secondaryAddresses: readonly Address[];
  readonly ipv4Prefixes: readonly Prefix[];
  readonly ipv6Addresses: readonly Address[];
  readonly ipv6Prefixes: readonly Prefix[];
  readonly groups: readonly string[];
  readonly tags: Tags;
  readonly attachment: InterfaceAttachment | undefined;
}

/** Limits of an instance type. */
export interface InstanceType {
  readonly instanceType: string;
  /** Interfaces of the first network card, the primary one included. */
  readonly maxInterfaces: number;
  /** Addresses or prefixes of an interface, its own address included. */
  readonly ipv4PerInterface: number;
  readonly ipv6PerInterface: number;
  /** nitro or xen; undefined of bare metal. Prefixes need nitro or bare metal. */
  readonly hypervisor: string | undefined;
  readonly isBareMetal: boolean;
}

/** How many addresses, or how many prefixes (/28), an interface gets. */
export type AddressRequest =
  | { readonly addresses: number; readonly prefixes?: undefined }
  | { readonly prefixes: number; readonly addresses?: undefined };

/** Addresses assigned to an interface. */
export interface AddressGrant {
  readonly addresses: readonly Address[];
  readonly prefixes: readonly Prefix[];
}

/** Addresses to unassign from an interface. */
export type GivenBack = Partial<AddressGrant>;

/** The interface to create. */
export interface CreateRequest {
  /** The same for each attempt to create the same interface: 64 ASCII characters at most. */
  readonly clientToken: string;
  readonly subnetId: string;
  readonly groups: readonly string[];
  readonly description: string;
  readonly tags: Tags;
  /** Secondary addresses; not together with prefixes. */
  readonly addresses?: number | undefined;
  /** Prefixes (/28). */
  readonly prefixes?: number | undefined;
  /** Not together with IPv6 prefixes. */
  readonly ipv6Addresses?: number | undefined;
  /** IPv6 prefixes (/80). */
  readonly ipv6Prefixes?: number | undefined;
}

/** Where to attach an interface. */
export interface AttachRequest {
  readonly networkInterfaceId: string;
  readonly instanceId: string;
  readonly deviceIndex: number;
}
