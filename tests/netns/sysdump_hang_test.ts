// coil sysdump on a node whose coild hangs: what the kernel says is read all the same.
import assert from "node:assert/strict";
import { ADMIN_SOCKET_SUFFIX } from "../../lib/cnirpc/inspection/mod.ts";
import { readLocal } from "../../roles/cli/sysdump/local.ts";
import { assertSoon } from "../lab/mod.ts";
import { netnsTest } from "./testing.ts";

netnsTest(
  "a sysdump of a node whose coild never answers has the network, and says what failed",
  async () => {
    await using stack = new AsyncDisposableStack();
    const directory = await Deno.makeTempDir();
    stack.defer(() => Deno.remove(directory, { recursive: true }));
    const socket = `${directory}/coild.sock`;
    // The kernel takes connections for a program that has stopped, too.
    using _admin = Deno.listen({
      transport: "unix",
      path: socket + ADMIN_SOCKET_SUFFIX,
    });
    // Scrapes that were given up have filled its backlog.
    using metrics = Deno.listen({
      hostname: "127.0.0.1",
      port: 0,
      tcpBacklog: 1,
    });
    const { port } = metrics.addr;
    for (let isFull = false; !isFull;) {
      const signal = AbortSignal.timeout(1_000);
      await Deno.connect({ hostname: "127.0.0.1", port, signal }).then(
        (scrape) => stack.defer(() => scrape.close()),
        () => isFull = true,
      );
    }

    let report: Awaited<ReturnType<typeof readLocal>> | undefined;
    // Each question has 10 s, kubectl exec 30 s for all.
    await assertSoon(async () => {
      report = await readLocal({
        component: "coild",
        metricsPort: port,
        socket,
      });
    }, { what: "a report without coild", limitMs: 15_000 });

    assert.match(report?.files["links.txt"] ?? "", /^1: lo: /m);
    assert.deepEqual(Object.keys(report?.files ?? {}), [
      "links.txt",
      "rules.txt",
      "routes.txt",
      "nft_tables.txt",
    ]);
    assert.deepEqual(report?.missing.map(({ what }) => what), [
      "addresses.json",
      "calls.json",
      "ipam_check.txt",
      "metrics.txt",
    ]);
    for (const { why } of report?.missing ?? []) {
      assert.match(why, /^Cannot ask .*timeout$/);
    }
  },
);
