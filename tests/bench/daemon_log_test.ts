import assert from "node:assert/strict";
import { handlingTimes } from "./daemon_log.ts";

Deno.test("handlingTimes() reads finished calls of one method and namespace", () => {
  const record = (fields: Record<string, string>) =>
    JSON.stringify({
      msg: "finished call",
      "grpc.method": "Add",
      "grpc.code": "OK",
      "grpc.request.pod.namespace": "a",
      "grpc.time_ms": "1.25",
      ...fields,
    });
  const log = [
    record({}),
    record({ "grpc.method": "Del" }),
    record({ "grpc.code": "Internal" }),
    record({ "grpc.request.pod.namespace": "b" }),
    "not JSON",
    record({ "grpc.time_ms": "0.5" }),
  ].join("\n");
  const query = { method: "Add", namespace: "a" };
  assert.deepEqual(handlingTimes(log, query), [1.25, 0.5]);
});
