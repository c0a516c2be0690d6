import {
  type Link,
  type LinkSelector,
  linkSet,
  type NetlinkError,
  type Request,
} from "../../netlink/mod.ts";

/** A link with the MAC address that the other end knows. */
export type EndLink = Link & { readonly mac: string };

/** Both ends of the link between a pod and its host. */
export interface Ends {
  readonly inner: EndLink;
  readonly outer: EndLink;
  /** Whether this call has made it: nothing leads to it yet, and the pod's end is still to be set up. */
  readonly isNew: boolean;
}

/** What sets an end up, without a link-local address of the kernel's: nothing here needs one. */
export function raiseRequests(
  link: LinkSelector,
  options: { readonly alias?: string } = {},
): Request[] {
  return [
    linkSet(link, { ipv6AddrGenMode: "none" }),
    linkSet(link, { ...options, up: true }),
  ];
}

/** What the kernel refused of {@linkcode raiseRequests} that matters. */
export function raiseProblem(
  errors: readonly (NetlinkError | undefined)[],
): NetlinkError | undefined {
  return errors.find((error, i) =>
    error !== undefined &&
    // A kernel without IPv6, or an MTU too small for it.
    !(i === 0 && error.code === "EAFNOSUPPORT")
  );
}
