import {
  Allowance,
  type Clock,
  Gate,
  type Rate,
  systemClock,
} from "../../../lib/async/mod.ts";

/** What goes wrong with calls of one kind. */
export type Fault =
  & {
    /** An action of EC2, or `IMDS` with method and path; "*" at its end stands for anything. */
    readonly call: string;
    /** How often; always without it. */
    readonly times?: number;
  }
  & FaultKind;

/** How a call fails, or does not come back. */
export type FaultKind =
  /** Answered with the error, without the change. A status for the metadata service, such as "404". */
  | { readonly kind: "error"; readonly code: string }
  /** Answered with nothing at all, as an empty list. The metadata service only. */
  | { readonly kind: "empty" }
  /** The connection is closed without an answer, before or after the change. */
  | { readonly kind: "cut"; readonly when: "before" | "after" }
  /** The connection is closed in the middle of the answer, after the change. */
  | { readonly kind: "half" }
  /** The change is made at once, the answer comes later: without a time when the faults are cleared. */
  | { readonly kind: "late"; readonly ms?: number }
  /** Calls beyond the rate are refused with `RequestLimitExceeded`, as those of a whole account are. */
  | { readonly kind: "throttle" } & Rate;

/** A fault that holds. */
interface InForce {
  readonly fault: Fault;
  left: number;
  readonly allowance?: Allowance | undefined;
}

/** Faults in force; of those that fit a call the first one is taken. */
export class Faults {
  readonly #clock: Clock;
  #inForce: InForce[] = [];
  #cleared = new Gate();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  add(fault: Fault): void {
    const nowMs = () => this.#clock.nowMs();
    const allowance = fault.kind === "throttle"
      ? new Allowance(fault, { nowMs })
      : undefined;
    this.#inForce.push({ fault, left: fault.times ?? Infinity, allowance });
  }

  /** Ends those in force, and the wait for answers that they hold back. */
  clear(): void {
    this.#inForce = [];
    this.#cleared.open();
    this.#cleared = new Gate();
  }

  /** Resolves when they are cleared next. */
  cleared(): Promise<void> {
    return this.#cleared.wait();
  }

  /** The fault of a call that comes now, which counts as one of its times. */
  take(call: string): Fault | undefined {
    const found = this.#inForce.find(({ fault, allowance }) =>
      fits(fault.call, call) && allowance?.take() !== true
    );
    if (found === undefined) return undefined;
    if (--found.left <= 0) {
      this.#inForce = this.#inForce.filter((it) => it !== found);
    }
    return found.fault;
  }
}

function fits(pattern: string, call: string): boolean {
  return pattern.endsWith("*")
    ? call.startsWith(pattern.slice(0, -1))
    : call === pattern;
}
