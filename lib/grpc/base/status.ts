/**
 * Status codes of gRPC, from
 * https://github.com/grpc/grpc/blob/master/doc/statuscodes.md.
 */
export const StatusCode = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** The names that grpc-go gives the codes, in logs and metrics, in the order of their numbers. */
export const CODE_NAMES: readonly string[] = [
  "OK",
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
];

/** The name of a status code: `OK`, `NotFound`; `Code(99)` for unknown ones. */
export function codeName(code: number): string {
  return CODE_NAMES[code] ?? `Code(${code})`;
}

/** A call that ended with a status other than OK. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  /** One of {@linkcode StatusCode}, or an unknown one that a server sent. */
  readonly code: number;
  /** The trailer `grpc-status-details-bin`: an encoded google.rpc.Status. */
  readonly statusDetails: Uint8Array | undefined;

  constructor(
    message: string,
    options: {
      readonly code: number;
      readonly statusDetails?: Uint8Array | undefined;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: options.cause });
    this.code = options.code;
    this.statusDetails = options.statusDetails;
  }
}
