import type { Call } from "./calls.ts";
import type { AccountCredentials, Pace, VpcConfig } from "./config.ts";
import type { Fault } from "./faults.ts";

/** What a test can ask a running cloud for, each as JSON on its control socket. */
export interface Commands {
  /** Lets calls fail. */
  fault(fault: Fault): void;
  /** Ends all faults, and gives the answers that they hold back. */
  clearFaults(): void;
  /** Makes the cloud slower or faster from now on. Links that wait are plugged when `plugMs` is set to 0. */
  setPace(pace: Partial<Pace>): Promise<void>;
  /** Gives the VPC other networks. */
  setVpc(vpc: Partial<VpcConfig>): void;
  /** Replaces the credentials that are valid. */
  setCredentials(credentials: readonly AccountCredentials[]): void;
  /** Makes all tokens of the metadata service invalid. */
  forgetTokens(): void;
  /** Calls from a position on, oldest first. */
  calls(from: number): readonly Call[];
  /** Runs an action as an operator does: unsigned, unrecorded, without faults. Answers with XML. */
  byHand(form: string): Promise<string>;
  /** Packets that the fabric dropped, by ENI, and as `not_public`. It is up to date with all changes so far. */
  drops(): Promise<Readonly<Record<string, number>>>;
}

/** A command as it is sent. */
export interface CommandMessage {
  readonly command: keyof Commands;
  readonly argument: unknown;
}

/** Where a cloud listens; printed as one line when it is ready. */
export interface Endpoints {
  readonly ec2: string;
  /** By instance. */
  readonly imds: Readonly<Record<string, string>>;
}
