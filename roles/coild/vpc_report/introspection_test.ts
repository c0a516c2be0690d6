import assert from "node:assert/strict";
import { settle } from "../../../lib/async/testing.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { serveIntrospection } from "./introspection.ts";
import { FACTS } from "./testing.ts";

async function serving(
  address: string,
  test: (port: number, finished: Promise<void>) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const facts = () => Promise.resolve(FACTS);
  const { signal } = stop;
  const { port, finished } = serveIntrospection({ address, facts, signal });
  try {
    await test(port, finished);
  } finally {
    stop.abort();
    await finished;
  }
}

Deno.test("introspection answers what there is, and says what there is to ask for", async () => {
  await serving("127.0.0.1:0", async (port) => {
    const ask = async (path: string, method = "GET") => {
      const url = `http://127.0.0.1:${port}${path}`;
      const response = await fetch(url, { method });
      const text = await response.text();
      return [response.status, text] as const;
    };
    const [status, text] = await ask("/ip-manager");
    assert.equal(status, 200);
    assert.equal(JSON.parse(text).allocated, 2);
    const [, enis] = await ask("/v1/enis");
    assert.deepEqual(Object.keys(JSON.parse(enis)["0"].ENIs), [
      "eni-1",
      "eni-10",
    ]);
    const commands = '{"AvailableCommands":["/v1/enis","/ip-manager"]}';
    assert.deepEqual(await ask("/"), [200, commands]);
    assert.deepEqual(await ask("/v1/pods"), [404, commands]);
    assert.deepEqual(await ask("/toString"), [404, commands]);
    assert.deepEqual(await ask("/ip-manager", "POST"), [
      405,
      "method not allowed\n",
    ]);
  });
});

Deno.test("introspection listens nowhere when its address is empty", async () => {
  const lines = loggedLines();
  for (const address of ["", "0"]) {
    await serving(address, async (port, finished) => {
      assert.equal(port, 0);
      const ended = finished.then(() => "ended");
      const first = await Promise.race([ended, settle().then(() => "runs")]);
      assert.equal(first, "runs", "a loop ends by its signal");
    });
  }
  assert.deepEqual(lines, []);
});

Deno.test("introspection whose address is taken is a warning", async () => {
  const lines = loggedLines();
  await serving("127.0.0.1:0", async (port) => {
    await serving(`127.0.0.1:${port}`, (none) => {
      assert.equal(none, 0);
      return Promise.resolve();
    });
  });
  assert.match(lines.join(), /"WARN.*another process uses/i);
});
