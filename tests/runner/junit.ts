/** A test that failed, as the end of a run repeats it. */
export interface Failure {
  /** The test's name, its file, or what else failed. */
  readonly name: string;
  /** First lines of the error; empty when there is none to tell. */
  readonly lines: readonly string[];
}

/** What a test run came to; names of skipped tests. */
export interface Counts {
  readonly passed: number;
  readonly failures: readonly Failure[];
  readonly skipped: readonly string[];
  /** What is worth reading, and no failure. */
  readonly notes?: readonly string[];
}

export const ZERO: Counts = { passed: 0, failures: [], skipped: [] };

/** Lines of an error that are worth repeating; a diff's first ones tell most. */
const ERROR_LINES = 12;

/** Counts the test cases of a JUnit report, as `deno test` writes it. */
export function countJunit(xml: string): Counts {
  let passed = 0;
  const failures: Failure[] = [];
  const skipped: string[] = [];
  const cases = /<testcase\b([^>]*?)(\/>|>([\s\S]*?)<\/testcase>)/g;
  for (const [, attributes = "", , body = ""] of xml.matchAll(cases)) {
    const name = attribute(attributes, "name");
    if (/<(failure|error)\b/.test(body)) {
      const where = attribute(attributes, "classname");
      failures.push({ name: `${name} (${where})`, lines: errorLines(body) });
    } else if (/<skipped\b/.test(body)) skipped.push(name);
    else passed++;
  }
  return { passed, failures, skipped };
}

function attribute(attributes: string, name: string): string {
  const match = new RegExp(`\\b${name}="([^"]*)"`).exec(attributes);
  return unescape(match?.[1] ?? "?");
}

function errorLines(body: string): string[] {
  const text = /<(?:failure|error)\b[^>]*>([\s\S]*?)<\//.exec(body)?.[1] ?? "";
  return unescape(text).split("\n").filter((line) => line.trim() !== "")
    .slice(0, ERROR_LINES);
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  amp: "&",
};

function unescape(text: string): string {
  return text.replaceAll(/&(\w+);/g, (all, name) => ENTITIES[name] ?? all)
    .replaceAll(
      /&#x([0-9a-fA-F]+);/g,
      (_, hex) => String.fromCodePoint(parseInt(hex, 16)),
    );
}
