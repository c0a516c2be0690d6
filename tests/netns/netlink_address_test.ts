import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import {
  addressAdd,
  addressDelete,
  linkAddVeth,
  linkSet,
  type Neighbour,
  neighbourDelete,
  neighbourGet,
  neighbourReplace,
  type RouteSocket,
} from "../../lib/netlink/mod.ts";
import { neighbourAdd } from "../lab/netlink_requests.ts";
import { openIn } from "./netlink_testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const MAC = "02:00:0a:01:02:03";

/** A namespace's socket, and the index of a veth in it that is up and has a carrier. */
async function withVeth(
  temp: TempNetns,
): Promise<{ socket: RouteSocket; index: number }> {
  const socket = openIn(temp);
  const { index } = await socket.executeAndGetLink([
    linkAddVeth({ name: "a", peer: { name: "b" } }),
    linkSet({ name: "a" }, { ipv6AddrGenMode: "none" }),
    linkSet({ name: "b" }, { ipv6AddrGenMode: "none" }),
    linkSet({ name: "b" }, { up: true }),
    linkSet({ name: "a" }, { up: true }),
  ], { name: "a" });
  return { socket, index };
}

/** The addresses that `ip -d -j addr show dev a` tells. */
async function ipAddresses(
  temp: TempNetns,
): Promise<Record<string, unknown>[]> {
  const [row] = await temp.ipJson("addr", "show", "dev", "a");
  return row?.["addr_info"] as Record<string, unknown>[];
}

function entry(text: string, length: number) {
  return { address: Address.parse(text), length };
}

netnsTest(
  "addressAdd() adds addresses that ip shows with the same scope and flags",
  async () => {
    await using temp = await tempNetns();
    const { socket, index } = await withVeth(temp);
    using _socket = socket;
    await socket.execute([
      addressAdd({ index, prefix: entry("10.1.2.3", 24) }),
      addressAdd({ index, prefix: entry("169.254.1.1", 32), scope: "link" }),
      addressAdd({ index, prefix: entry("fd00::3", 128), noDad: true }),
      addressAdd({
        index,
        prefix: entry("fe80::1", 64),
        scope: "link",
        noDad: true,
      }),
    ]);
    const shown = (await ipAddresses(temp)).map((row) => ({
      local: row["local"],
      prefixlen: row["prefixlen"],
      scope: row["scope"],
      nodad: row["nodad"] === true,
      tentative: row["tentative"] === true,
    }));
    const plain = { nodad: false, tentative: false };
    const noDad = { nodad: true, tentative: false };
    assert.deepEqual(shown, [
      // The kernel lists narrower scopes first.
      { local: "169.254.1.1", prefixlen: 32, scope: "link", ...plain },
      { local: "10.1.2.3", prefixlen: 24, scope: "global", ...plain },
      { local: "fd00::3", prefixlen: 128, scope: "global", ...noDad },
      { local: "fe80::1", prefixlen: 64, scope: "link", ...noDad },
    ]);

    const listed = await socket.listAddresses({ index });
    assert.deepEqual(
      listed.map(({ prefix, scope, tentative, permanent }) => ({
        text: `${prefix.address}/${prefix.length}`,
        scope,
        tentative,
        permanent,
      })),
      shown.map((row) => ({
        text: `${row.local}/${row.prefixlen}`,
        scope: row.scope,
        tentative: false,
        permanent: true,
      })),
    );
  },
);

netnsTest(
  "addressAdd() without noDad leaves an IPv6 address tentative",
  async () => {
    await using temp = await tempNetns();
    const { socket, index } = await withVeth(temp);
    using _socket = socket;
    // A minute of detection, however busy the machine is.
    await temp.exec("sysctl", "-qw", "net.ipv6.conf.a.dad_transmits=60");
    await socket.execute([
      addressAdd({ index, prefix: entry("fd00::4", 128) }),
    ]);
    const [address] = await socket.listAddresses({ index, family: "ipv6" });
    assert.equal(address?.tentative, true);
  },
);

netnsTest(
  "addressAdd() refuses an address that is there, unless told to replace",
  async () => {
    await using temp = await tempNetns();
    const { socket, index } = await withVeth(temp);
    using _socket = socket;
    for (const prefix of [entry("10.1.2.3", 32), entry("fd00::3", 128)]) {
      const add = { index, prefix, noDad: true };
      const outcomes = await socket.tryExecute([
        addressAdd(add),
        addressAdd(add),
        addressAdd({ ...add, replace: true }),
        addressDelete(add),
        addressDelete(add),
      ]);
      assert.deepEqual(
        outcomes.map((error) => error?.code),
        [undefined, "EEXIST", undefined, undefined, "EADDRNOTAVAIL"],
      );
    }
    assert.deepEqual(await socket.listAddresses({ index }), []);
  },
);

netnsTest("addressAdd() with noPrefixRoute adds no route", async () => {
  await using temp = await tempNetns();
  const { socket, index } = await withVeth(temp);
  using _socket = socket;
  await socket.execute([
    addressAdd({ index, prefix: entry("10.1.2.3", 24), noPrefixRoute: true }),
    addressAdd({
      index,
      prefix: entry("fd00::3", 64),
      noPrefixRoute: true,
      noDad: true,
    }),
  ]);
  const routes = await socket.listRoutes({ table: 254 });
  assert.deepEqual(
    routes.filter((route) => route.destination?.length !== 128),
    [],
  );
  await socket.execute([addressAdd({ index, prefix: entry("10.2.2.3", 24) })]);
  const [route] = await socket.listRoutes({ table: 254, family: "ipv4" });
  assert.equal(String(route?.destination), "10.2.2.0/24");
});

netnsTest("listAddresses() filters by link and family", async () => {
  await using temp = await tempNetns();
  const { socket, index } = await withVeth(temp);
  using _socket = socket;
  await socket.execute([
    addressAdd({ index, prefix: entry("10.1.2.3", 32) }),
    addressAdd({ index, prefix: entry("fd00::3", 128), noDad: true }),
  ]);
  const texts = async (filter: Parameters<RouteSocket["listAddresses"]>[0]) =>
    (await socket.listAddresses(filter)).map(({ prefix }) =>
      String(prefix.address)
    ).sort();
  assert.deepEqual(
    await texts({}),
    ["10.1.2.3", "127.0.0.1", "::1", "fd00::3"].sort(),
  );
  assert.deepEqual(await texts({ index }), ["10.1.2.3", "fd00::3"]);
  assert.deepEqual(await texts({ family: "ipv4" }), ["10.1.2.3", "127.0.0.1"]);
  assert.deepEqual(await texts({ index: 1, family: "ipv6" }), ["::1"]);
});

netnsTest(
  "listAddresses() tells a point-to-point address from its peer",
  async () => {
    await using temp = await tempNetns();
    const { socket, index } = await withVeth(temp);
    using _socket = socket;
    await temp.ip("addr", "add", "10.1.1.1", "peer", "10.1.1.2/32", "dev", "a");
    await temp.ip(
      "addr",
      "add",
      "fd00::1",
      "peer",
      "fd00::2/128",
      "dev",
      "a",
      "nodad",
    );
    const entries = await socket.listAddresses({ index });
    assert.deepEqual(
      entries.map(({ prefix, peer }) => [String(prefix.address), String(peer)]),
      [["10.1.1.1", "10.1.1.2"], ["fd00::1", "fd00::2"]],
    );
  },
);

netnsTest("neighbours are added, replaced, listed and deleted", async () => {
  await using temp = await tempNetns();
  const { socket, index } = await withVeth(temp);
  using _socket = socket;
  for (const text of ["169.254.1.1", "fe80::1"]) {
    const address = Address.parse(text);
    await socket.execute([neighbourAdd({ index, address, mac: MAC })]);
    const [shown] = await temp.ipJson("neigh", "show", text, "dev", "a");
    assert.equal(shown?.["lladdr"], MAC);
    assert.deepEqual(shown?.["state"], ["PERMANENT"]);

    const other = "02:00:00:00:00:09";
    const outcomes = await socket.tryExecute([
      neighbourAdd({ index, address, mac: other }),
      neighbourReplace({
        index,
        address,
        mac: other,
        state: "noarp",
        protocol: 32,
      }),
    ]);
    assert.deepEqual(outcomes.map((error) => error?.code), [
      "EEXIST",
      undefined,
    ]);
    const { family } = address;
    const [neighbour] = await socket.listNeighbours({ index, family });
    assert.deepEqual(
      { ...neighbour, address: String(neighbour?.address) },
      { index, address: text, mac: other, state: "noarp", protocol: 32 },
    );
    const found: Neighbour[] = [];
    const get = neighbourGet({ index, address }, (one) => found.push(one));
    await socket.execute([get]);
    assert.deepEqual(found, [neighbour]);

    await socket.execute([neighbourDelete({ index, address })]);
    const [gone] = await socket.tryExecute([
      neighbourDelete({ index, address }),
    ]);
    assert.equal(gone?.code, "ENOENT");
    const [unknown] = await socket.tryExecute([get]);
    assert.equal(unknown?.code, "ENOENT");
    assert.equal(found.length, 1);
  }
});

netnsTest(
  "addressAdd() with scope host keeps an address to the node itself",
  async () => {
    await using temp = await tempNetns();
    const { socket, index } = await withVeth(temp);
    using _socket = socket;
    const prefix = entry("10.9.9.9", 32);
    await socket.execute([addressAdd({ index, prefix, scope: "host" })]);
    const [shown] = await ipAddresses(temp);
    assert.equal(shown?.["scope"], "host");
    const [listed] = await socket.listAddresses({ index });
    assert.equal(listed?.scope, "host");
  },
);
