import assert from "node:assert/strict";
import { Address, Prefix } from "../../lib/inet/mod.ts";
import {
  addressAdd,
  linkAddVeth,
  linkSet,
  routeAdd,
  routeAddBeside,
  routeDelete,
  routeLookUp,
  routeReplace,
  type RouteSocket,
  type RouteTarget,
  ruleAdd,
  ruleDelete,
} from "../../lib/netlink/mod.ts";
import { openIn } from "./netlink_testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const TABLE = 116;
const PROTOCOL = 30;

interface Fixture extends Disposable {
  readonly socket: RouteSocket;
  /** A veth that is up, with 192.0.2.1/24 and 2001:db8::1/64. */
  readonly index: number;
}

async function fixture(temp: TempNetns): Promise<Fixture> {
  const socket = openIn(temp);
  const { index } = await socket.executeAndGetLink([
    linkAddVeth({ name: "a", peer: { name: "b" } }),
    linkSet({ name: "b" }, { up: true }),
    linkSet({ name: "a" }, { up: true }),
  ], { name: "a" });
  const prefix = (text: string, length: number) => ({
    address: Address.parse(text),
    length,
  });
  await socket.execute([
    addressAdd({ index, prefix: prefix("192.0.2.1", 24) }),
    addressAdd({ index, prefix: prefix("2001:db8::1", 64), noDad: true }),
  ]);
  return { socket, index, [Symbol.dispose]: () => socket[Symbol.dispose]() };
}

/** What `ip -d -j route show table N` says, with the fields that matter. */
async function ipRoutes(
  temp: TempNetns,
  flag: "-4" | "-6",
  table: number,
): Promise<Record<string, unknown>[]> {
  const rows = await temp.ipJson(flag, "route", "show", "table", String(table));
  const fields = [
    "dst",
    "gateway",
    "dev",
    "protocol",
    "scope",
    "metric",
    "prefsrc",
    "type",
  ];
  return rows.map((row) =>
    Object.fromEntries(
      fields.filter((field) => field in row).map((
        field,
      ) => [field, row[field]]),
    )
  );
}

netnsTest("routeAdd() adds routes that ip shows as meant", async () => {
  await using temp = await tempNetns();
  using made = await fixture(temp);
  const { socket, index } = made;
  const common = { table: TABLE, protocol: PROTOCOL } as const;
  await socket.execute([
    routeAdd({
      ...common,
      family: "ipv4",
      destination: Prefix.parse("10.1.2.3/32"),
      index,
    }),
    routeAdd({
      ...common,
      family: "ipv4",
      destination: Prefix.parse("10.1.2.4/32"),
      index,
      source: Address.parse("192.0.2.1"),
    }),
    routeAdd({
      ...common,
      family: "ipv4",
      destination: Prefix.parse("10.2.0.0/16"),
      gateway: Address.parse("192.0.2.9"),
      metric: 50,
    }),
    routeAdd({
      ...common,
      family: "ipv4",
      gateway: Address.parse("192.0.2.8"),
      index,
    }),
    routeAdd({
      ...common,
      family: "ipv4",
      destination: Prefix.parse("10.3.0.0/16"),
      type: "blackhole",
      scope: "global",
    }),
  ]);
  const ours = { protocol: String(PROTOCOL), type: "unicast" };
  assert.deepEqual(await ipRoutes(temp, "-4", TABLE), [
    {
      dst: "default",
      gateway: "192.0.2.8",
      dev: "a",
      scope: "global",
      ...ours,
    },
    { dst: "10.1.2.3", dev: "a", scope: "link", ...ours },
    { dst: "10.1.2.4", dev: "a", scope: "link", prefsrc: "192.0.2.1", ...ours },
    {
      dst: "10.2.0.0/16",
      gateway: "192.0.2.9",
      dev: "a",
      scope: "global",
      metric: 50,
      ...ours,
    },
    { dst: "10.3.0.0/16", scope: "global", ...ours, type: "blackhole" },
  ]);

  const listed = await socket.listRoutes({ table: TABLE });
  assert.deepEqual(
    listed.map((route) => ({
      destination: route.destination?.toString(),
      gateway: route.gateway?.toString(),
      index: route.index,
      source: route.source?.toString(),
      metric: route.metric,
      scope: route.scope,
      type: route.type,
      table: route.table,
      protocol: route.protocol,
    })),
    [
      [
        undefined,
        "192.0.2.8",
        index,
        undefined,
        undefined,
        "global",
        "unicast",
      ],
      [
        "10.1.2.3/32",
        undefined,
        index,
        undefined,
        undefined,
        "link",
        "unicast",
      ],
      [
        "10.1.2.4/32",
        undefined,
        index,
        "192.0.2.1",
        undefined,
        "link",
        "unicast",
      ],
      ["10.2.0.0/16", "192.0.2.9", index, undefined, 50, "global", "unicast"],
      [
        "10.3.0.0/16",
        undefined,
        undefined,
        undefined,
        undefined,
        "global",
        "blackhole",
      ],
    ].map(([destination, gateway, index, source, metric, scope, type]) => ({
      destination,
      gateway,
      index,
      source,
      metric,
      scope,
      type,
      table: TABLE,
      protocol: PROTOCOL,
    })),
  );
});

netnsTest("routeAdd() does the same for IPv6", async () => {
  await using temp = await tempNetns();
  using made = await fixture(temp);
  const { socket, index } = made;
  const common = { family: "ipv6", table: TABLE, protocol: PROTOCOL } as const;
  await socket.execute([
    routeAdd({
      ...common,
      destination: Prefix.parse("fd00::3/128"),
      index,
      source: Address.parse("2001:db8::1"),
    }),
    routeAdd({
      ...common,
      destination: Prefix.parse("fd01::/64"),
      gateway: Address.parse("2001:db8::9"),
      metric: 50,
    }),
    routeAdd({ ...common, gateway: Address.parse("fe80::1"), index }),
  ]);
  const rows = await ipRoutes(temp, "-6", TABLE);
  assert.deepEqual(
    rows.map((
      row,
    ) => [
      row["dst"],
      row["gateway"],
      row["dev"],
      row["prefsrc"],
      row["metric"],
    ]),
    [
      ["fd00::3", undefined, "a", "2001:db8::1", 1024],
      ["fd01::/64", "2001:db8::9", "a", undefined, 50],
      ["default", "fe80::1", "a", undefined, 1024],
    ],
  );
  const listed = await socket.listRoutes({ table: TABLE, family: "ipv6" });
  assert.deepEqual(
    listed.map((
      route,
    ) => [
      String(route.destination ?? "default"),
      route.gateway?.toString(),
      route.metric,
      route.source?.toString(),
    ]),
    [
      ["fd00::3/128", undefined, 1024, "2001:db8::1"],
      ["fd01::/64", "2001:db8::9", 50, undefined],
      ["default", "fe80::1", 1024, undefined],
    ],
  );
});

netnsTest(
  "routes are refused, replaced and deleted as the table's state demands",
  async () => {
    await using temp = await tempNetns();
    using made = await fixture(temp);
    const { socket, index } = made;
    const cases: [RouteTarget, Address][] = [
      [{
        family: "ipv4",
        destination: Prefix.parse("10.1.0.0/16"),
        table: TABLE,
      }, Address.parse("192.0.2.7")],
      [
        {
          family: "ipv6",
          destination: Prefix.parse("fd01::/64"),
          table: TABLE,
        },
        Address.parse("2001:db8::7"),
      ],
    ];
    for (const [target, gateway] of cases) {
      const here = { ...target, index, protocol: PROTOCOL };
      const there = { ...target, gateway, protocol: PROTOCOL };
      const outcomes = await socket.tryExecute([
        routeAdd(here),
        routeAdd(here),
        routeReplace(there),
        routeReplace(there),
        routeDelete({ ...target, protocol: PROTOCOL + 1 }),
      ]);
      assert.deepEqual(
        outcomes.map((error) => error?.code),
        [undefined, "EEXIST", undefined, undefined, "ESRCH"],
        target.family,
      );
      assert.equal(
        outcomes[1]?.op,
        `add route "${target.destination}" to table 116`,
      );
      const routes = await socket.listRoutes({
        table: TABLE,
        family: target.family,
      });
      assert.deepEqual(routes.map((route) => String(route.gateway)), [
        String(gateway),
      ]);
      await socket.execute([routeDelete({ ...target, protocol: PROTOCOL })]);
      const [gone] = await socket.tryExecute([routeDelete(target)]);
      assert.equal(gone?.code, "ESRCH");
    }
  },
);

netnsTest("a refused route carries the kernel's own words", async () => {
  await using temp = await tempNetns();
  using made = await fixture(temp);
  const [error] = await made.socket.tryExecute([routeAdd({
    family: "ipv4",
    destination: Prefix.parse("10.9.0.0/16"),
    gateway: Address.parse("203.0.113.1"),
  })]);
  assert.equal(error?.code, "ENETUNREACH");
  assert.equal(error?.extack, "Nexthop has invalid gateway");
  assert.equal(
    error?.message,
    'Cannot add route "10.9.0.0/16" to table 254: kernel returned ENETUNREACH (Nexthop has invalid gateway)',
  );
});

netnsTest(
  "listRoutes() filters by table and protocol; a table nobody used is empty",
  async () => {
    await using temp = await tempNetns();
    using made = await fixture(temp);
    const { socket, index } = made;
    const route = (text: string, table: number, protocol: number) => {
      const destination = Prefix.parse(text);
      return routeAdd({
        family: destination.family,
        destination,
        index,
        table,
        protocol,
      });
    };
    await socket.execute([
      route("10.1.0.1/32", TABLE, PROTOCOL),
      route("10.1.0.2/32", TABLE, 99),
      route("10.1.0.3/32", 100_000, PROTOCOL),
      route("fd00::1/128", TABLE, PROTOCOL),
      route("fd00::2/128", TABLE, 99),
      route("fd00::3/128", 100_000, PROTOCOL),
    ]);
    const texts = async (filter: Parameters<RouteSocket["listRoutes"]>[0]) =>
      (await socket.listRoutes(filter)).map((each) => String(each.destination));
    assert.deepEqual(await texts({ table: TABLE }), [
      "10.1.0.1/32",
      "10.1.0.2/32",
      "fd00::1/128",
      "fd00::2/128",
    ]);
    assert.deepEqual(await texts({ table: TABLE, protocol: PROTOCOL }), [
      "10.1.0.1/32",
      "fd00::1/128",
    ]);
    assert.deepEqual(await texts({ table: 100_000, family: "ipv6" }), [
      "fd00::3/128",
    ]);
    assert.deepEqual(await texts({ protocol: 99 }), [
      "10.1.0.2/32",
      "fd00::2/128",
    ]);
    assert.deepEqual(await texts({ table: 4242 }), []);
    assert((await texts({})).includes("10.1.0.3/32"));
  },
);

netnsTest(
  "listRoutes() reads a table of several parts to its end",
  async () => {
    await using temp = await tempNetns();
    using made = await fixture(temp);
    const { socket, index } = made;
    const prefix = Prefix.parse("10.128.0.0/16");
    const routes = Array.from({ length: 3000 }, (_, i) =>
      routeAdd({
        family: "ipv4",
        destination: Prefix.host(prefix.nth(BigInt(i))),
        index,
        table: TABLE,
      }));
    await socket.execute(routes);
    const listed = await socket.listRoutes({ table: TABLE, family: "ipv4" });
    assert.equal(listed.length, 3000);
    assert.equal(
      new Set(listed.map((route) => String(route.destination))).size,
      3000,
    );
  },
);

netnsTest("rules are added, listed and deleted", async () => {
  await using temp = await tempNetns();
  using made = await fixture(temp);
  const { socket } = made;
  for (const family of ["ipv4", "ipv6"] as const) {
    const ipv4 = family === "ipv4";
    const plain = { family, priority: 2000, table: TABLE };
    const full = {
      family,
      priority: 1900,
      table: 100_000,
      source: Prefix.parse(ipv4 ? "10.1.0.0/16" : "fd00:1::/32"),
      destination: Prefix.parse(ipv4 ? "10.2.0.0/16" : "fd00:2::/32"),
      fwmark: 0x10,
      fwmask: 0xff,
      iif: "a",
      protocol: PROTOCOL,
    };
    const outcomes = await socket.tryExecute([
      ruleAdd(plain),
      ruleAdd(plain),
      ruleAdd(full),
    ]);
    assert.deepEqual(outcomes.map((error) => error?.code), [
      undefined,
      "EEXIST",
      undefined,
    ]);

    const shown = await temp.ip(ipv4 ? "-4" : "-6", "rule", "show");
    assert.match(shown, /^2000:\tfrom all lookup 116\s*$/m);
    assert.match(
      shown,
      ipv4
        ? /^1900:\tfrom 10\.1\.0\.0\/16 to 10\.2\.0\.0\/16 fwmark 0x10\/0xff iif a lookup 100000 proto 30\s*$/m
        : /^1900:\tfrom fd00:1::\/32 to fd00:2::\/32 fwmark 0x10\/0xff iif a lookup 100000 proto 30\s*$/m,
    );

    const text = (rule: object) =>
      JSON.stringify(rule, Object.keys(full).sort());
    const listed = await socket.listRules({ family });
    assert.equal(
      text(listed.find(({ priority }) => priority === 1900) ?? {}),
      text(full),
    );
    const found = listed.find(({ priority }) => priority === 2000);
    assert.deepEqual(
      [
        found?.table,
        found?.source,
        found?.destination,
        found?.fwmark,
        found?.iif,
      ],
      [TABLE, undefined, undefined, undefined, undefined],
    );

    const deletions = await socket.tryExecute([
      ruleDelete(plain),
      ruleDelete(full),
      ruleDelete(plain),
    ]);
    assert.deepEqual(deletions.map((error) => error?.code), [
      undefined,
      undefined,
      "ENOENT",
    ]);
  }
  assert.equal((await socket.listRules()).length, 5); // those of a fresh namespace
});

netnsTest(
  "routeAddBeside() puts routes before and behind, and listRoutes() shows both ways of an IPv6 route",
  async () => {
    await using temp = await tempNetns();
    using f = await fixture(temp);
    const gateway = (n: number, family: "ipv4" | "ipv6") =>
      Address.parse(family === "ipv4" ? `192.0.2.${n}` : `2001:db8::${n}`);
    for (const family of ["ipv4", "ipv6"] as const) {
      const route = (n: number): RouteTarget => ({
        family,
        index: f.index,
        gateway: gateway(n, family),
        table: TABLE,
      });
      await f.socket.execute([
        routeAdd(route(11)),
        routeAddBeside(route(12), { place: "last" }),
        routeAddBeside(route(10), { place: "first" }),
      ]);
      const routes = await f.socket.listRoutes({ table: TABLE, family });
      if (family === "ipv4") {
        assert.deepEqual(
          routes.map((each) => each.gateway?.toString()),
          ["192.0.2.10", "192.0.2.11", "192.0.2.12"],
        );
        continue;
      }
      const [{ hops = [], index } = {}] = routes;
      assert.equal(index, undefined);
      assert.deepEqual(
        hops.map((hop) => `${hop.index === f.index} ${hop.gateway}`).toSorted(),
        ["true 2001:db8::10", "true 2001:db8::11", "true 2001:db8::12"],
      );
      // One way alone goes.
      await f.socket.execute([routeDelete(route(11))]);
      const [left] = await f.socket.listRoutes({ table: TABLE, family });
      assert.equal(left?.hops?.length, 2);
    }
  },
);

netnsTest(
  "routeLookUp() tells the source that the kernel would use",
  async () => {
    await using temp = await tempNetns();
    using f = await fixture(temp);
    for (
      const [to, source] of [["192.0.2.9", "192.0.2.1"], [
        "2001:db8::9",
        "2001:db8::1",
      ]]
    ) {
      let found: string | undefined;
      await f.socket.execute([
        routeLookUp(
          Address.parse(to ?? ""),
          (route) => found = `${route.index === f.index} ${route.source}`,
        ),
      ]);
      assert.equal(found, `true ${source}`);
    }
    const [error] = await f.socket.tryExecute([
      routeLookUp(Address.parse("203.0.113.1"), () => {}),
    ]);
    assert.equal(error?.code, "ENETUNREACH");
  },
);

netnsTest(
  "linkSet() sets how many packets wait, and getLink() shows it",
  async () => {
    await using temp = await tempNetns();
    using f = await fixture(temp);
    const selector = { index: f.index };
    await f.socket.execute([linkSet(selector, { txQueueLength: 777 })]);
    const [row] = await temp.ipJson("link", "show", "dev", "a");
    assert.equal(row?.["txqlen"], 777);
    assert.equal((await f.socket.getLink(selector))?.txQueueLength, 777);
  },
);
