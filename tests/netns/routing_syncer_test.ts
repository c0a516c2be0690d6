import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import {
  type GatewayRoute,
  type GatewayRoutes,
  RouteSyncer,
} from "../../lib/routing/mod.ts";
import { eventually } from "../lab/wait.ts";
import { routingHost } from "./routing_testing.ts";
import { netnsTest } from "./testing.ts";

/** "10.1.0.0/27 via 10.9.0.1" and the like. */
function routes(...texts: string[]): GatewayRoute[] {
  return texts.map((text) => {
    const [destination = "", gateway = ""] = text.split(" via ");
    return {
      destination: Prefix.parse(destination),
      gateway: Address.parse(gateway),
    };
  });
}

/** All of them, as a syncer wants them. */
function all(...texts: string[]): GatewayRoutes {
  const gateways = routes(...texts).map(({ destination, gateway }) =>
    [`${destination}`, gateway] as const
  );
  return { gateways: new Map(gateways), conflicting: [] };
}

/** The same as `ip route show` prints it. */
function shown(...texts: string[]): string[] {
  return texts.map((text) =>
    text.includes(":")
      ? `${text} dev node0 proto 31 metric 1024 pref medium`
      : `${text} dev node0 proto 31`
  ).toSorted();
}

const ours = (lines: string[]) =>
  lines.filter((line) => line.includes("proto 31"));

/** Collects what `ip monitor route` prints. */
function monitorRoutes(path: string): AsyncDisposable & { seen(): string } {
  const child = new Deno.Command("nsenter", {
    args: [`--net=${path}`, "ip", "monitor", "route"],
    stdout: "piped",
  }).spawn();
  let text = "";
  const reading = (async () => {
    const chunks = child.stdout.pipeThrough(new TextDecoderStream());
    for await (const chunk of chunks) text += chunk;
  })();
  return {
    seen: () => text,
    async [Symbol.asyncDispose](): Promise<void> {
      child.kill("SIGTERM");
      await reading;
      await child.status;
    },
  };
}

const V4_A = ["10.1.0.0/27 via 10.9.0.1", "10.1.1.0/27 via 10.9.0.1"];
const V4_B = ["10.1.2.0/27 via 10.9.0.2", "10.1.3.0/27 via 10.9.0.2"];
const V6_A = ["fd01::/123 via fd09::1", "fd01:1::/123 via fd09::1"];
const V6_B = ["fd01:2::/123 via fd09::2", "fd01:3::/123 via fd09::2"];

netnsTest(
  "KN-7 sync() makes our routes exactly the wanted ones and touches no other",
  async () => {
    await using node = await routingHost();
    await node.host.ip(
      "route",
      "add",
      "10.5.0.0/24",
      "via",
      "10.9.0.9",
      "proto",
      "2",
    );
    await node.host.ip(
      "-6",
      "route",
      "add",
      "fd05::/64",
      "via",
      "fd09::9",
      "proto",
      "2",
    );
    const foreign = await node.routes("main");
    const syncer = new RouteSyncer(node.socket);
    const steps = [
      [...V4_A, ...V4_B, ...V6_A, ...V6_B],
      [...V4_A, ...V6_A],
      // One net moves to another gateway, one goes.
      [
        "10.1.0.0/27 via 10.9.0.2",
        ...V6_A.slice(0, 1),
        "fd01:1::/123 via fd09::2",
      ],
      [],
    ];
    for (const step of steps) {
      const result = await syncer.sync(all(...step));
      assert.deepEqual(result.failures, []);
      assert.deepEqual(
        await node.routes("main"),
        [...foreign, ...shown(...step)].toSorted(),
      );
    }
  },
);

netnsTest(
  "W44 sync() moves a block in one step: there is no moment without a route",
  async () => {
    await using node = await routingHost();
    const syncer = new RouteSyncer(node.socket);
    await syncer.sync(all(...V4_A, ...V6_A));
    await using monitor = monitorRoutes(node.host.path);
    const mark = async (destination: string) => {
      // Another route each time: the kernel does not tell of one that is there.
      let metric = 0;
      await eventually(`${destination} in what ip monitor tells`, async () => {
        const args = ["dev", "node0", "metric", `${++metric}`];
        await node.host.ip("route", "add", destination, ...args);
        return monitor.seen().includes(destination);
      });
    };
    await mark("10.77.0.0/24");
    const moved = [...V4_A, ...V6_A].map((text) =>
      text.replace(".0.1", ".0.2").replace("fd09::1", "fd09::2")
    );
    const result = await syncer.sync(all(...moved));
    assert.deepEqual([result.moved, result.removed], [4, 0]);
    assert.deepEqual(ours(await node.routes("main")), shown(...moved));
    await mark("10.78.0.0/24");
    const seen = monitor.seen();
    assert.match(seen, /10\.1\.0\.0\/27 via 10\.9\.0\.2/);
    assert.match(seen, /fd01:1::\/123 via fd09::2/);
    assert.match(seen, /10\.78\.0\.0/);
    assert.doesNotMatch(seen, /Deleted/);
  },
);

netnsTest(
  "W44 sync() goes on when a gateway is out of reach, and reports it",
  async () => {
    await using node = await routingHost();
    const syncer = new RouteSyncer(node.socket);
    const bad = ["10.2.0.0/27 via 172.16.0.1", "fd02::/123 via fd77::1"];
    const result = await syncer.sync(
      all(bad[0] ?? "", ...V4_A, ...V6_A, bad[1] ?? ""),
    );
    assert.equal(result.added, 4);
    assert.deepEqual(
      result.failures.map(({ destination, gateway }) =>
        `${destination} via ${gateway}`
      ),
      bad,
    );
    for (const { error } of result.failures) {
      assert.match(
        error.message,
        /^Cannot add route/,
      );
    }
    assert.deepEqual(ours(await node.routes("main")), shown(...V4_A, ...V6_A));

    // The gateway comes into reach: the next run heals it.
    await node.host.ip("route", "add", "172.16.0.0/24", "dev", "node0");
    const healed = await syncer.sync(all(bad[0] ?? "", ...V4_A, ...V6_A));
    assert.deepEqual([healed.added, healed.failures.length], [1, 0]);
  },
);

netnsTest(
  "sync() does not overwrite a foreign route to the same block",
  async () => {
    await using node = await routingHost();
    await node.host.ip(
      "route",
      "add",
      "10.1.0.0/27",
      "via",
      "10.9.0.9",
      "proto",
      "2",
    );
    await node.host.ip(
      "-6",
      "route",
      "add",
      "fd01::/123",
      "via",
      "fd09::9",
      "proto",
      "2",
    );
    const before = await node.routes("main");
    const syncer = new RouteSyncer(node.socket);
    const result = await syncer.sync(all(...V4_A, ...V6_A));
    assert.equal(result.added, 2);
    assert.deepEqual(
      result.failures.map(({ error }) => "code" in error && error.code),
      ["EEXIST", "EEXIST"],
    );
    assert.deepEqual(
      await node.routes("main"),
      [...before, ...shown(V4_A[1] ?? "", V6_A[1] ?? "")].toSorted(),
    );
  },
);

netnsTest("sync() handles 2000 routes", async () => {
  await using node = await routingHost();
  const syncer = new RouteSyncer(node.socket);
  const many = Array.from(
    { length: 2000 },
    (_, i) => `10.${64 + (i >> 8)}.${i & 255}.0/27 via 10.9.0.${1 + i % 50}`,
  );
  const result = await syncer.sync(all(...many));
  assert.deepEqual([result.added, result.failures.length], [2000, 0]);
  assert.equal(ours(await node.routes("main")).length, 2000);
  const again = await syncer.sync(all(...many));
  assert.deepEqual([again.added, again.moved, again.removed], [0, 0, 0]);
  assert.equal((await syncer.sync(all())).removed, 2000);
});

netnsTest(
  "change() changes single routes, of both families, and lists none",
  async () => {
    await using node = await routingHost();
    let lists = 0;
    const syncer = new RouteSyncer({
      listRoutes: (options) => {
        lists++;
        return node.socket.listRoutes(options);
      },
      tryExecute: (requests) => node.socket.tryExecute(requests),
    });
    await syncer.sync(all(...V4_A, ...V6_A));
    assert.equal(lists, 1);
    const [v4 = "", v4Kept = ""] = V4_A;
    const [v6 = "", v6Kept = ""] = V6_A;
    const moved = [v4, v6].map((text) => text.replace(/1$/, "2"));
    const done = await syncer.change({
      add: routes(...V4_B, ...V6_B),
      move: routes(...moved),
      remove: routes(v4Kept, v6Kept),
      conflicting: routes("10.1.2.0/27 via 10.9.0.7"),
    });
    assert.deepEqual([done.added, done.moved, done.removed], [4, 2, 2]);
    assert.deepEqual(done.failures.map(({ gateway }) => gateway), ["10.9.0.7"]);
    assert.equal(lists, 1);
    assert.deepEqual(
      ours(await node.routes("main")),
      shown(...V4_B, ...V6_B, ...moved),
    );
  },
);

netnsTest(
  "change() leaves a route of somebody else in its way, and removes none but ours",
  async () => {
    await using node = await routingHost();
    const syncer = new RouteSyncer(node.socket);
    await node.host.ip(
      ...["route", "add", "10.1.0.0/27", "via", "10.9.0.9", "proto", "2"],
    );
    const foreign = await node.routes("main");
    const [v4 = ""] = V4_A;
    const none = { move: [], conflicting: [] };
    const added = await syncer.change({ ...none, add: routes(v4), remove: [] });
    assert.match(`${added.failures[0]?.error}`, /EEXIST/);
    const wanted = routes("10.1.0.0/27 via 10.9.0.9");
    const gone = await syncer.change({ ...none, add: [], remove: wanted });
    assert.deepEqual(gone.failures, []);
    assert.deepEqual(await node.routes("main"), foreign);
  },
);
