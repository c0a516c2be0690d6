/** What a test run came to; names of skipped tests. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly string[];
}

export const ZERO: Counts = { passed: 0, failed: 0, skipped: [] };

/** Counts the test cases of a JUnit report, as `deno test` writes it. */
export function countJunit(xml: string): Counts {
  let [passed, failed] = [0, 0];
  const skipped: string[] = [];
  const cases = /<testcase\b([^>]*?)(\/>|>([\s\S]*?)<\/testcase>)/g;
  for (const [, attributes, , body] of xml.matchAll(cases)) {
    if (/<(failure|error)\b/.test(body ?? "")) failed++;
    else if (/<skipped\b/.test(body ?? "")) {
      skipped.push(/name="([^"]*)"/.exec(attributes ?? "")?.[1] ?? "?");
    } else passed++;
  }
  return { passed, failed, skipped };
}
