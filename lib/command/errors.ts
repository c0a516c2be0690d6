/** A command cannot be carried out. Its message is for the admin, as it is. */
export class CommandError extends Error {
  /** The name of the class. */
  override readonly name = "CommandError";
}

/** The user pressed Ctrl-C. The message stands alone: it is not an error. */
export class Interruption extends Error {
  /** The name of the class. */
  override readonly name = "Interruption";
}
