/** Digits by prefix, as of Go's strconv.ParseInt() with base 0; a leading zero alone means octal. */
const FORMS: readonly (readonly [form: RegExp, base: number])[] = [
  [/^0x((?:_?[0-9a-f])+)$/i, 16],
  [/^0b((?:_?[01])+)$/i, 2],
  [/^0o((?:_?[0-7])+)$/i, 8],
  [/^0((?:_?[0-7])+)$/, 8],
  [/^([1-9](?:_?[0-9])*|0)$/, 10],
];

/**
 * Parses a whole number as Go's flags do: decimal, `0x`, `0o`, `0b`, octal by
 * a leading zero, with underscores between digits. Undefined when it is none;
 * above 2^53 it is not exact.
 */
export function parseInteger(text: string): number | undefined {
  const negative = text.startsWith("-");
  const unsigned = /^[+-]/.test(text) ? text.slice(1) : text;
  for (const [form, base] of FORMS) {
    const digits = form.exec(unsigned)?.[1];
    if (digits === undefined) continue;
    const value = parseInt(digits.replaceAll("_", ""), base);
    return negative && value !== 0 ? -value : value;
  }
  return undefined;
}
