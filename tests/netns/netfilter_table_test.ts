import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { NETLINK_NETFILTER, Netns, openNetlink } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  NetlinkError,
  nft,
  type NftTable,
  prepareRefill,
  prepareTable,
} from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import { EXAMPLE_TABLE } from "../../lib/netlink/netfilter/testing.ts";
import {
  ADDRESSES,
  handles,
  setup,
  smallTable,
} from "./netfilter_small_table.ts";
import { listTable } from "./netfilter_testing.ts";
import { netnsTest, run, tempNetns } from "./testing.ts";

netnsTest(
  "replaceTable() makes, leaves alone and changes; deleteTable() removes",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    assert.equal(await socket.tableExists("small"), false);
    assert.equal(await socket.deleteTable("small"), false);
    assert.deepEqual(await socket.listTables(), []);

    const first = smallTable(ADDRESSES.slice(0, 2));
    assert.equal(await socket.replaceTable(first), true);
    assert.equal(await listTable(temp, "small"), formatTable(first));
    assert.equal(await socket.replaceTable(first), false);
    assert.deepEqual(await socket.listTables(), ["small"]);
    assert.equal(await socket.tableExists("small"), true);

    const other = { ...first, chains: [] };
    assert.equal(await socket.replaceTable(other), true);
    assert.equal(await listTable(temp, "small"), formatTable(other));

    assert.equal(await socket.deleteTable("small"), true);
    assert.equal(await socket.deleteTable("small"), false);
    assert.equal(await temp.exec("nft", "list", "ruleset"), "");
  },
);

netnsTest(
  "createTable() makes what replaceTable() does, and nothing where there is a table; compareTable() tells how they differ",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const wanted = smallTable(ADDRESSES.slice(0, 2));
    const ready = prepareTable(wanted);
    assert.equal(await socket.createTable(ready), true);
    assert.equal(await listTable(temp, "small"), formatTable(wanted));
    assert.deepEqual(await socket.compareTable(wanted), []);
    assert.equal(await socket.replaceTable(wanted), false);
    const other = { ...wanted, chains: [] };
    assert.equal(await socket.createTable(prepareTable(other)), false);
    assert.equal(await listTable(temp, "small"), formatTable(wanted));
    await temp.exec("nft", "flush", "table", "inet", "small");
    const [first = ""] = await socket.compareTable(wanted);
    assert.match(first, /chain|rule/);
    // The same one once more, to another namespace as well.
    await socket.deleteTable("small");
    assert.equal(await socket.createTable(ready), true);
    await using second = await setup();
    assert.equal(await second.socket.createTable(ready), true);
    assert.equal(await listTable(second.temp, "small"), formatTable(wanted));
  },
);

netnsTest(
  "refillTable() changes what it names and nothing else, and nothing at all where one of it is missing",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const before = smallTable(ADDRESSES.slice(0, 2));
    const refilled = {
      ...smallTable(ADDRESSES.slice(1, 4)),
      chains: before.chains.map((chain) => ({
        ...chain,
        rules: chain.rules.slice(0, 1),
      })),
    };
    const parts = { sets: ["friends"], chains: ["incoming"] };
    const refill = prepareRefill(refilled, parts);
    assert.equal(await socket.refillTable(refill), false, "no table");
    await socket.replaceTable({ ...before, chains: [] });
    assert.equal(await socket.refillTable(refill), false, "no chain");
    assert.equal(
      await listTable(temp, "small"),
      formatTable({ ...before, chains: [] }),
    );
    await socket.replaceTable(before);
    for (const _again of [1, 2]) {
      assert.equal(await socket.refillTable(refill), true);
      assert.equal(await listTable(temp, "small"), formatTable(refilled));
    }
    const onlySet = prepareRefill(before, { ...parts, chains: [] });
    assert.equal(await socket.refillTable(onlySet), true);
    assert.equal(
      await listTable(temp, "small"),
      formatTable({ ...before, chains: refilled.chains }),
    );
  },
);

netnsTest(
  "replaceTable() sends only elements when only these differ",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await socket.replaceTable(smallTable(ADDRESSES.slice(0, 2)));
    const before = await handles(temp, "small");
    const next = smallTable(ADDRESSES.slice(1, 4));
    assert.equal(await socket.replaceTable(next), true);
    assert.equal(await listTable(temp, "small"), formatTable(next));
    assert.equal(await handles(temp, "small"), before);
    assert.equal(await socket.replaceTable(smallTable([])), true);
    assert.equal(await listTable(temp, "small"), formatTable(smallTable([])));
    assert.equal(await handles(temp, "small"), before);
  },
);

netnsTest(
  "a table that already is as planned gets not one message of change",
  async () => {
    await using temp = await tempNetns("nft");
    using netns = Netns.open(temp.path);
    const sent: string[] = [];
    const trace = {
      sent: (_: Uint8Array, ops: readonly string[]) => void sent.push(...ops),
      received: () => {},
    };
    const open = () =>
      NetfilterSocket.over(openNetlink(NETLINK_NETFILTER, { netns }), trace);
    {
      await using socket = open();
      await socket.replaceTable(EXAMPLE_TABLE);
    }
    const before = await handles(temp, EXAMPLE_TABLE.name);
    assert(sent.some((op) => op.startsWith("add rule ")));
    sent.length = 0;
    await using restarted = open();
    assert.equal(await restarted.replaceTable(EXAMPLE_TABLE), false);
    assert.deepEqual(sent.filter((op) => !/^(get|list|read) /.test(op)), []);
    assert.equal(await handles(temp, EXAMPLE_TABLE.name), before);
  },
);

netnsTest(
  "counters go on from where they were when the table is replaced",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await socket.replaceTable(smallTable([]));
    await temp.exec("ping", "-c3", "-i0.01", "-W10", "127.0.0.1");
    const before = await socket.readCounters("small");
    assert.deepEqual(before.get("seen"), { packets: 6n, bytes: 6n * 84n });
    const more = { ...smallTable([]), counters: ["another", "seen"] };
    assert.equal(await socket.replaceTable(more), true);
    assert.deepEqual(
      [...await socket.readCounters("small")].sort(),
      [["another", { packets: 0n, bytes: 0n }], ["seen", before.get("seen")]],
    );
    assert.deepEqual([...await socket.readCounters("nowhere")], []);
  },
);

netnsTest(
  "changeSet() does not mind what is there or absent already",
  async () => {
    await using test = await setup();
    const { socket } = test;
    await socket.replaceTable(smallTable(ADDRESSES.slice(0, 2)));
    const target = { table: "small", set: "friends" };
    const elements = ADDRESSES.map((address) => [address]);
    const listed = async () =>
      (await socket.listSet("small", "friends")).map(String).sort();
    await socket.changeSet({ ...target, add: elements.slice(0, 3) });
    assert.deepEqual(await listed(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    await socket.changeSet({
      ...target,
      add: elements.slice(3),
      remove: [...elements.slice(0, 2), [Address.parse("10.0.0.9")]],
    });
    assert.deepEqual(await listed(), ["10.0.0.3", "10.0.0.4"]);
    await socket.changeSet({ ...target, add: elements, remove: elements });
    assert.equal((await listed()).length, 4);
    await socket.changeSet({ ...target, remove: [...elements, ...elements] });
    assert.deepEqual(await listed(), []);
    await socket.changeSet(target);
  },
);

netnsTest(
  "listSet() gives back what every kind of set was made with",
  async () => {
    await using test = await setup();
    const { socket } = test;
    await socket.replaceTable(EXAMPLE_TABLE);
    for (const { name, key, elements } of EXAMPLE_TABLE.sets) {
      const listed = await socket.listSet(EXAMPLE_TABLE.name, name);
      assert.deepEqual(
        listed.map((element) => element.join(" . ")).sort(),
        elements.map((element) => element.slice(0, key.length).join(" . "))
          .sort(),
      );
    }
  },
);

netnsTest(
  "what rules have added to a set stays when the table is replaced, unless the set is another",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const table = (size: number): NftTable => ({
      family: "inet",
      name: "t",
      counters: [],
      sets: [
        { name: "seen", key: ["ipv4_addr"], elements: [], dynamic: { size } },
      ],
      chains: [{
        name: "c",
        type: "filter",
        hook: "input",
        priority: 0,
        policy: "accept",
        rules: [nft.rule([nft.addToSet(["ip daddr"], "seen")])],
      }],
    });
    const seen = async () => (await socket.listSet("t", "seen")).map(String);
    assert.equal(await socket.replaceTable(table(10)), true);
    await temp.exec("ping", "-c1", "-w20", "127.0.0.1");
    assert.deepEqual(await seen(), ["127.0.0.1"]);
    assert.equal(await socket.replaceTable(table(10)), false);
    assert.deepEqual(await seen(), ["127.0.0.1"]);
    assert.equal(await socket.replaceTable(table(11)), true);
    assert.deepEqual(await seen(), []);
    assert.equal(await socket.replaceTable(table(11)), false);
  },
);

netnsTest("listSet() says so when the set has everybody in it", async () => {
  await using test = await setup();
  const { temp, socket } = test;
  await socket.replaceTable(smallTable(ADDRESSES));
  await temp.exec("nft", "add element inet small friends { * }");
  await assert.rejects(
    socket.listSet("small", "friends"),
    /^TypeError: Cannot list set "friends" of table "inet small": it has an element "\*"/,
  );
});

netnsTest(
  "what the kernel refuses changes nothing, and the error says what it was",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const table = smallTable(ADDRESSES);
    await socket.replaceTable(table);
    const before = await handles(temp, "small");
    const clamp = nft.rule([nft.clampMss()]);
    const wrong = {
      ...table,
      chains: table.chains.map((chain) => ({ ...chain, rules: [clamp] })),
    };
    await assert.rejects(socket.replaceTable(wrong), (error) => {
      assert(error instanceof NetlinkError);
      assert.equal(
        error.message,
        'Cannot add rule "tcp flags syn / syn,rst tcp option maxseg size set rt mtu" ' +
          'to chain "incoming" of table "inet small": kernel returned EOPNOTSUPP',
      );
      return true;
    });
    assert.equal(await handles(temp, "small"), before);

    const [element] = [[Address.parse("fd00::1")]];
    const change = (set: string) =>
      socket.changeSet({ table: "small", set, add: [element] });
    await assert.rejects(
      change("friends"),
      /^NetlinkError: Cannot add 1 elements to set "friends" of table "inet small": kernel returned EINVAL/,
    );
    await assert.rejects(change("nobody"), { code: "ENOENT" });
    await assert.rejects(socket.listSet("small", "nobody"), { code: "ENOENT" });
    await assert.rejects(socket.listSet("nowhere", "friends"), {
      code: "ENOENT",
      message:
        'Cannot get set "friends" of table "inet nowhere": kernel returned ENOENT',
    });
  },
);

netnsTest(
  "without CAP_NET_ADMIN the error says what was attempted",
  async () => {
    const root = new URL("../../", import.meta.url);
    const file = await Deno.makeTempFile({ suffix: ".ts" });
    try {
      await Deno.writeTextFile(
        file,
        `import { NetfilterSocket } from "${root}lib/netlink/mod.ts";
      await using socket = NetfilterSocket.open();
      const table = { family: "inet", name: "small", counters: [], sets: [], chains: [] };
      for (const attempt of [
        () => socket.replaceTable(table),
        () => socket.deleteTable("small"),
        () => socket.readCounters("small"),
      ]) await attempt().catch((error) => console.log(error.message));`,
      );
      const output = await run("setpriv", [
        "--bounding-set=-net_admin",
        Deno.execPath(),
        "run",
        "-A",
        "--no-check",
        "--unstable-lazy-dynamic-imports",
        `--config=${root.pathname}deno.json`,
        file,
      ]);
      assert.deepEqual(output.trim().split("\n"), [
        'Cannot read table "inet small": kernel returned EPERM',
        'Cannot delete table "inet small": kernel returned EPERM',
        'Cannot list counters of table "inet small": kernel returned EPERM',
      ]);
    } finally {
      await Deno.remove(file);
    }
  },
);

netnsTest(
  "replaceTable() makes a table as planned again to which very many rules were added",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const wanted = smallTable(ADDRESSES.slice(0, 2));
    await socket.replaceTable(wanted);
    const [chain] = wanted.chains;
    const rule = `add rule inet small ${chain?.name} accept\n`;
    const file = await Deno.makeTempFile();
    await Deno.writeTextFile(file, rule.repeat(10_500));
    await temp.exec("nft", "-f", file);
    await Deno.remove(file);
    assert.equal(await socket.replaceTable(wanted), true);
    assert.equal(await listTable(temp, "small"), formatTable(wanted));
    assert.equal(await socket.replaceTable(wanted), false);
  },
);

netnsTest(
  "replaceTable() makes a table as planned again to whose set very many elements were added",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const wanted = smallTable(ADDRESSES.slice(0, 2));
    await socket.replaceTable(wanted);
    const first = Address.parse("10.0.0.0");
    const lines = Array.from({ length: 60_000 }, (_, i) => {
      const element = first.offset(BigInt(i));
      return `add element inet small friends { ${element} }\n`;
    });
    const file = await Deno.makeTempFile();
    await Deno.writeTextFile(file, lines.join(""));
    await temp.exec("nft", "-f", file);
    await Deno.remove(file);
    assert.ok((await socket.listSet("small", "friends")).length >= 60_000);
    const some = await socket.listSet("small", "friends", { planned: 2 });
    assert.ok(some.length > 1_000 && some.length < 30_000, `${some.length}`);
    assert.equal(await socket.replaceTable(wanted), true);
    assert.equal(await listTable(temp, "small"), formatTable(wanted));
    assert.equal(await socket.replaceTable(wanted), false);
  },
);
