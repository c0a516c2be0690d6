import assert from "node:assert/strict";
import { sleep } from "../async/mod.ts";

const PRELUDE = `
import { configureLogging, runDaemon } from "${new URL(
  "./mod.ts",
  import.meta.url,
)}";
configureLogging();
const started = () => console.log("started");
`;

/** Runs a daemon in a process of its own, sends it the signals one by one, and tells how it ended. */
async function outcome(
  body: string,
  signals: Deno.Signal[] = [],
): Promise<{ code: number; log: string }> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      "--ext=ts",
      "--no-lock",
      `--config=${new URL("../../deno.json", import.meta.url).pathname}`,
      PRELUDE + body,
    ],
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stderr = new Response(child.stderr).text();
  const reader = child.stdout.getReader();
  if (signals.length > 0) await reader.read();
  for (const signal of signals) {
    child.kill(signal);
    await sleep(100);
  }
  while (!(await reader.read()).done);
  return { code: (await child.status).code, log: await stderr };
}

const UNTIL_ABORTED =
  `(signal) => { started(); return new Promise((_, reject) =>
  signal.addEventListener("abort", () => reject(signal.reason))); }`;
const NEVER =
  `() => { started(); return new Promise((resolve) => setTimeout(resolve, 60000)); }`;

Deno.test("runDaemon() exits with 0 when main ends on SIGTERM", async () => {
  const { code, log } = await outcome(
    `await runDaemon("d", ${UNTIL_ABORTED}, { graceMs: 5000 });`,
    ["SIGTERM"],
  );
  assert.equal(code, 0, log);
  assert.match(log, /"msg":"Stopping","program":"d","signal":"SIGTERM"/);
});

Deno.test("runDaemon() exits with 1 at once on a second signal", async () => {
  const { code, log } = await outcome(
    `await runDaemon("d", ${NEVER}, { graceMs: 60000 });`,
    ["SIGINT", "SIGTERM"],
  );
  assert.equal(code, 1);
  assert.match(log, /Exiting at once on a second signal/);
});

Deno.test("runDaemon() exits with 1 when stopping takes longer than the grace time", async () => {
  const { code, log } = await outcome(
    `await runDaemon("d", ${NEVER}, { graceMs: 50 });`,
    ["SIGTERM"],
  );
  assert.equal(code, 1);
  assert.match(log, /Stopping takes too long/);
});

Deno.test("runDaemon() exits with 1 and the error on record when main fails", async () => {
  const { code, log } = await outcome(
    `await runDaemon("d", () => Promise.reject(new Error("No node name")), { graceMs: 1 });`,
  );
  assert.equal(code, 1);
  assert.match(log, /"msg":"Cannot run d","error":"No node name"/);
});

Deno.test("runDaemon() exits with 1 and a record on an unhandled rejection", async () => {
  const { code, log } = await outcome(
    `Promise.reject(new Error("lost")); await runDaemon("d", ${NEVER}, { graceMs: 1 });`,
  );
  assert.equal(code, 1);
  assert.match(
    log,
    /"msg":"Stopped by an unhandled error","stacktrace":".*","error":"lost"/,
  );
});

Deno.test("runDaemon() exits with 1 and a record on an error in a timer", async () => {
  const { code, log } = await outcome(
    `setTimeout(() => { throw new Error("late"); }, 1); await runDaemon("d", ${NEVER}, { graceMs: 1 });`,
  );
  assert.equal(code, 1);
  assert.match(
    log,
    /"msg":"Stopped by an unhandled error","stacktrace":".*","error":"late"/,
  );
});

Deno.test("runDaemon() exits with 0 when main returns, although timers are left", async () => {
  const { code, log } = await outcome(
    `setTimeout(() => {}, 60000); await runDaemon("d", () => Promise.resolve(), { graceMs: 1 });`,
  );
  assert.equal(code, 0, log);
});
