/** So many lines an admin reads. A pod may have thousands of what is reported. */
const MOST = 20;

/** The first lines of many, and how many there are besides. */
export function beginningOf(lines: readonly string[]): readonly string[] {
  if (lines.length <= MOST) return lines;
  return [...lines.slice(0, MOST), `and ${lines.length - MOST} more`];
}
