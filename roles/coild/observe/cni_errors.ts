import { CniError, ErrorCode } from "../../../lib/cni/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import { StatusCode } from "../../../lib/grpc/mod.ts";
import {
  BlockTimeoutError,
  IpamNotReadyError,
  OutOfBlocksError,
  PoolDeletingError,
  PoolNotFoundError,
  PoolPausedError,
  QuarantinedError,
  ReleasedMeanwhileError,
  ReleasePendingError,
} from "../../../lib/ipam/mod.ts";
import { KubeApiError, KubeUnreachableError } from "../../../lib/kube/mod.ts";
import { FouUnsupportedError } from "../../../lib/netlink/mod.ts";
import {
  IfnameMissingError,
  IfnameTakenError,
  NetnsNotFoundError,
} from "../../../lib/podnet/mod.ts";
import {
  AddressError,
  CallError,
  EgressNotFoundError,
  InvalidAnnotationError,
  InvalidCallError,
  InvalidEgressError,
  InvalidNetworkError,
  NotReadyError,
  PodNotFoundError,
  PoolRefusedError,
} from "../base/errors.ts";

/** How a failure is reported to the outside. */
export interface Failure {
  /** Status of the gRPC call. */
  readonly status: number;
  /** Error code of the CNI specification. */
  readonly code: number;
  /** Reason of the Event on the pod, where an admin can do something about it. */
  readonly event?: string;
}

type ErrorClass = abstract new (...args: never[]) => Error;

const LATER = failure("UNAVAILABLE", "TRY_AGAIN_LATER");
const INTERNAL = failure("INTERNAL", "INTERNAL");

/** The first class that matches decides; an error that matches none is INTERNAL. */
const TABLE: readonly (readonly [ErrorClass, Failure])[] = [
  [
    InvalidCallError,
    failure("INVALID_ARGUMENT", "INVALID_ENVIRONMENT_VARIABLES"),
  ],
  [InvalidNetworkError, failure("INVALID_ARGUMENT", "INVALID_NETWORK_CONFIG")],
  [PodNotFoundError, failure("NOT_FOUND", "UNKNOWN_CONTAINER")],
  [IfnameMissingError, failure("INVALID_ARGUMENT", "INVALID_NETWORK_CONFIG")],
  [EgressNotFoundError, precondition("EgressNotFound")],
  [InvalidAnnotationError, precondition("EgressInvalid")],
  [InvalidEgressError, precondition("EgressInvalid")],
  [FouUnsupportedError, precondition("EgressUnsupported")],
  [PoolNotFoundError, precondition("AddressPoolNotFound")],
  [PoolRefusedError, precondition("AddressPoolRefused")],
  [PoolDeletingError, precondition("AddressPoolDeleting")],
  [PoolPausedError, precondition("AddressPoolPaused")],
  [
    OutOfBlocksError,
    failure("RESOURCE_EXHAUSTED", "INTERNAL", "AddressPoolExhausted"),
  ],
  [
    BlockTimeoutError,
    failure("DEADLINE_EXCEEDED", "TRY_AGAIN_LATER", "AddressBlockTimeout"),
  ],
  [QuarantinedError, precondition("AddressQuarantined")],
  [
    NetnsNotFoundError,
    failure("INVALID_ARGUMENT", "INVALID_ENVIRONMENT_VARIABLES"),
  ],
  [
    IfnameTakenError,
    failure("ALREADY_EXISTS", "INVALID_ENVIRONMENT_VARIABLES"),
  ],
  [NotReadyError, LATER],
  [IpamNotReadyError, LATER],
  [ReleasePendingError, LATER],
  [ReleasedMeanwhileError, LATER],
  [KubeUnreachableError, LATER],
  [KubeApiError, LATER],
];

/** What an admin has to correct. */
function precondition(event: string): Failure {
  return failure("FAILED_PRECONDITION", "INTERNAL", event);
}

function failure(
  status: keyof typeof StatusCode,
  code: keyof typeof ErrorCode,
  event?: string,
): Failure {
  return {
    status: StatusCode[status],
    code: ErrorCode[code],
    ...event !== undefined && { event },
  };
}

/** Classifies what a call threw: an error of any class, or any other value. */
export function failureOf(error: unknown): Failure {
  if (error instanceof AddressError) return failureOf(error.cause);
  if (error instanceof CniError) {
    const status = error.code === ErrorCode.PLUGIN_NOT_AVAILABLE
      ? StatusCode.UNAVAILABLE
      : StatusCode.INVALID_ARGUMENT;
    return { status, code: error.code };
  }
  for (const [errorClass, failure] of TABLE) {
    if (error instanceof errorClass) return failure;
  }
  if (error instanceof CallError) {
    return { status: error.status, code: error.code };
  }
  if (error instanceof DOMException) return interrupted(error);
  return INTERNAL;
}

/** Time limits and ended calls: the same call may well work next time. */
function interrupted(error: DOMException): Failure {
  switch (error.name) {
    case "TimeoutError":
      return failure("DEADLINE_EXCEEDED", "TRY_AGAIN_LATER");
    case "AbortError":
      return failure("CANCELLED", "TRY_AGAIN_LATER");
    default:
      return INTERNAL;
  }
}

/**
 * Converts what a call threw to the error that its caller gets.
 *
 * This is the only place where errors leave the daemon.
 */
export function toCallError(error: unknown): CallError {
  if (error instanceof CallError) return error;
  const { status, code } = failureOf(error);
  const message = messageOf(error);
  const details = causes(error);
  return new CallError(message, { status, code, details, cause: error });
}

/**
 * What lies behind an error, outermost first, for the details of a CNI error.
 * A runtime prints message and details in one line, so nothing is said twice.
 */
function causes(error: unknown): string {
  if (error instanceof CniError && error.details !== "") return error.details;
  const texts: string[] = [];
  let said = messageOf(error);
  // An AddressError has said what its cause is, in other words.
  let cause = causeOf(error instanceof AddressError ? error.cause : error);
  while (cause !== undefined && texts.length < MAX_CAUSES) {
    const text = messageOf(cause);
    if (!said.includes(text)) texts.push(text);
    said += text;
    cause = causeOf(cause);
  }
  return texts.join(": ");
}

const MAX_CAUSES = 10;

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
