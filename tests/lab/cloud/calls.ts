import { type Clock, systemClock } from "../../../lib/async/mod.ts";
import type { Access } from "./iam.ts";

/** A call as it was answered. */
export interface Call {
  /** In ms since the cloud started. */
  readonly atMs: number;
  /** An action of EC2, or `IMDS` with method and path. */
  readonly call: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** An access key, or the instance that asked the metadata service. */
  readonly caller?: string | undefined;
  readonly status: number;
  /** What IAM was asked of it, where the caller has a policy. */
  readonly needs?: readonly Access[] | undefined;
  /** Of an error, EC2's own. */
  readonly code?: string | undefined;
  /** What was done to it on purpose. */
  readonly fault?: string | undefined;
}

/** All calls, oldest first. */
export class CallLog {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #calls: Call[] = [];

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
    this.#startMs = clock.nowMs();
  }

  note(call: Omit<Call, "atMs">): void {
    const atMs = Math.round(this.#clock.nowMs() - this.#startMs);
    this.#calls.push({ atMs, ...call });
  }

  /** Those from a position on; the next one to ask for is as many further as there are. */
  from(position: number): readonly Call[] {
    return this.#calls.slice(position);
  }
}
