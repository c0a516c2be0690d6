import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import {
  NETLINK_NETFILTER,
  Netns,
  openLibc,
  openNetlink,
} from "../../lib/linux/mod.ts";
import {
  formatTable,
  NetfilterSocket,
  NetlinkError,
  nft,
  type NftTable,
} from "../../lib/netlink/mod.ts";
import { EXAMPLE_TABLE } from "../../lib/netlink/netfilter/testing.ts";
import { listTable } from "./netfilter_testing.ts";
import { netnsTest, run, type TempNetns, tempNetns } from "./testing.ts";

openLibc();

/** Four addresses from 10.0.0.1 on. */
const ADDRESSES = [1, 2, 3, 4].map((n) => Address.parse(`10.0.0.${n}`));

/** A small table: a set with so many of the addresses, and a rule that looks it up. */
function smallTable(elements: readonly Address[]): NftTable {
  return {
    family: "inet",
    name: "small",
    counters: ["seen"],
    sets: [{
      name: "friends",
      key: ["ipv4_addr"],
      elements: elements.map((address) => [address]),
    }],
    chains: [{
      name: "incoming",
      type: "filter",
      hook: "input",
      priority: 0,
      policy: "accept",
      rules: [
        nft.rule([nft.inSet(["ip saddr"], "friends"), nft.accept()]),
        nft.rule([nft.counter("seen"), nft.accept()], { comment: "others" }),
      ],
    }],
  };
}

/** The table with the numbers that the kernel gave its parts: they change when a part is made anew. */
function handles(temp: TempNetns, table: string): Promise<string> {
  return temp.exec("nft", "-a", "-t", "list", "table", "inet", table);
}

async function setup(): Promise<
  AsyncDisposableStack & {
    readonly temp: TempNetns;
    readonly socket: NetfilterSocket;
  }
> {
  const stack = new AsyncDisposableStack();
  const temp = stack.use(await tempNetns("nft"));
  const netns = stack.use(Netns.open(temp.path));
  const socket = stack.use(NetfilterSocket.open({ netns }));
  return Object.assign(stack, { temp, socket });
}

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

/** What somebody else may do to a table, by its name; `flush ruleset` is a restart of nftables.service. */
const MEDDLING: Readonly<Record<string, string>> = {
  "adds a rule": "add rule inet small incoming drop",
  "puts a rule first": "insert rule inet small incoming drop",
  "removes all rules": "flush chain inet small incoming",
  "changes the policy":
    "chain inet small incoming { type filter hook input priority filter; policy drop; }",
  "adds a chain": "add chain inet small extra",
  "adds a set": "add set inet small extra { type ipv4_addr; }",
  "adds a counter": "add counter inet small extra",
  "puts the table to sleep": "add table inet small { flags dormant; }",
  "adds an element": "add element inet small friends { 10.9.9.9 }",
  "empties a set": "flush set inet small friends",
  "deletes the table": "delete table inet small",
  "flushes the ruleset": "flush ruleset",
};

for (const [what, command] of Object.entries(MEDDLING)) {
  netnsTest(
    `replaceTable() puts things right after somebody else ${what}`,
    async () => {
      await using test = await setup();
      const { temp, socket } = test;
      const table = smallTable(ADDRESSES);
      await socket.replaceTable(table);
      await temp.exec("nft", command);
      assert.equal(await socket.replaceTable(table), true);
      assert.equal(await listTable(temp, "small"), formatTable(table));
      assert.equal(await socket.replaceTable(table), false);
    },
  );
}

netnsTest(
  "replaceTable() notices a rule that was changed in its place",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const table = smallTable(ADDRESSES);
    await socket.replaceTable(table);
    const listed = await handles(temp, "small");
    const handle = /comment "others" # handle (\d+)/.exec(listed)?.[1] ?? "";
    await temp.exec(
      "nft",
      `replace rule inet small incoming handle ${handle} counter name "seen" drop comment "others"`,
    );
    assert.equal(await socket.replaceTable(table), true);
    assert.equal(await listTable(temp, "small"), formatTable(table));
  },
);

netnsTest(
  "tables of others stay as they are, also those that share the name",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    const table = smallTable(ADDRESSES);
    const others = `table ip small {
	set friends {
		type ipv4_addr
		elements = { 192.0.2.1 }
	}

	chain incoming {
		type filter hook input priority filter; policy accept;
		ip saddr @friends counter packets 7 bytes 70 accept
	}
}
table inet filter {
	counter seen {
		packets 5 bytes 50
	}

	chain input {
		type filter hook input priority filter; policy accept;
		iifname "eth9" counter name "seen" drop
	}
}
`;
    await temp.exec("nft", others);
    await socket.replaceTable(table);
    assert.equal(
      await temp.exec("nft", "list", "ruleset"),
      others + formatTable(table),
    );
    await socket.changeSet({
      table: "small",
      set: "friends",
      remove: [[Address.parse("192.0.2.1")]],
    });
    await socket.replaceTable({ ...table, chains: [] });
    await socket.deleteTable("small");
    assert.equal(await temp.exec("nft", "list", "ruleset"), others);
  },
);

netnsTest(
  "a table of our name that somebody else made becomes ours",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await temp.exec(
      "nft",
      `table inet small {
      map names { type ipv4_addr : mark; elements = { 10.0.0.1 : 1 } }
      set friends { type ipv6_addr; flags interval; elements = { fd00::/64 } }
      counter seen { packets 3 bytes 30 }
      chain incoming { type filter hook prerouting priority -5; ip6 saddr @friends drop; jump more; }
      chain more { meta mark set ip saddr map @names; }
    }`,
    );
    const table = smallTable(ADDRESSES);
    assert.equal(await socket.replaceTable(table), true);
    assert.equal(
      await listTable(temp, "small"),
      formatTable(table).replace("packets 0 bytes 0", "packets 3 bytes 30"),
    );
  },
);

netnsTest(
  "counters go on from where they were when the table is replaced",
  async () => {
    await using test = await setup();
    const { temp, socket } = test;
    await socket.replaceTable(smallTable([]));
    await temp.exec("ping", "-c3", "-i0.01", "-W2", "127.0.0.1");
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
    for (const { name, elements } of EXAMPLE_TABLE.sets) {
      const listed = await socket.listSet(EXAMPLE_TABLE.name, name);
      assert.deepEqual(
        listed.map((element) => element.join(" . ")).sort(),
        elements.map((element) => element.join(" . ")).sort(),
      );
    }
  },
);

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
