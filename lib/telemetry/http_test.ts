import assert from "node:assert/strict";
import {
  type Checks,
  configureLogging,
  Counter,
  createRegistry,
  Gauge,
  parseListenAddress,
  serveHealth,
  serveMetrics,
} from "./mod.ts";
import { startMonitoring } from "./monitoring.ts";

for (
  const [text, expected] of [
    [":9384", { port: 9384 }],
    ["127.0.0.1:0", { hostname: "127.0.0.1", port: 0 }],
    ["localhost:80", { hostname: "localhost", port: 80 }],
    ["[::1]:9384", { hostname: "::1", port: 9384 }],
    ["0", undefined],
  ] as const
) {
  Deno.test(`parseListenAddress() reads "${text}"`, () => {
    assert.deepEqual(parseListenAddress(text), expected);
  });
}

for (
  const text of [
    "",
    "9384",
    "host",
    ":",
    ":http",
    ":65536",
    "::1:80",
    "[::1]",
    "a b:1",
    ":-1",
  ]
) {
  Deno.test(`parseListenAddress() refuses "${text}"`, () => {
    assert.throws(() => parseListenAddress(text), SyntaxError);
  });
}

async function withHealth(
  checks: { healthz: Checks; readyz: Checks },
  ask: (get: (path: string) => Promise<[number, string]>) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  const server = serveHealth({
    address: "127.0.0.1:0",
    ...checks,
    signal: controller.signal,
  });
  try {
    await ask(async (path) => {
      const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
      return [response.status, await response.text()];
    });
  } finally {
    controller.abort();
    await server.finished;
  }
}

Deno.test("serveHealth() answers as Kubernetes' components do", async () => {
  let ready = false;
  const checks = {
    healthz: { ping: () => true as const },
    readyz: {
      ping: () => true as const,
      synced: () => Promise.resolve(ready || "no data yet"),
      failing: () => {
        if (!ready) throw new Error("Cannot ask");
        return true as const;
      },
    },
  };
  await withHealth(checks, async (get) => {
    assert.deepEqual(await get("/healthz"), [200, "ok"]);
    assert.deepEqual(await get("/healthz/ping"), [200, "ok"]);
    assert.deepEqual(await get("/healthz?verbose"), [
      200,
      "[+]ping ok\nhealthz check passed\n",
    ]);
    assert.deepEqual(await get("/readyz"), [
      500,
      "[+]ping ok\n[-]synced failed: no data yet\n[-]failing failed: Cannot ask\nreadyz check failed\n",
    ]);
    assert.deepEqual(await get("/readyz/ping"), [200, "ok"]);
    assert.equal((await get("/readyz/synced"))[0], 500);
    for (
      const path of [
        "/",
        "/livez",
        "/readyz/none",
        "/readyz/toString",
        "/toString",
        "/readyz/ping/x",
      ]
    ) {
      assert.equal((await get(path))[0], 404, path);
    }
    ready = true;
    assert.deepEqual(await get("/readyz"), [200, "ok"]);
  });
});

Deno.test("serveHealth() does not wait for ever for a check", async () => {
  const controller = new AbortController();
  const server = serveHealth({
    address: "127.0.0.1:0",
    healthz: { stuck: () => new Promise(() => {}) },
    readyz: {},
    checkTimeoutMs: 10,
    signal: controller.signal,
  });
  const response = await fetch(`http://127.0.0.1:${server.port}/healthz`);
  assert.equal(response.status, 500);
  assert.match(
    await response.text(),
    /^\[-\]stuck failed: Cannot finish within/,
  );
  controller.abort();
  await server.finished;
});

Deno.test("serveMetrics() records why it cannot answer", async () => {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  const controller = new AbortController();
  const registry = createRegistry({ defaults: false });
  new Gauge({
    name: "broken",
    help: "Broken.",
    registers: [registry],
    collect() {
      throw new Error("Cannot count");
    },
  });
  const { signal } = controller;
  const server = serveMetrics({ address: "127.0.0.1:0", registry, signal });
  const response = await fetch(`http://127.0.0.1:${server.port}/metrics`);
  assert.equal(response.status, 500);
  assert.equal(await response.text(), "internal error\n");
  assert.match(
    lines.join("\n"),
    /"logger":"http","msg":"Cannot answer a request","error":"Cannot count"/,
  );
  controller.abort();
  await server.finished;
});

Deno.test("serveHealth() at address 0 serves nothing", async () => {
  const server = serveHealth({
    address: "0",
    healthz: {},
    readyz: {},
    signal: new AbortController().signal,
  });
  assert.equal(server.port, 0);
  await server.finished;
});

Deno.test("serveMetrics() serves the registry, the process's own metrics included", async () => {
  const controller = new AbortController();
  const registry = createRegistry();
  new Counter({ name: "things_total", help: "Things.", registers: [registry] })
    .inc(3);
  const server = serveMetrics({
    address: ":0",
    registry,
    signal: controller.signal,
  });
  try {
    const scrape = async () => {
      const response = await fetch(`http://127.0.0.1:${server.port}/metrics`);
      assert.match(
        response.headers.get("content-type") ?? "",
        /^text\/plain; version=0\.0\.4/,
      );
      return await response.text();
    };
    const valueOf = (text: string, name: string) =>
      Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
    const first = await scrape();
    assert.equal(valueOf(first, "things_total"), 3);
    assert.ok(valueOf(first, "process_resident_memory_bytes") > 1e6);
    assert.ok(valueOf(first, "process_open_fds") > 3);
    assert.ok(
      valueOf(first, "process_max_fds") > valueOf(first, "process_open_fds"),
    );
    assert.ok(valueOf(first, "process_threads") > 1);
    assert.ok(valueOf(first, "go_memstats_heap_alloc_bytes") > 1e5);
    const started = valueOf(first, "process_start_time_seconds");
    assert.ok(Math.abs(started - Date.now() / 1000) < 3600, `${started}`);
    // The counter is the kernel's number, not a sum over scrapes.
    const cpu = valueOf(await scrape(), "process_cpu_seconds_total");
    assert.ok(
      cpu > 0 && cpu < 2 * valueOf(first, "process_cpu_seconds_total") + 1,
      `${cpu}`,
    );
    const other = await fetch(`http://127.0.0.1:${server.port}/`);
    assert.equal(other.status, 404);
    await other.body?.cancel();
  } finally {
    controller.abort();
    await server.finished;
  }
});

Deno.test("serveMetrics() and serveHealth() name the address that is taken, and its flag", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const registry = createRegistry({ defaults: false });
  const first = serveMetrics({ address: "127.0.0.1:0", registry, signal });
  const address = `127.0.0.1:${first.port}`;
  const message = (flag: string) => ({
    name: "ListenError",
    message:
      `Cannot listen at "${address}" (${flag}): another process uses the address; stop it, or set another address`,
  });
  assert.throws(
    () => serveMetrics({ address, registry, signal }),
    message("--metrics-addr"),
  );
  assert.throws(
    () => serveHealth({ address, healthz: {}, readyz: {}, signal }),
    message("--health-addr"),
  );
  stop.abort();
  await first.finished;
});

Deno.test("serveMetrics() compresses for those who want it", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const server = serveMetrics({
    address: "127.0.0.1:0",
    registry: createRegistry(),
    signal,
  });
  const url = `http://127.0.0.1:${server.port}/metrics`;
  const ask = async (accept: string) => {
    const headers = { "accept-encoding": accept };
    const response = await fetch(url, { headers });
    assert.match(await response.text(), /^# HELP process_cpu_seconds_total /);
    return response.headers.get("vary");
  };
  for (const accept of ["gzip", "identity", "gzip;q=0"]) {
    assert.equal(await ask(accept), "Accept-Encoding");
  }
  stop.abort();
  await server.finished;
});

Deno.test("startMonitoring() serves both, answers /healthz as long as the process does, and ends with the signal", async () => {
  const stop = new AbortController();
  const { metricsPort, healthPort, loops } = startMonitoring({
    metricsAddress: "127.0.0.1:0",
    healthAddress: "127.0.0.1:0",
    registry: createRegistry({ defaults: false }),
    readyz: { work: () => "not yet" },
    signal: stop.signal,
  });
  const ended = Object.entries(loops).map(([name, loop]) =>
    loop(stop.signal).then(() => name)
  );
  const statusOf = async (port: number, path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    await response.text();
    return response.status;
  };
  assert.deepEqual(
    [
      await statusOf(metricsPort, "/metrics"),
      await statusOf(healthPort, "/healthz"),
      await statusOf(healthPort, "/healthz/ping"),
      await statusOf(healthPort, "/readyz"),
    ],
    [200, 200, 200, 500],
  );
  stop.abort();
  assert.deepEqual(await Promise.all(ended), [
    ...["metrics server", "health server"],
  ]);
});
