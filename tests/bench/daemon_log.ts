/** What coild's call log says about successful calls of one method, in ms each. */
export function handlingTimes(
  log: string,
  query: {
    readonly method: string;
    readonly namespace: string;
    /** How the pods' names begin. */
    readonly podPrefix?: string;
  },
): number[] {
  const times: number[] = [];
  for (const line of log.split("\n")) {
    if (!line.includes(`"grpc.method":"${query.method}"`)) continue;
    const record = JSON.parse(line);
    if (record["msg"] !== "finished call") continue;
    if (record["grpc.code"] !== "OK") continue;
    if (record["grpc.request.pod.namespace"] !== query.namespace) continue;
    const pod = String(record["grpc.request.pod.name"]);
    if (!pod.startsWith(query.podPrefix ?? "")) continue;
    times.push(Number(record["grpc.time_ms"]));
  }
  return times;
}
