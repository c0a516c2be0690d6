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
  readonly test: WiringTest;
}

/** The test that must fail. */
export interface WiringTest {
  readonly file: string;
  /** As `deno test` takes it. Default: all tests of the file run. */
  readonly filter?: string;
  /** Part of the name of the test or step that must be among those that fail. Default: any. */
  readonly step?: string;
}
