/** A virtual machine that did not do what it should; the message has its last words. */
export class VmError extends Error {
  override readonly name = "VmError";
}

/** The time of the command in a virtual machine was over. */
export class VmTimeoutError extends Error {
  override readonly name = "VmTimeoutError";
  constructor(timeoutMs: number) {
    super(
      `Cannot wait longer for the virtual machine: its ${
        timeoutMs / 1000
      } s are over, and it was ended`,
    );
  }
}
