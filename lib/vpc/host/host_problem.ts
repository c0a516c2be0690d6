/** Something that a node with addresses of its VPC should have and cannot be given. */
export class VpcHostProblem extends Error {
  /** The class, for logs. */
  override readonly name: string = "VpcHostProblem";
  /** The ENI whose pods have no network by it; undefined when it is not a single one. */
  readonly eni: string | undefined;

  constructor(
    message: string,
    { eni, cause }: { readonly eni?: string; readonly cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.eni = eni;
  }
}
