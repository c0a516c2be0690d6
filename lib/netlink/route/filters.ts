import type { Family } from "../../inet/mod.ts";
import type { AddressEntry } from "./address.ts";
import type { Route } from "./route.ts";

/** Which addresses are meant. */
export interface AddressFilter {
  /** Of this link alone. */
  readonly index?: number;
  readonly family?: Family;
  /** Which of them are to be in the list, as of a {@linkcode RouteFilter}: a pod may have any number. */
  readonly keep?: (entry: AddressEntry) => boolean;
}

/** Which routes are meant. */
export interface RouteFilter {
  readonly table?: number;
  readonly family?: Family;
  /** Made by this protocol. */
  readonly protocol?: number;
  /** By this link alone. */
  readonly index?: number;
  /** Without those to the namespace's own addresses, broadcast and multicast ones: most of what a small namespace has. */
  readonly outward?: true;
  /**
   * Which of them are to be in the list, for a caller that looks at each as it comes and needs few. Sees all of them again
   * when the kernel starts the list over.
   */
  readonly keep?: (route: Route) => boolean;
}
