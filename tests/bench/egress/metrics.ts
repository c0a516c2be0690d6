/** One value of a daemon's metrics; 0 when it is not there yet. */
export async function fetchMetric(url: string, name: string): Promise<number> {
  const response = await fetch(url);
  const text = await response.text();
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}
