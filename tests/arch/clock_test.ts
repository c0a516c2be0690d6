// No decision goes by the machine's date: an admin, or NTP, may set it at any
// time. What has to last, or is to come after a while, uses performance.now()
// and timers, which pass evenly.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** Where the date is only shown to others, and how. */
const SHOWN: Readonly<Record<string, string>> = {
  "roles/coild/service/call_log.ts": "in the log",
  "roles/coordinator/call_log.ts": "in the log",
  "lib/command/terminal.ts":
    "ages of objects, whose birth is a date in the API",
  "lib/kube/loops/event_recorder.ts": "times of Events",
  "lib/kube/loops/lease.ts":
    "times of a Lease; its holder's life goes by our clock",
  "lib/telemetry/http/answer.ts": "the header Date",
  "roles/coild/vpc_part.ts": "times of conditions, and for people",
  "roles/coild/observe/former_holders.ts":
    "when addresses were given back, for people",
  "roles/coild/cloud/calls.ts": "a tag that says when an ENI was made",
  "roles/coil_controller/pools/addresspool_reconciler.ts":
    "times of conditions",
  "roles/coil_controller/blocks/blockrequest_reconciler.ts":
    "times of conditions",
  "roles/coil_controller/egress/reconciler.ts": "times of conditions",
  "roles/coil_egress/observe/gateway_status.ts":
    "when the gateway started, for people",
  "roles/coil_egress/observe/reported_losses.ts":
    "when gateways were lost, for people",
  "roles/coil_migrator/cluster/record.ts": "when steps were done, for people",
  "roles/cli": "ages of objects, whose birth is a date in the API",
};

const DATE = /\bDate\.now\b|\bnew Date\(\)|\bTemporal\.Now\b/;

Deno.test("clock: nothing is decided by the machine's date", async () => {
  const found: string[] = [];
  const unused = new Set(Object.keys(SHOWN));
  for (const dir of ["lib", "roles"]) {
    for await (const path of sources(dir)) {
      const shown = Object.keys(SHOWN)
        .find((known) => path === known || path.startsWith(`${known}/`));
      const lines = (await Deno.readTextFile(`${ROOT}${path}`)).split("\n");
      lines.forEach((line, i) => {
        if (!DATE.test(line)) return;
        if (shown !== undefined) unused.delete(shown);
        else found.push(`${path}:${i + 1}: ${line.trim()}`);
      });
    }
  }
  assert.deepEqual(found, []);
  assert.deepEqual([...unused], [], "nothing to allow there any more");
});

Deno.test("clock: in daemons no timer outlives what it limits", async () => {
  const found: string[] = [];
  for (const dir of ["lib", "roles"]) {
    for await (const path of sources(dir)) {
      // A program of its own for each call, which ends with it.
      if (path.startsWith("roles/cli/")) continue;
      const text = await Deno.readTextFile(`${ROOT}${path}`);
      if (text.includes("AbortSignal.timeout(")) found.push(path);
    }
  }
  assert.deepEqual(found, [], "use withTimeout() of lib/async");
});
