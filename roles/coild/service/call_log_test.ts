import assert from "node:assert/strict";
import { StatusCode } from "../../../lib/grpc/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { CallError } from "../base/errors.ts";
import { callFields, logFinished, requestFields } from "./call_log.ts";

/** The records that a function writes. */
function recordsOf(write: () => void): Record<string, unknown>[] {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  write();
  configureLogging({ write: () => {} });
  return lines.map((line) => JSON.parse(line));
}

Deno.test("the record of a call has the names that upstream's has", () => {
  const request = {
    containerId: "c1",
    ifname: "eth0",
    netns: "/run/netns/a",
    args: { K8S_POD_NAME: "web", K8S_POD_NAMESPACE: "team" },
  } as unknown as CniRequest;
  const fields = { ...callFields("Add", 1_500), ...requestFields(request) };
  const start = Date.parse(fields["grpc.start_time"] ?? "");
  assert.equal(
    Date.parse(fields["grpc.request.deadline"] ?? ""),
    start + 1_500,
  );
  assert.equal(
    callFields("Add", undefined)["grpc.request.deadline"],
    undefined,
  );
  const [record] = recordsOf(() =>
    logFinished(fields, { elapsedMs: 1.23456, error: undefined })
  );
  const expected = {
    "protocol": "grpc",
    "grpc.component": "server",
    "grpc.service": "pkg.cnirpc.CNI",
    "grpc.method": "Add",
    "grpc.method_type": "unary",
    "peer.address": "@",
    "grpc.request.container_id": "c1",
    "grpc.request.ifname": "eth0",
    "grpc.request.netns": "/run/netns/a",
    "grpc.request.pod.name": "web",
    "grpc.request.pod.namespace": "team",
    "grpc.code": "OK",
    "grpc.time_ms": "1.235",
  };
  for (const [name, value] of Object.entries(expected)) {
    assert.equal(record?.[name], value, name);
  }
});

Deno.test("a call that fails is recorded as loud as upstream does", () => {
  const levels = Object.entries(StatusCode).map(([name, status]) => {
    const error = new CallError("because", { status, code: 11 });
    const [record] = recordsOf(() => logFinished({}, { elapsedMs: 1, error }));
    assert.equal(record?.["grpc.error"], "because");
    return [name, record["level"]];
  });
  const of = (level: string) =>
    levels.filter(([, found]) => found === level).map(([name]) => name);
  assert.deepEqual(of("info"), [
    ...["OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND"],
    ...["ALREADY_EXISTS", "UNAUTHENTICATED"],
  ]);
  assert.deepEqual(of("warn"), [
    ...["DEADLINE_EXCEEDED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"],
    ...["FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE"],
  ]);
  assert.deepEqual(of("error"), [
    ...["UNKNOWN", "UNIMPLEMENTED", "INTERNAL", "DATA_LOSS"],
  ]);
});
