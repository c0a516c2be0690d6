import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  nft,
  type NftTable,
  TableMonitor,
  type TableNotification,
} from "../../lib/netlink/mod.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const TABLE: NftTable = {
  family: "inet",
  name: "ours",
  counters: [],
  sets: [{ name: "few", key: ["ipv4_addr"], elements: [] }],
  chains: [{
    name: "input",
    type: "filter",
    hook: "input",
    priority: 0,
    policy: "accept",
    rules: [nft.rule([nft.nfproto("ipv6"), nft.drop()])],
  }],
};

/** Churn of other tables, one of our name in another family among them. */
const FOREIGN = `
add table inet other
add chain inet other input { type filter hook input priority 5; }
add rule inet other input ip saddr 10.0.0.1 drop
add set inet other ours { type ipv4_addr; }
add element inet other ours { 10.0.0.1, 10.0.0.2 }
add table inet ours2
add table inet our
add table ip ours
add chain ip ours input
delete table inet other
delete table inet ours2
delete table inet our
delete table ip ours
`;

/** What the monitor tells within a while; at once when something comes. */
async function told(
  monitor: TableMonitor,
  ms: number,
): Promise<TableNotification[]> {
  const signal = AbortSignal.timeout(ms);
  try {
    for (;;) {
      const found = await monitor.next({ signal });
      if (found.length > 0) return found;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    return [];
  }
}

function change(host: TempNetns, text: string): Promise<string> {
  return host.exec("nft", text);
}

netnsTest(
  "TableMonitor tells what others do to its table, and nothing else",
  async () => {
    await using host = await tempNetns("nftmon");
    using netns = Netns.open(host.path);
    await using own = NetfilterSocket.open({ netns });
    await using monitor = TableMonitor.open({
      netns,
      table: "ours",
      ignoredPortIds: [own.portId],
    });

    // Our own changes, and the reading of the table.
    await own.replaceTable(TABLE);
    await own.compareTable(TABLE);
    await own.changeSet({
      table: "ours",
      set: "few",
      add: [[Address.parse("10.0.0.1")]],
    });
    await change(host, FOREIGN);
    await change(host, "list ruleset");
    assert.deepEqual(await told(monitor, 300), []);

    for (
      const text of [
        "delete element inet ours few { 10.0.0.1 }",
        "insert rule inet ours input accept",
        "flush chain inet ours input",
        "delete chain inet ours input",
        "delete set inet ours few",
        "delete table inet ours",
      ]
    ) {
      // In one transaction with changes of others, which come first.
      await change(host, `${FOREIGN}${text}`);
      const found = await told(monitor, 60_000);
      assert.ok(found.length > 0, text);
      assert.ok(found.every(({ kind }) => kind === "table"), text);
    }
    await own.replaceTable(TABLE);
    await change(host, "flush ruleset");
    assert.notDeepEqual(await told(monitor, 60_000), []);
  },
);

netnsTest("TableMonitor says when it missed something", async () => {
  await using host = await tempNetns("nftmon");
  using netns = Netns.open(host.path);
  await using monitor = TableMonitor.open({
    netns,
    table: "ours",
    receiveBufferBytes: 4096,
  });
  const rules = Array.from(
    { length: 2_000 },
    (_, i) =>
      `add rule inet other input ip saddr 10.0.${i >> 8}.${i & 255} drop`,
  );
  const TABLE = "add table inet other\nadd chain inet other input\n";
  await change(host, `${TABLE}${rules.join("\n")}`);
  assert.ok(
    (await told(monitor, 60_000)).some(({ kind }) => kind === "overflow"),
  );
  while ((await told(monitor, 1_000)).length > 0);
  // It goes on.
  await change(host, "add table inet ours");
  assert.deepEqual(await told(monitor, 60_000), [{ kind: "table" }]);
});
