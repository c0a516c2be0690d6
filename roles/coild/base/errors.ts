import {
  EGRESS_ANNOTATION_PREFIX,
  type NamespacedName,
  nameText,
  POD_POOLS_ANNOTATION,
  POOL_ANNOTATION,
} from "../../../lib/names/mod.ts";

/** Conditions that coild itself finds, one class for each answer a caller can get. */

/** The error that the caller of a failed call gets. */
export class CallError extends Error {
  override readonly name = "CallError";
  /** Status code of gRPC. */
  readonly status: number;
  /** Error code of CNI. */
  readonly code: number;
  readonly details: string;

  constructor(
    message: string,
    options: {
      readonly status: number;
      readonly code: number;
      readonly details?: string;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: options.cause });
    this.status = options.status;
    this.code = options.code;
    this.details = options.details ?? "";
  }
}

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

/** A pod names an address pool that its namespace does not let it have. */
export class PoolRefusedError extends Error {
  override readonly name = "PoolRefusedError";

  constructor(
    pod: NamespacedName,
    { pools, allowed }: {
      readonly pools: readonly string[];
      readonly allowed: readonly string[];
    },
  ) {
    super(
      `Cannot give pod "${nameText(pod)}" an address of pool "${
        // Who creates a pod may make its annotations long.
        (pools[0] ?? "").slice(
          0,
          253,
        )}", which its annotation "${POOL_ANNOTATION}" names: its namespace allows ${
        allowed.length === 0 ? "none" : allowed.join(", ")
      }; correct it, or annotation "${POD_POOLS_ANNOTATION}" of the namespace`,
    );
  }
}

/** An Egress that a pod's annotation names, or what belongs to it, does not exist. */
export class EgressNotFoundError extends Error {
  override readonly name = "EgressNotFoundError";

  constructor(
    pod: NamespacedName,
    missing: NamespacedName & { readonly kind: "Egress" | "Service" },
  ) {
    const { kind, namespace } = missing;
    const why = kind === "Egress"
      ? `create it, or correct annotation "${EGRESS_ANNOTATION_PREFIX}${namespace}" of the pod or of its namespace`
      : "coil-controller creates it for the Egress of that name; check that it runs";
    super(
      `Cannot attach pod "${nameText(pod)}": ${kind} "${
        nameText(missing)
      }" does not exist; ${why}`,
    );
  }
}

/** An Egress that a pod's annotation names has a destination that is not a valid CIDR. */
export class InvalidEgressError extends Error {
  override readonly name = "InvalidEgressError";

  constructor(
    { gateway, text }: { readonly gateway: string; readonly text: string },
  ) {
    super(
      `Cannot use Egress "${gateway}": its destination "${text}" is not a valid CIDR (for example "192.0.2.0/24")`,
    );
  }
}

/** A pod's annotations name what no Egress can be, or too many. */
export class InvalidAnnotationError extends Error {
  override readonly name = "InvalidAnnotationError";

  constructor(problem: string) {
    super(
      `Cannot make the pod an egress client: ${problem}; correct the pod's annotation or its namespace's`,
    );
  }
}

/** Why a pod got no address, and what an admin can do. */
export interface AddressFinding {
  readonly text: string;
  /** The same without what differs from one moment to the next: Events are counted by their text. Default: `text`. */
  readonly event?: string | undefined;
}

/** A pod got no address; `cause` says why in the terms of the address management. */
export class AddressError extends Error {
  override readonly name = "AddressError";
  /** The message without what differs from one moment to the next, for Events. */
  readonly event: string;

  constructor(
    message: string,
    { event = message, ...options }: ErrorOptions & {
      readonly event?: string | undefined;
    } = {},
  ) {
    super(message, options);
    this.event = event;
  }
}
