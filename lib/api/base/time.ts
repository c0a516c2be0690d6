/** A time as objects have it: RFC 3339, in whole seconds. */
export function timeText(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}
