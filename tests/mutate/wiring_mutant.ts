/** One deliberate break of order or wiring, and the test that must notice it. */
export interface WiringMutant {
  /** What breaks, as a short sentence. */
  readonly name: string;
  /** Path of a production file, from the root of the repository. */
  readonly file: string;
  /** Text that occurs exactly once in the file. */
  readonly from: string;
  /** What replaces it. */
  readonly to: string;
  /** The test that must fail; `filter` as `deno test` takes it. */
  readonly test: { readonly file: string; readonly filter?: string };
}
