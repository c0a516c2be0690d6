import type { Netns } from "../linux/mod.ts";
import type { ClientPlan } from "./client_plan.ts";
import type {
  ShadowedDestination,
  SkippedDestination,
} from "./client_request.ts";

/** Where to work. */
export interface ClientOptions {
  /** The pod's network namespace. It has to stay open until the call is done. */
  readonly netns: Netns;
  /** Gives up between two steps; the next call goes on. */
  readonly signal?: AbortSignal;
}

/** What `applyClient()` did. */
export interface ClientReport {
  /** What was changed, one phrase each; empty when all was as planned. */
  readonly changes: readonly string[];
  /** Destinations that another Egress got. */
  readonly shadowed: readonly ShadowedDestination[];
  /** Destinations of a family that pod or Service lacks. */
  readonly skipped: readonly SkippedDestination[];
}

/** Makes a client of a pod. */
export function applyClient(
  _plan: ClientPlan,
  _options: ClientOptions,
): Promise<ClientReport> {
  throw new TypeError("Cannot apply client plan: not written yet");
}

/** Removes everything that makes a client of a pod. */
export function clearClient(_options: ClientOptions): Promise<boolean> {
  throw new TypeError("Cannot clear client: not written yet");
}

/** Whether anything in the namespace makes a client of the pod. */
export function isClient(_options: ClientOptions): Promise<boolean> {
  throw new TypeError("Cannot look for a client: not written yet");
}
