import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { NETLINK_NETFILTER, Netns, openNetlink } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  nft,
  type NftElement,
  type NftTable,
} from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";
import { awaitedLater } from "../lab/wait.ts";

/** Pairs of an IPv6 address with itself, as many as asked for. */
function pairs(count: number, start = 0): NftElement[] {
  const first = Address.parse("fd00:10:20:30::");
  return Array.from({ length: count }, (_, index) => {
    const address = first.offset(BigInt(start + index));
    return [address, address];
  });
}

function gateway(clients: readonly NftElement[]): NftTable {
  return {
    family: "inet",
    name: "gateway",
    counters: ["foreign"],
    sets: [{
      name: "clients",
      key: ["ipv6_addr", "ipv6_addr"],
      elements: clients,
    }],
    chains: [{
      name: "pre",
      type: "filter",
      hook: "prerouting",
      priority: -150,
      policy: "accept",
      rules: [
        nft.rule([
          nft.udpDport(5555),
          nft.inSet(["ip6 saddr", "inner ip6 saddr"], "clients"),
          nft.accept(),
        ]),
        nft.rule([nft.udpDport(5555), nft.counter("foreign"), nft.drop()]),
      ],
    }],
  };
}

async function timed<T>(what: string, run: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await run();
  const ms = (performance.now() - start).toFixed(1);
  // deno-lint-ignore no-console -- figures are to be seen
  console.log(`  ${what}: ${ms} ms`);
  return result;
}

netnsTest("a set holds 10,000 pairs of IPv6 addresses", async () => {
  await using temp = await tempNetns("nft");
  using netns = Netns.open(temp.path);
  await using socket = NetfilterSocket.open({ netns });
  const target = { table: "gateway", set: "clients" };
  const all = pairs(10_000);
  await timed(
    "table with 10,000 pairs",
    () => socket.replaceTable(gateway(all)),
  );
  const listed = await timed(
    "list",
    () => socket.listSet("gateway", "clients"),
  );
  assert.deepEqual(
    new Set(listed.map(String)),
    new Set(all.map(String)),
  );
  assert.equal(listed.length, 10_000);
  assert.equal(
    await timed(
      "the same table again",
      () => socket.replaceTable(gateway(all)),
    ),
    false,
  );
  await timed(
    "one more",
    () => socket.changeSet({ ...target, add: pairs(1, 10_000) }),
  );
  await timed(
    "one less",
    () => socket.changeSet({ ...target, remove: pairs(1, 10_000) }),
  );
  await timed(
    "half of them others",
    () => socket.replaceTable(gateway(pairs(10_000, 5_000))),
  );
  assert.equal((await socket.listSet("gateway", "clients")).length, 10_000);
  await timed("none", () => socket.replaceTable(gateway([])));
  assert.deepEqual(await socket.listSet("gateway", "clients"), []);
});

netnsTest(
  "two processes change nf_tables at once, and both succeed",
  async () => {
    await using temp = await tempNetns("nft");
    using netns = Netns.open(temp.path);
    let attempts = 0;
    const trace = {
      sent: (_: Uint8Array, ops: readonly string[]) => {
        if (ops.some((op) => op.startsWith("replace "))) attempts++;
      },
      received: () => {},
    };
    await using socket = NetfilterSocket.over(
      openNetlink(NETLINK_NETFILTER, { netns }),
      trace,
    );
    await socket.replaceTable(gateway([]));
    const other = temp.exec(
      "bash",
      "-c",
      `for i in $(seq 60); do
       nft "add table inet other$i" && nft "delete table inet other$i" || exit 1
     done`,
    );
    const done = new AbortController();
    const ended = awaitedLater(other.finally(() => done.abort()));
    attempts = 0;
    let replaced = 0;
    while (!done.signal.aborted) {
      replaced++;
      assert.equal(
        await socket.replaceTable(gateway(pairs(replaced % 7 + 1))),
        true,
      );
      await socket.changeSet({
        table: "gateway",
        set: "clients",
        add: pairs(3, 100),
        remove: pairs(2),
      });
    }
    await ended;
    assert(replaced > 20, `only ${replaced} replacements`);
    assert(attempts > replaced, "nobody ever came in between");
    assert.deepEqual(await socket.listTables(), ["gateway"]);
  },
);

netnsTest("many callers share a socket", async () => {
  await using temp = await tempNetns("nft");
  using netns = Netns.open(temp.path);
  await using socket = NetfilterSocket.open({ netns });
  await socket.replaceTable(gateway([]));
  await Promise.all(Array.from({ length: 50 }, (_, index) =>
    socket.changeSet({
      table: "gateway",
      set: "clients",
      add: pairs(2, index),
      remove: pairs(1, 1_000 + index),
    })));
  assert.equal((await socket.listSet("gateway", "clients")).length, 51);
});

netnsTest(
  "a client's table is in place within milliseconds of opening the socket",
  async () => {
    const addresses = [1, 2].map((n) => [Address.parse(`10.1.0.${n}`)]);
    const senders = (digit: 4 | 6) => ({
      name: `senders${digit}`,
      key: [digit === 4 ? "ipv4_addr" : "ipv6_addr"] as const,
      elements: digit === 4 ? addresses : [],
    });
    const table: NftTable = {
      ...gateway([]),
      sets: [senders(4), senders(6)],
      chains: [{
        name: "in",
        type: "filter",
        hook: "input",
        priority: -150,
        policy: "accept",
        rules: [
          nft.rule([
            nft.udpDport(5555),
            nft.inSet(["ip saddr"], "senders4"),
            nft.accept(),
          ]),
          nft.rule([
            nft.udpDport(5555),
            nft.inSet(["ip6 saddr"], "senders6"),
            nft.accept(),
          ]),
          nft.rule([nft.udpDport(5555), nft.counter("foreign"), nft.drop()]),
          nft.rule([
            nft.iifname("eth0"),
            nft.ctDirection("original"),
            nft.ctState("new", "established", "related"),
            nft.setCtMark(2),
          ]),
        ],
      }, {
        name: "out",
        type: "route",
        hook: "output",
        priority: -150,
        policy: "accept",
        rules: [nft.rule([nft.ctMark(2), nft.restoreMark()])],
      }],
    };
    const times: number[] = [];
    const again: number[] = [];
    for (let round = 0; round < 100; round++) {
      await using temp = await tempNetns("nft");
      using netns = Netns.open(temp.path);
      const start = performance.now();
      await using socket = NetfilterSocket.open({ netns });
      assert.equal(await socket.replaceTable(table), true);
      const between = performance.now();
      assert.equal(await socket.replaceTable(table), false);
      times.push(between - start);
      again.push(performance.now() - between);
    }
    const median = (values: number[]) =>
      values.sort((a, b) => a - b)[50] ?? NaN;
    const [first, second] = [median(times), median(again)];
    // deno-lint-ignore no-console -- figures are to be seen
    console.log(
      `  p50 of 100: ${first.toFixed(2)} ms, unchanged ${second.toFixed(2)} ms`,
    );
  },
);

netnsTest(
  "a table of 15,000 rules is one transaction like any other",
  async () => {
    await using temp = await tempNetns("nft");
    using netns = Netns.open(temp.path);
    await using socket = NetfilterSocket.open({ netns });
    const rules = Array.from({ length: 15_000 }, () => nft.rule([nft.drop()]));
    const chain = {
      name: "in" as const,
      type: "filter" as const,
      hook: "input" as const,
      priority: 0,
      policy: "accept",
    } as const;
    const common = { family: "inet", name: "t", counters: [] } as const;
    const table: NftTable = {
      ...common,
      sets: [],
      chains: [{ ...chain, rules }],
    };
    assert.equal(await socket.replaceTable(table), true);
    assert.equal(await socket.replaceTable(table), false);
  },
);
