import type { DescService } from "@bufbuild/protobuf";

/** A call that has arrived. */
export interface GrpcCall {
  /** Name of the method in its service: `Add`. */
  readonly method: string;
  readonly request: Uint8Array;
  /** Aborted, with a GrpcError, when the caller no longer waits for the answer. */
  readonly signal: AbortSignal;
  /** How long the caller will wait from now on; undefined is for ever. */
  readonly remainingMs: number | undefined;
}

/** A service, all of whose methods are unary. */
export interface GrpcService {
  readonly definition: DescService;
  /** Answers a call; other errors than GrpcError become UNKNOWN. */
  readonly handle: (call: GrpcCall) => Promise<Uint8Array>;
}
