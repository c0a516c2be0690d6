import { GrpcError, StatusCode } from "../grpc/mod.ts";
import { RemoteUnreachableError } from "./call.ts";
import type { CertificateTrouble } from "./tls_trouble.ts";

/**
 * Why etcd could not be read:
 *
 * - `unreachable`: no server listens, a certificate was refused on either side, or no answer came in time
 * - `denied`: user, password or certificate give no right to read
 * - `compacted`: the revision asked for is no longer kept
 * - `failed`: anything else
 */
export type EtcdErrorKind = "unreachable" | "denied" | "compacted" | "failed";

/** A read of etcd that failed. */
export class EtcdError extends Error {
  /** The name of the class. */
  override readonly name = "EtcdError";
  /** What callers distinguish. */
  readonly kind: EtcdErrorKind;
  /** Whose certificate was refused, when it is `unreachable` for that. */
  readonly certificate: CertificateTrouble | undefined;

  /** Makes an error of a kind. */
  constructor(
    message: string,
    options: {
      readonly kind: EtcdErrorKind;
      readonly cause?: unknown;
      readonly certificate?: CertificateTrouble | undefined;
    },
  ) {
    super(message, { cause: options.cause });
    this.kind = options.kind;
    this.certificate = options.certificate;
  }
}

/** Makes an EtcdError of what a call threw; other errors stay as they are. */
export function etcdError(endpoint: string, cause: unknown): unknown {
  const kind = kindOf(cause);
  if (kind === undefined || !(cause instanceof Error)) return cause;
  const message = `Cannot read etcd at ${endpoint}: ${cause.message}`;
  const certificate = cause instanceof RemoteUnreachableError
    ? cause.certificate
    : undefined;
  return new EtcdError(message, { kind, cause, certificate });
}

function kindOf(error: unknown): EtcdErrorKind | undefined {
  if (error instanceof RemoteUnreachableError) return "unreachable";
  if (!(error instanceof GrpcError)) return undefined;
  switch (error.code) {
    case StatusCode.UNAVAILABLE:
    case StatusCode.DEADLINE_EXCEEDED:
      return "unreachable";
    case StatusCode.PERMISSION_DENIED:
    case StatusCode.UNAUTHENTICATED:
      return "denied";
    case StatusCode.OUT_OF_RANGE:
      return "compacted";
    case StatusCode.INVALID_ARGUMENT:
      // "authentication failed, invalid user ID or password" and "user name is empty" (rpctypes/error.go of etcd).
      return "denied";
    default:
      return "failed";
  }
}
