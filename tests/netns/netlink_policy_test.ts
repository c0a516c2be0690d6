// What policy routing takes: rules of every selector in use, and routes that
// refuse where better ones are missing.
import assert from "node:assert/strict";
import { type Family, Prefix } from "../../lib/inet/mod.ts";
import {
  linkAddVeth,
  linkSet,
  routeAdd,
  routeDelete,
  routeReplace,
  type RouteTarget,
  type Rule,
  ruleAdd,
  ruleDelete,
  ruleText,
} from "../../lib/netlink/mod.ts";
import { linkGetCounters } from "../lab/netlink_requests.ts";
import { openIn } from "./netlink_testing.ts";
import { netnsTest, tempNetns } from "./testing.ts";

const TABLE = 118;
const PROTOCOL = 30;
const METRIC = 4096;

const DESTINATIONS: Readonly<Record<Family, readonly [string, string]>> = {
  ipv4: ["203.0.113.0/24", "203.0.113.9"],
  ipv6: ["2001:db8:9::/64", "2001:db8:9::9"],
};

for (const family of ["ipv4", "ipv6"] as const) {
  const flag = family === "ipv4" ? "-4" : "-6";
  const [prefix, inside] = DESTINATIONS[family];

  netnsTest(
    `rules by destination, mark and link are what ip shows (${family})`,
    async () => {
      await using temp = await tempNetns();
      using socket = openIn(temp);
      const rules: readonly Rule[] = [
        { family, priority: 1000, table: 1003, fwmark: 3 },
        {
          family,
          priority: 1800,
          table: 254,
          destination: Prefix.parse(prefix),
          protocol: PROTOCOL,
        },
        { family, priority: 1900, table: 117 },
        {
          family,
          priority: 2000,
          table: TABLE,
          iif: "lo",
          protocol: PROTOCOL,
        },
        { family, priority: 1700, table: 0, goto: 1850, protocol: PROTOCOL },
        { family, priority: 1850, table: 0, isNop: true, protocol: PROTOCOL },
      ];
      await socket.execute(rules.map((rule) => ruleAdd(rule)));
      const lines = (await temp.ip(flag, "rule")).split("\n").filter((line) =>
        /^(1[0-9][05]0|2000):/.test(line)
      );
      const shown = lines.map((line) => line.replace(/\s+/g, " ").trim());
      assert.deepEqual(
        shown,
        [
          "1000: from all fwmark 0x3 lookup 1003",
          "1700: from all goto 1850 proto 30",
          `1800: from all to ${prefix} lookup main proto 30`,
          "1850: from all nop proto 30",
          "1900: from all lookup 117",
          "2000: from all iif lo lookup 118 proto 30",
        ].map((line) => line.replace(/\s+/g, " ").trim()),
      );

      const ours = (await socket.listRules({ family })).filter((rule) =>
        rule.priority >= 1000 && rule.priority <= 2100
      );
      assert.deepEqual(
        ours.map(({ priority, table, fwmark, iif, destination }) => [
          priority,
          table,
          fwmark,
          iif,
          destination?.toString(),
        ]),
        [
          [1000, 1003, 3, undefined, undefined],
          [1700, 0, undefined, undefined, undefined],
          [1800, 254, undefined, undefined, prefix],
          [1850, 0, undefined, undefined, undefined],
          [1900, 117, undefined, undefined, undefined],
          [2000, TABLE, undefined, "lo", undefined],
        ],
      );
      assert.deepEqual(ours.map(ruleText), shown);
      await socket.execute(ours.map((rule) => ruleDelete(rule)));
      const left = (await socket.listRules({ family })).map((r) => r.priority);
      assert.deepEqual(left.filter((p) => p >= 1000 && p <= 2100), []);
    },
  );

  netnsTest(
    `a route that refuses stands behind one that goes (${family})`,
    async () => {
      await using temp = await tempNetns();
      using socket = openIn(temp);
      const { index } = await socket.executeAndGetLink([
        linkAddVeth({ name: "a", peer: { name: "b" } }),
        linkSet({ name: "b" }, { up: true }),
        linkSet({ name: "a" }, { up: true }),
        ruleAdd({ family, priority: 2100, table: TABLE }),
      ], { name: "a" });
      const target: RouteTarget = {
        family,
        destination: Prefix.parse(prefix),
        table: TABLE,
        protocol: PROTOCOL,
      };
      const going = { ...target, index };
      const refusing: RouteTarget = {
        ...target,
        type: "unreachable",
        metric: METRIC,
      };
      await socket.execute([routeReplace(refusing), routeReplace(going)]);
      // Again, the other way round: nothing changes, nothing is doubled.
      await socket.execute([routeReplace(going), routeReplace(refusing)]);

      const shown = await temp.ip(
        flag,
        "route",
        "show",
        "table",
        String(TABLE),
      );
      const lines = shown.split("\n").filter((line) => line !== "").sort();
      assert.equal(lines.length, 2, shown);
      assert.match(
        lines[0] ?? "",
        new RegExp(`^${prefix} dev a proto 30 (scope link|metric 1024)`),
      );
      assert.match(
        lines[1] ?? "",
        new RegExp(
          `^unreachable ${prefix} (dev lo )?proto 30 metric ${METRIC}`,
        ),
      );
      const listed = await socket.listRoutes({
        table: TABLE,
        family,
        protocol: PROTOCOL,
      });
      assert.deepEqual(listed.map(({ type }) => type).sort(), [
        "unicast",
        "unreachable",
      ]);
      assert.equal(
        listed.find((r) => r.type === "unreachable")?.metric,
        METRIC,
      );

      assert.match(await temp.ip(flag, "route", "get", inside), / dev a /);
      await socket.execute([routeDelete(going)]);
      const refused = await temp.tryExec("ip", flag, "route", "get", inside);
      assert.notEqual(refused.code, 0);
      assert.match(refused.stdout + refused.stderr, /unreachable|No route/);
      // A link that goes takes its routes along, but not the one that refuses.
      await socket.execute([routeAdd(going)]);
      await temp.ip("link", "delete", "dev", "a");
      const left = await socket.listRoutes({ table: TABLE, family });
      assert.deepEqual(left.map(({ type }) => type), ["unreachable"]);
      await socket.execute([routeDelete(refusing)]);
      assert.deepEqual(await socket.listRoutes({ table: TABLE, family }), []);
    },
  );

  netnsTest(
    `a default route in a table of its own, by a gateway taken to be on the link (${family})`,
    async () => {
      await using temp = await tempNetns();
      using socket = openIn(temp);
      await socket.execute([
        linkAddVeth({ name: "a", peer: { name: "b" } }),
        linkSet({ name: "a" }, { up: true }),
      ]);
      const via = family === "ipv4" ? "169.254.1.1" : "2001:db8:7::1";
      await temp.ip(
        flag,
        "route",
        "add",
        "default",
        "via",
        via,
        "dev",
        "a",
        "onlink",
      );
      const [made] = (await socket.listRoutes({ table: 254, family })).filter(
        (route) => route.destination === undefined,
      );
      assert.equal(made?.onLink, true);
      assert(typeof made?.scope === "string" && typeof made.type === "string");
      await socket.execute([
        routeReplace({ ...made, type: made.type, table: 1003 }),
      ]);
      const copy = await temp.ip(flag, "route", "show", "table", "1003");
      assert.match(copy, new RegExp(`^default via ${via} dev a .*onlink`));
    },
  );
}

netnsTest(
  "linkSet() renames by index, up or down, and names stay unique",
  async () => {
    await using temp = await tempNetns();
    using socket = openIn(temp);
    const { index } = await socket.executeAndGetLink([
      linkAddVeth({ name: "a", peer: { name: "b" } }),
    ], { name: "a" });
    await socket.execute([linkSet({ index }, { rename: "coil_a" })]);
    assert.equal((await socket.getLink({ name: "coil_a" }))?.index, index);
    const [error] = await socket.tryExecute([
      linkSet({ index }, { rename: "b" }),
    ]);
    assert.equal(error?.code, "EEXIST");
  },
);

netnsTest("linkGetCounters() counts what ip counts", async () => {
  await using temp = await tempNetns();
  using socket = openIn(temp);
  await temp.exec("ping", "-c2", "-i0.2", "-W10", "127.0.0.1");
  let counters: Record<string, bigint> = {};
  await socket.execute([
    linkGetCounters({ name: "lo" }, (c) => counters = { ...c }),
  ]);
  const [lo] = await temp.ipJson("-s", "link", "show", "lo");
  const stats = lo?.["stats64"] as Record<
    "rx" | "tx",
    Record<"packets" | "bytes", number>
  >;
  assert(stats.rx.packets >= 4);
  assert.deepEqual(counters, {
    receivedPackets: BigInt(stats.rx.packets),
    sentPackets: BigInt(stats.tx.packets),
    receivedBytes: BigInt(stats.rx.bytes),
    sentBytes: BigInt(stats.tx.bytes),
  });
});
