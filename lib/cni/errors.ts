/**
 * Error codes of the CNI specification 1.1.0, section 5 "Error", and of its
 * STATUS command. 999 is what the reference implementation uses for the rest.
 */
export const ErrorCode = {
  UNKNOWN: 0,
  INCOMPATIBLE_CNI_VERSION: 1,
  UNSUPPORTED_FIELD: 2,
  UNKNOWN_CONTAINER: 3,
  INVALID_ENVIRONMENT_VARIABLES: 4,
  IO_FAILURE: 5,
  DECODING_FAILURE: 6,
  INVALID_NETWORK_CONFIG: 7,
  INVALID_NETNS: 8,
  TRY_AGAIN_LATER: 11,
  /** STATUS: the plugin cannot service ADD. */
  PLUGIN_NOT_AVAILABLE: 50,
  /** STATUS: as 50, and running containers may have limited connectivity. */
  LIMITED_CONNECTIVITY: 51,
  INTERNAL: 999,
} as const;

/** The error structure that a plugin prints on stdout. */
export interface CniErrorJson {
  /** The version of the configuration. */
  readonly cniVersion: string;
  /** One of {@linkcode ErrorCode}, or a plugin's own from 100. */
  readonly code: number;
  /** What went wrong, in short. */
  readonly msg: string;
  /** More about it, for people. */
  readonly details?: string;
}

/** An error that reaches the container runtime as it is. */
export class CniError extends Error {
  /** The name of the class. */
  override readonly name = "CniError";
  /** One of {@linkcode ErrorCode}, or a plugin's own from 100. */
  readonly code: number;
  /** More about it, for people. May be empty. */
  readonly details: string;

  /** `message` says what went wrong, in short. */
  constructor(
    message: string,
    options: {
      readonly code: number;
      readonly details?: string;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: options.cause });
    this.code = options.code;
    this.details = options.details ?? "";
  }

  /** The error structure to print, in the configuration's version. */
  toJson(cniVersion: string): CniErrorJson {
    const { code, message, details } = this;
    return {
      cniVersion,
      code,
      msg: message,
      ...(details === "" ? {} : { details }),
    };
  }
}
