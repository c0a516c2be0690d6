import assert from "node:assert/strict";
import { Prefix } from "../../lib/inet/mod.ts";
import { RouteExporter } from "../../lib/routing/mod.ts";
import { routingHost } from "./routing_testing.ts";
import { netnsTest } from "./testing.ts";

const V4 = ["10.1.2.0/27", "10.1.3.0/27", "10.1.4.0/32"];
const V6 = ["fd02::/123", "fd03::/123"];
const prefixes = (...texts: string[]) =>
  texts.map((text) => Prefix.parse(text));

/** What `ip route show table 119` prints for a block (golden A.3). */
function shown(...texts: string[]): string[] {
  return texts.map((text) => {
    const name = text.replace("/32", "");
    return text.includes(":")
      ? `${name} dev lo proto 30 metric 1024 pref medium`
      : `${name} dev lo proto 30`;
  }).toSorted();
}

netnsTest(
  "KN-6 sync() makes the export table hold exactly the blocks, each time",
  async () => {
    await using node = await routingHost();
    const exporter = new RouteExporter(node.socket);
    const steps = [
      [...V4.slice(0, 2), ...V6],
      [...V4.slice(0, 1), ...V6.slice(1)],
      [...V4.slice(1), ...V6.slice(0, 1)],
      [],
      [],
      [...V4],
    ];
    for (const step of steps) {
      const result = await exporter.sync(prefixes(...step));
      assert.deepEqual(result.failures, []);
      assert.deepEqual(await node.routes(119), shown(...step));
    }
  },
);

netnsTest(
  "sync() exports with scope global, which `dev lo` alone would not have",
  async () => {
    await using node = await routingHost();
    await new RouteExporter(node.socket).sync(prefixes("10.1.2.0/27"));
    const [route] = await node.host.ipJson("route", "show", "table", "119");
    assert.equal(route?.["scope"], "global");
    assert.equal(route?.["type"], "unicast");
    assert.equal(route?.["dev"], "lo");
  },
);

netnsTest(
  "sync() leaves foreign routes of the export table alone and reports them",
  async () => {
    await using node = await routingHost();
    const { host } = node;
    const table = ["table", "119"];
    await host.ip("route", "add", "192.0.2.0/24", "dev", "node0", ...table);
    await host.ip("-6", "route", "add", "fd77::/64", "dev", "node0", ...table);
    await host.ip("route", "add", "10.1.2.0/27", "dev", "node0", ...table);
    await host.ip("route", "add", "default", "via", "10.9.0.1", ...table);
    const foreign = await node.routes(119);
    const exporter = new RouteExporter(node.socket);
    const result = await exporter.sync(prefixes("10.1.2.0/27", "10.1.3.0/27"));
    assert.equal(result.added, 1);
    assert.deepEqual(
      result.foreign.map(({ destination }) => String(destination)).toSorted(),
      ["10.1.2.0/27", "192.0.2.0/24", "fd77::/64"],
    );
    assert.deepEqual(
      await node.routes(119),
      [...foreign, ...shown("10.1.3.0/27")].toSorted(),
    );
    await exporter.sync([]);
    assert.deepEqual(await node.routes(119), foreign);
  },
);

netnsTest("sync() calls at once end with the last list", async () => {
  await using node = await routingHost();
  const exporter = new RouteExporter(node.socket, {
    tableId: 500,
    protocolId: 40,
  });
  await Promise.all([
    exporter.sync(prefixes(...V4, ...V6)),
    exporter.sync([]),
    exporter.sync(prefixes("10.1.2.0/27")),
  ]);
  assert.deepEqual(await node.routes(500), ["10.1.2.0/27 dev lo proto 40"]);
});

netnsTest(
  "sync() with protocol 0 removes a block of either family: the kernel keeps another protocol for IPv6",
  async () => {
    await using node = await routingHost();
    const exporter = new RouteExporter(node.socket, { protocolId: 0 });
    await exporter.sync(prefixes("10.1.2.0/27", "fd02::/123"));
    const stored = await node.routes(119);
    const listed = await node.socket.listRoutes({ table: 119 });
    assert.deepEqual(listed.map(({ protocol }) => protocol), [0, 3]);
    const again = await exporter.sync(prefixes("10.1.2.0/27", "fd02::/123"));
    assert.deepEqual([again.added, again.foreign], [0, []]);
    const result = await exporter.sync(prefixes("10.1.2.0/27"));
    assert.equal(result.removed, 1);
    assert.deepEqual(result.foreign, []);
    assert.deepEqual(await node.routes(119), [stored[0]]);
    await exporter.sync([]);
    assert.deepEqual(await node.routes(119), []);
  },
);
