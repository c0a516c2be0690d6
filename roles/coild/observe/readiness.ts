import { NotReadyError } from "../base/errors.ts";

/**
 * The conditions that a starting daemon waits for before its first ADD, and
 * those that a running one has lost.
 *
 * Each condition has a name and, while it is not met, a reason in words that
 * say to an admin what is being waited for. The same reasons go to ADD's answer,
 * to STATUS and to `/readyz`.
 */
export class Readiness {
  readonly #waiting = new Map<string, string>();

  /** Starts with every condition unmet. */
  constructor(conditions: Readonly<Record<string, string>>) {
    for (const [name, reason] of Object.entries(conditions)) {
      this.#waiting.set(name, reason);
    }
  }

  /** Marks a condition as met. */
  met(name: string): void {
    this.#waiting.delete(name);
  }

  /** Marks a condition as not met, or changes the reason. */
  waiting(name: string, reason: string): void {
    this.#waiting.set(name, reason);
  }

  /** Why ADD cannot be served, or undefined when it can. */
  get reason(): string | undefined {
    return this.#waiting.size === 0
      ? undefined
      : [...this.#waiting.values()].join("; ");
  }

  /** True when every condition is met. */
  get isReady(): boolean {
    return this.#waiting.size === 0;
  }

  /** @throws {NotReadyError} while a condition is not met. */
  assertReady(): void {
    const reason = this.reason;
    if (reason !== undefined) {
      throw new NotReadyError(`Cannot serve pods yet: ${reason}`);
    }
  }

  /** The conditions as health checks: true, or the reason. */
  check(): true | string {
    return this.reason ?? true;
  }
}
