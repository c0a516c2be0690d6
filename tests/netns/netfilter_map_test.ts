import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { nft, type NftElement, type NftTable } from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import { eventually } from "../lab/wait.ts";
import { handles, setup } from "./netfilter_small_table.ts";
import { listTable } from "./netfilter_testing.ts";
import { netnsTest } from "./testing.ts";

const ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map((text) =>
  Address.parse(text)
);

function mapTable(elements: readonly NftElement[]): NftTable {
  return {
    family: "inet",
    name: "mapped",
    counters: [],
    sets: [{ name: "marks", key: ["ipv4_addr"], value: "mark", elements }],
    chains: [{
      name: "incoming",
      type: "filter",
      hook: "input",
      priority: 0,
      policy: "accept",
      rules: [
        nft.rule([
          nft.setByMap("meta mark", { field: "ip saddr", map: "marks" }),
        ]),
      ],
    }],
  };
}

netnsTest(
  "replaceTable() changes what a map has, values too, and nothing else",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const [a, b, c] = ADDRESSES;
    assert.ok(a && b && c);
    await socket.replaceTable(mapTable([[a, 1], [b, 2]]));
    const before = await handles(temp, "mapped");
    const next: readonly NftElement[][] = [
      [[a, 1], [b, 2], [c, 3]],
      [[a, 1], [b, 7]],
      [[a, 7], [b, 1]],
      [],
      [[c, 0xffffffff]],
    ];
    for (const elements of next) {
      const wanted = mapTable(elements);
      assert.equal(await socket.replaceTable(wanted), true);
      assert.equal(await listTable(temp, "mapped"), formatTable(wanted));
      assert.equal(await socket.replaceTable(wanted), false);
    }
    assert.equal(await handles(temp, "mapped"), before);
  },
);

netnsTest(
  "replaceTable() makes a map where there was a set of its name, and the other way round",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const [a] = ADDRESSES;
    assert.ok(a);
    const map = mapTable([[a, 1]]);
    const set: NftTable = {
      ...map,
      sets: [{ name: "marks", key: ["ipv4_addr"], elements: [[a]] }],
      chains: [],
    };
    for (const table of [map, set, map]) {
      assert.equal(await socket.replaceTable(table), true);
      assert.equal(await listTable(temp, "mapped"), formatTable(table));
      assert.equal(await socket.replaceTable(table), false);
    }
  },
);

netnsTest("a map can have very many elements", async () => {
  await using test = await setup();
  const { socket } = test;
  const first = Address.parse("10.0.0.0");
  const many = Array.from(
    { length: 10_000 },
    (_, i) => [first.offset(BigInt(i)), i] as const,
  );
  assert.equal(await socket.replaceTable(mapTable(many)), true);
  assert.equal(await socket.replaceTable(mapTable(many)), false);
  assert.equal((await socket.listSet("mapped", "marks")).length, many.length);
});

netnsTest(
  "a map gives packets a mark by their address and another address by their mark, and passes over others",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const hosts = { ipv4: "127.0.0", ipv6: "fd00:" } as const;
    for (const host of [5, 6, 9]) {
      await temp.ip("address", "add", `fd00::${host}`, "dev", "lo", "nodad");
    }
    const families = ["ipv4", "ipv6"] as const;
    const to = (family: "ipv4" | "ipv6", host: number) =>
      Address.parse(`${hosts[family]}${family === "ipv4" ? "." : ":"}${host}`);
    await socket.replaceTable({
      family: "inet",
      name: "mapped",
      counters: ["marked", "moved", "others"],
      sets: families.flatMap((family) =>
        [{
          name: `marks_${family}`,
          key: [`${family}_addr`],
          value: "mark",
          elements: [[to(family, 5), 7]],
        }, {
          name: `addresses_${family}`,
          key: ["mark"],
          value: `${family}_addr`,
          elements: [[7, to(family, 9)]],
        }] as const
      ),
      chains: [{
        name: "out",
        type: "filter",
        hook: "output",
        priority: 0,
        policy: "accept",
        rules: families.flatMap((family) => {
          const field = nft.daddrField(family);
          const [marks, addresses] = [`marks_${family}`, `addresses_${family}`];
          return [
            nft.rule([nft.setByMap("meta mark", { field, map: marks })]),
            nft.rule([
              nft.udpDport(5555),
              nft.setByMap(field, { field: "meta mark", map: addresses }),
              nft.counter("marked"),
              nft.accept(),
            ]),
          ];
        }),
      }, {
        name: "in",
        type: "filter",
        hook: "input",
        priority: 0,
        policy: "accept",
        rules: families.flatMap((family) => [
          nft.rule([
            nft.udpDport(5555),
            nft.metaMark(7),
            nft.daddr(to(family, 9)),
            nft.counter("moved"),
            nft.drop(),
          ]),
          nft.rule([
            nft.udpDport(5555),
            nft.daddr(to(family, 6)),
            nft.counter("others"),
            nft.drop(),
          ]),
        ]),
      }],
    });
    const send = (address: Address) =>
      temp.exec("bash", "-c", `printf x > /dev/udp/${address}/5555`);
    for (const family of families) {
      for (const host of [5, 5, 6]) await send(to(family, host));
    }
    await eventually("the counts", async () => {
      const counters = await socket.readCounters("mapped");
      const counts = ["marked", "moved", "others"].map((name) =>
        Number(counters.get(name)?.packets)
      );
      assert.deepEqual(counts, [4, 4, 2]);
      return true;
    });
  },
);
