// What a PromQL expression asks for: enough of its grammar to find the names of
// metrics.

const KEYWORDS = new Set([
  ..."and or unless by without on ignoring group_left group_right".split(" "),
  ..."bool offset inf nan".split(" "),
]);

/** A name, then perhaps the parenthesis of a function. */
const NAME = /([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\()?/g;
const STRING = /"[^"]*"/g;
const MATCHER = /\{[^}]*\}/g;
const RANGE = /\[[^\]]*\]/g;
const LABELS = /\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g;

/** Lists the names of the metrics of an expression. */
export function metricsOf(expression: string): string[] {
  // A blank in each place, so that nothing grows together.
  const text = [STRING, MATCHER, RANGE, LABELS].reduce(
    (rest, pattern) => rest.replace(pattern, " "),
    expression,
  );
  return [...text.matchAll(NAME)].flatMap(([, name = "", parenthesis]) =>
    parenthesis !== undefined || KEYWORDS.has(name) ? [] : [name]
  );
}
