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
  /** The change is made at once, the answer comes later. */
  | { readonly kind: "late"; readonly ms: number };

/** Faults in force; the first one that fits a call is taken. */
export class Faults {
  #waiting: { readonly fault: Fault; left: number }[] = [];

  add(fault: Fault): void {
    this.#waiting.push({ fault, left: fault.times ?? Infinity });
  }

  clear(): void {
    this.#waiting = [];
  }

  /** The fault of a call that comes now, which counts as one of its times. */
  take(call: string): Fault | undefined {
    const found = this.#waiting.find(({ fault }) => fits(fault.call, call));
    if (found === undefined) return undefined;
    if (--found.left <= 0) {
      this.#waiting = this.#waiting.filter((it) => it !== found);
    }
    return found.fault;
  }
}

function fits(pattern: string, call: string): boolean {
  return pattern.endsWith("*")
    ? call.startsWith(pattern.slice(0, -1))
    : call === pattern;
}
