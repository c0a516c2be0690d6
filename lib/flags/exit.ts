/** Exit codes of commands for admins. */
export const EXIT = {
  ok: 0,
  /** The command could not be carried out. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The command did what it could, and found something that needs a decision. */
  problems: 3,
} as const;
