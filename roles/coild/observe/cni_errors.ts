import { CniError, ErrorCode } from "../../../lib/cni/mod.ts";
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

const { INTERNAL: INTERNAL_CODE, TRY_AGAIN_LATER } = ErrorCode;
const INVALID_ENVIRONMENT = ErrorCode.INVALID_ENVIRONMENT_VARIABLES;

const LATER: Failure = {
  status: StatusCode.UNAVAILABLE,
  code: TRY_AGAIN_LATER,
};

function internal(status: number, event: string): Failure {
  return { status, code: INTERNAL_CODE, event };
}

/** The first class that matches decides; an error that matches none is INTERNAL. */
const TABLE: readonly (readonly [ErrorClass, Failure])[] = [
  [InvalidCallError, {
    status: StatusCode.INVALID_ARGUMENT,
    code: INVALID_ENVIRONMENT,
  }],
  [InvalidNetworkError, {
    status: StatusCode.INVALID_ARGUMENT,
    code: ErrorCode.INVALID_NETWORK_CONFIG,
  }],
  [PodNotFoundError, {
    status: StatusCode.NOT_FOUND,
    code: ErrorCode.UNKNOWN_CONTAINER,
  }],
  [IfnameMissingError, {
    status: StatusCode.INVALID_ARGUMENT,
    code: ErrorCode.INVALID_NETWORK_CONFIG,
  }],
  [
    EgressNotFoundError,
    internal(StatusCode.FAILED_PRECONDITION, "EgressNotFound"),
  ],
  [
    InvalidAnnotationError,
    internal(StatusCode.FAILED_PRECONDITION, "EgressInvalid"),
  ],
  [
    InvalidEgressError,
    internal(StatusCode.FAILED_PRECONDITION, "EgressInvalid"),
  ],
  [
    FouUnsupportedError,
    internal(StatusCode.FAILED_PRECONDITION, "EgressUnsupported"),
  ],
  [
    PoolNotFoundError,
    internal(StatusCode.FAILED_PRECONDITION, "AddressPoolNotFound"),
  ],
  [
    PoolDeletingError,
    internal(StatusCode.FAILED_PRECONDITION, "AddressPoolDeleting"),
  ],
  [
    PoolPausedError,
    internal(StatusCode.FAILED_PRECONDITION, "AddressPoolPaused"),
  ],
  [
    OutOfBlocksError,
    internal(StatusCode.RESOURCE_EXHAUSTED, "AddressPoolExhausted"),
  ],
  [BlockTimeoutError, {
    status: StatusCode.DEADLINE_EXCEEDED,
    code: TRY_AGAIN_LATER,
    event: "AddressBlockTimeout",
  }],
  [
    QuarantinedError,
    internal(StatusCode.FAILED_PRECONDITION, "AddressQuarantined"),
  ],
  [NetnsNotFoundError, {
    status: StatusCode.INVALID_ARGUMENT,
    code: INVALID_ENVIRONMENT,
  }],
  [IfnameTakenError, {
    status: StatusCode.ALREADY_EXISTS,
    code: INVALID_ENVIRONMENT,
  }],
  [NotReadyError, LATER],
  [IpamNotReadyError, LATER],
  [ReleasePendingError, LATER],
  [ReleasedMeanwhileError, LATER],
  [KubeUnreachableError, LATER],
  [KubeApiError, LATER],
];

const INTERNAL: Failure = {
  status: StatusCode.INTERNAL,
  code: INTERNAL_CODE,
};

/** Classifies whatever a call threw. */
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
      return {
        status: StatusCode.DEADLINE_EXCEEDED,
        code: ErrorCode.TRY_AGAIN_LATER,
      };
    case "AbortError":
      return {
        status: StatusCode.CANCELLED,
        code: ErrorCode.TRY_AGAIN_LATER,
      };
    default:
      return INTERNAL;
  }
}

/**
 * Converts whatever a call threw to the error that its caller gets.
 *
 * This is the only place where errors leave the daemon.
 */
export function toCallError(error: unknown): CallError {
  if (error instanceof CallError) return error;
  const { status, code } = failureOf(error);
  const message = error instanceof Error ? error.message : String(error);
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
  let said = error instanceof Error ? error.message : String(error);
  // An AddressError has said what its cause is, in other words.
  let cause = causeOf(error instanceof AddressError ? error.cause : error);
  while (cause !== undefined && texts.length < MAX_CAUSES) {
    const text = cause instanceof Error ? cause.message : String(cause);
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
