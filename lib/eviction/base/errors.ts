/** A pod could not be replaced. Its message is for the admin, as it is: what failed, on which pod, and what to do. */
export class EvictionError extends Error {
  override readonly name = "EvictionError";
}
