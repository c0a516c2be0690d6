/** Something that is not as it should be. */
export interface Problem {
  /** Kind and name of the object, e.g. `Pod kube-system/coild-x`. */
  readonly object: string;
  readonly message: string;
  /** A command that shows more, or repairs it. */
  readonly next: string;
}
