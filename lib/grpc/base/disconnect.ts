/** Whether a read or write failed because the peer is gone. */
export function isDisconnect(error: unknown): boolean {
  return error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionReset;
}
