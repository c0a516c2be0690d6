/** Orders texts by their code units, as the API server orders names: negative, zero or positive. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
