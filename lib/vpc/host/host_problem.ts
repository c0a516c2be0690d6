/** Something that a node with addresses of its VPC should have and cannot be given. */
export class VpcHostProblem extends Error {
  /** The class, for logs. */
  override readonly name: string = "VpcHostProblem";
}
