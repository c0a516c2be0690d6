import { CniError, ErrorCode } from "../../cni/mod.ts";

/** An error about a value that cannot be used. */
export function invalidConfig(message: string, details: string): CniError {
  const code = ErrorCode.INVALID_NETWORK_CONFIG;
  return new CniError(message, { code, details });
}
