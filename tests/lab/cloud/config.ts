import type { Credentials } from "./sigv4.ts";

/** A cloud as it is when it starts: data, so that it fits into a file. */
export interface CloudConfig {
  readonly region: string;
  readonly vpc: VpcConfig;
  readonly subnets: readonly SubnetConfig[];
  readonly securityGroups: readonly string[];
  readonly instances: readonly InstanceConfig[];
  /** Those with `role` are what the metadata service gives to instances. */
  readonly credentials: readonly AccountCredentials[];
  /** ENIs that the account may have. */
  readonly maxEnis?: number;
  /** A network for the instances; without it there is only HTTP on loopback. */
  readonly fabric?: FabricConfig;
}

/** Network namespaces that are joined to a VPC. They exist before it, and stay. */
export interface FabricConfig {
  /** Names of the namespaces of instances, which have no links yet. */
  readonly nodes: Readonly<Record<string, string>>;
  readonly hosts: readonly HostConfig[];
  /** Where EC2 listens, on port 80. */
  readonly ec2Address: string;
  /** TTL of what the metadata service sends; 2 without it. */
  readonly imdsHopLimit?: number;
}

/** A host that is not an instance. */
export interface HostConfig {
  readonly netns: string;
  readonly addresses: readonly string[];
  /** In the Internet: an instance reaches it from the primary address of its primary ENI alone. */
  readonly isOutside?: boolean;
}

/** Its networks can change later. */
export interface VpcConfig {
  readonly id: string;
  readonly cidrs: readonly string[];
  readonly cidrs6?: readonly string[];
}

/** One of the VPC's subnets. */
export interface SubnetConfig {
  readonly id: string;
  readonly zone: string;
  readonly cidr: string;
  /** A /64. */
  readonly cidr6?: string;
}

/** An instance that runs from the start, with an ENI at device 0. */
export interface InstanceConfig {
  readonly id: string;
  readonly type: string;
  readonly subnet: string;
  readonly securityGroups: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  /** Of its ENI. */
  readonly eniTags?: Readonly<Record<string, string>>;
}

/** Credentials with the role whose they are. */
export interface AccountCredentials extends Credentials {
  readonly role?: string;
  /** What they may do; everything without it. */
  readonly policy?: Policy;
}

/** A policy of IAM, as its file has it. */
export interface Policy {
  readonly Statement: readonly Statement[];
}

/** What one statement of a policy allows. */
export interface Statement {
  readonly Sid: string;
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
  /** By operator and key. */
  readonly Condition?: Readonly<
    Record<string, Readonly<Record<string, string | readonly string[]>>>
  >;
}

/** How slow the cloud is, and how it cuts lists; times in ms, all 0 at the start. */
export interface Pace {
  /** How old is what DescribeNetworkInterfaces shows. */
  readonly describeLagMs: number;
  /** How old is what the metadata service shows of ENIs. */
  readonly imdsLagMs: number;
  /** How much later EC2 answers each call. */
  readonly answerMs: number;
  /** How long an ENI is `attaching`. */
  readonly attachMs: number;
  /** How long an ENI is `detaching`. */
  readonly detachMs: number;
  /** How much later the link of an ENI is there than its attachment. */
  readonly plugMs: number;
  /** How many items a page of a list has at the most; 0: as many as are asked for. */
  readonly pageSize: number;
}

export const NO_DELAYS: Pace = {
  describeLagMs: 0,
  imdsLagMs: 0,
  answerMs: 0,
  attachMs: 0,
  detachMs: 0,
  plugMs: 0,
  pageSize: 0,
};
