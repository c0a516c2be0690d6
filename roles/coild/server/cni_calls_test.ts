import assert from "node:assert/strict";
import { parseResult } from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { configureLogging, Registry } from "../../../lib/telemetry/mod.ts";
import { CallError } from "../base/errors.ts";
import { CniCalls } from "./cni_calls.ts";

configureLogging({ write: () => {} });

const REQUEST: CniRequest = {
  containerId: "c1",
  netns: "/netns",
  ifname: "eth0",
  args: {},
  path: "",
  stdinData: new Uint8Array(),
  ips: [],
  interfaces: {},
  validAttachments: [],
};

Deno.test("a call whose work ends after its caller has gone counts as cancelled", async () => {
  const registry = new Registry();
  const work = Promise.withResolvers<void>();
  const nothing = () => Promise.resolve();
  const calls = new CniCalls({
    methods: {
      async add() {
        await work.promise;
        return parseResult({ cniVersion: "1.0.0" });
      },
      del: nothing,
      check: nothing,
      gc: nothing,
      status: nothing,
    },
    registry,
  });
  const caller = new AbortController();
  const answer = calls.call({
    method: "Add",
    read: () => REQUEST,
    signal: caller.signal,
    remainingMs: undefined,
  });
  caller.abort();
  await assert.rejects(answer, CallError);
  work.resolve();
  await calls.finish(60_000);
  const counts = (await registry.metrics()).split("\n").filter((line) =>
    line.startsWith("grpc_server_handled_total") && !line.endsWith(" 0")
  );
  assert.equal(counts.length, 1);
  assert.match(counts.join(), /grpc_code="Canceled".* 1$/);
});
