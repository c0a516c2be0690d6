import assert from "node:assert/strict";
import type { AddressPool } from "../../../lib/api/mod.ts";
import { RecordingClock } from "../../../lib/async/testing.ts";
import { block, NOW, pool } from "../../../lib/ipam/audit/testing.ts";
import { KubeApiError, KubeClient } from "../../../lib/kube/mod.ts";
import { MemoryApi } from "../../../lib/kube/testing.ts";
import { watchMap } from "./watch.ts";

const POOL = pool("default", [{ ipv4: "10.2.0.0/24" }]);
const BLOCK = block(["default", 0, "n1"], { ipv4: "10.2.0.0/27" });

/** Watches until the first picture; the first lists of pools fail with these statuses. */
async function watched(...statuses: number[]) {
  const api = new MemoryApi();
  api.put("addressblocks", BLOCK);
  using client = new KubeClient(api);
  const pools = (): Promise<AddressPool[]> => {
    const status = statuses.shift();
    if (status === undefined) return Promise.resolve([POOL]);
    const error = new KubeApiError("Cannot list addresspools", { status });
    return Promise.reject(error);
  };
  const stop = new AbortController();
  const written = { out: "", err: "" };
  const terminal = {
    out: (text: string) => {
      written.out += text;
      stop.abort();
    },
    err: (text: string) => void (written.err += text),
    now: () => NOW,
  };
  await watchMap({
    client,
    reader: { pools },
    terminal,
    show: ({ pools, blocks }) =>
      [...pools, ...blocks].map(({ metadata }) => metadata.name).join(),
    ofVpc: false,
    clock: new RecordingClock(),
  }, stop.signal);
  return written;
}

/** Of an API server that is overloaded or has just started, and of proxies before it. */
for (const status of [429, 507, 520]) {
  Deno.test(`watchMap() goes on after lists of pools were answered with ${status}`, async () => {
    assert.deepEqual(await watched(status, status), {
      out: "default,default-0",
      err: "Cannot list addresspools: the picture is old\n",
    });
  });
}

Deno.test("watchMap() ends when pools may no longer be listed", async () => {
  await assert.rejects(
    watched(403),
    (error) => error instanceof KubeApiError && error.isForbidden,
  );
});
