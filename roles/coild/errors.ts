/** Conditions that coild itself finds, one class for each answer a caller can get. */

/** The daemon cannot serve this call yet; the same call later will work. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
}

/** The call itself is wrong: a missing or malformed CNI parameter. */
export class InvalidCallError extends Error {
  override readonly name = "InvalidCallError";
}

/** The network configuration asks for what Coil does not do. */
export class InvalidNetworkError extends Error {
  override readonly name = "InvalidNetworkError";
}

/** The pod, or its namespace, is not (or no longer) in the cluster. */
export class PodNotFoundError extends Error {
  override readonly name = "PodNotFoundError";
}

/** The pod asks for an egress gateway, which this release cannot give it. */
export class EgressUnsupportedError extends Error {
  override readonly name = "EgressUnsupportedError";
}

/** The attachment that CHECK was asked about is absent or damaged. */
export class CheckFailedError extends Error {
  override readonly name = "CheckFailedError";
  /** What differs, one sentence each. */
  readonly problems: readonly string[];

  constructor(message: string, problems: readonly string[]) {
    super(message);
    this.problems = problems;
  }
}

/** A pod got no address; `cause` says why in the terms of the address management. */
export class AddressError extends Error {
  override readonly name = "AddressError";
}
