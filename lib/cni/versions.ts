/**
 * The versions of the CNI specification that plugins built on this unit speak,
 * oldest first.
 */
export const CNI_VERSIONS: readonly string[] = [
  "0.3.1",
  "0.4.0",
  "1.0.0",
  "1.1.0",
];

/** The newest of {@linkcode CNI_VERSIONS}. */
export const CURRENT_CNI_VERSION = "1.1.0";

/**
 * Compares two versions: negative when `a` is older than `b`, 0 when they are
 * the same. A missing part counts as 0.
 *
 * @throws {SyntaxError} when a part is not a decimal number
 */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parseVersion(a), parseVersion(b)];
  for (let i = 0; i < 3; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function parseVersion(text: string): number[] {
  if (!/^\d{1,9}(\.\d{1,9}){0,2}$/.test(text)) {
    throw new SyntaxError(`Cannot parse version "${text}"`);
  }
  return text.split(".").map(Number);
}

/**
 * The answer to the VERSION command, as JSON on one line. CNI specification
 * 1.1.0, section 5, "VERSION Success".
 */
export function versionReply(): string {
  return JSON.stringify({
    cniVersion: CURRENT_CNI_VERSION,
    supportedVersions: CNI_VERSIONS,
  });
}
