// All that a program does again and again has jitter. Thousands of nodes that
// began together, as after an outage, would go on together for ever.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";
import { sources } from "./sources.ts";

/** Where the same time passes again and again, and why that harms nobody. */
const FIXED: Readonly<Record<string, string>> = {
  "lib/async/tasks/coalesced_runner.ts":
    "after a change, which comes when it likes",
  "lib/async/tasks/look_loop.ts": "a burst of changes, 10 ms",
  "lib/linux/heap_keeper.ts": "looks at a number in the process",
  "lib/telemetry/base/accept.ts": "waits for a free file descriptor",
  "roles/coil_controller/blocks/node_addresses.ts": "one leader's pace",
  "roles/coil_egress/lifecycle/drain.ts": "the end of a pod, on its own",
  "roles/coil_installer": "files of the node, once in its life",
  "lib/eviction": "one program, run by hand",
  "roles/coild/blocks/requests.ts": "an answer that came late, on its own",
  "roles/coild/gateways/source.ts": "looks at a map",
  "roles/coild/observe/calls_in_flight.ts": "looks at the calls of the process",
  "roles/coild/network/keeper.ts": "after a repair, which is its own",
  "roles/coild/pods/startup.ts": "a record in the log",
};

const WAIT = /\b(sleep|setInterval)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)/g;
const QUEUED = /\bafterMs: (\w+)/g;
const TIME = /\b([A-Z_]*MS|\w*[iI]ntervalMs|everyMs|pollMs|lookMs)\b/;
const SPREAD = /\bjittered\(|\brandom\(\)|\bnextMs\(\)/;

/** Waits of the same time each time. */
function fixedWaits(text: string): string[] {
  const waits = [...text.matchAll(WAIT)].map(([, name, args = ""]) =>
    name === "sleep" ? args.split(",")[0] ?? "" : args
  );
  const delays = [...text.matchAll(QUEUED)].map(([, delay = ""]) => delay);
  return [...waits, ...delays]
    .filter((wait) => TIME.test(wait) && !SPREAD.test(wait));
}

Deno.test("jitter: nothing is done again and again after the same time", async () => {
  const found: string[] = [];
  const unused = new Set(Object.keys(FIXED));
  for (const dir of ["lib", "roles"]) {
    for await (const path of sources(dir)) {
      const waits = fixedWaits(await Deno.readTextFile(`${ROOT}${path}`));
      const known = Object.keys(FIXED)
        .find((known) => path === known || path.startsWith(`${known}/`));
      if (known === undefined) {
        found.push(...waits.map((wait) => `${path}: ${wait.trim()}`));
      } else if (waits.length > 0) unused.delete(known);
    }
  }
  assert.deepEqual(found, []);
  assert.deepEqual([...unused], [], "nothing to allow there any more");
});
