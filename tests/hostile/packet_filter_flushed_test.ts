// Another program empties the packet filter, as `systemctl restart nftables` does.
import assert from "node:assert/strict";
import {
  type Coild,
  CoildLab,
  fromSources,
  inPod,
} from "../apiserver/coild_lab.ts";
import { assertSoon, atRest, eventually, sleep } from "../lab/mod.ts";

const HEARING = new URL("./hearing_main.ts", import.meta.url).pathname;
/** Until the table is back. Measured: 30 to 200 ms. */
const MAX_GAP_MS = 5_000;
const TABLE = "inet coil-node";

/** No pod's: in IPv6 nothing but the table drops it. */
const FORGED = "2001:db8:7::7";

/** Counts the packets of the forged source that the node lets through, from 0. */
const WATCH = `
add table ip6 passed
delete table ip6 passed
add table ip6 passed
add chain ip6 passed out { type filter hook postrouting priority 300; }
add counter ip6 passed forged
add rule ip6 passed out ip6 saddr ${FORGED} counter name forged
`;

/** As kube-proxy changes its table. */
const CHURN = `
add table inet kube
add chain inet kube c
add rule inet kube c accept
add set inet kube s { type ipv4_addr; }
add element inet kube s { 10.0.0.1 }
delete table inet kube
`;

function repairs(coild: Coild): Promise<number | undefined> {
  return coild.metric('coil_coild_repairs_total{what="sources"}');
}

/** Resolves when the table is there again. */
async function restored(coild: Coild, before: number): Promise<void> {
  await eventually("the table to be put back", async () => {
    return (await repairs(coild) ?? 0) > before;
  });
}

/** How often coild has looked at its table. */
async function looks(coild: Coild): Promise<number> {
  const text = await coild.process.logs();
  return text.split(`list rules of table "${TABLE}"`).length - 1;
}

Deno.test("pods cannot forge sources for longer than a moment when another program flushes the packet filter", async (t) => {
  await using lab = await CoildLab.start({ name: "hostileflush" });
  const node = lab.node();
  await lab.createPool("default", [{ ipv6: "fd02::141:0/120" }]);
  lab.granter.start();
  await using coild = await lab.startCoild(node, [], {
    command: fromSources(HEARING, "coild"),
    env: { NETLINK_TRACE: "1" },
  });
  const attacker = await lab.createPod("attacker");
  const victim = await lab.createPod("victim");
  await coild.add(attacker);
  const [to = ""] = await coild.addresses(victim);
  const nft = (text: string) => node.run("nft", text);
  const forged = async () => {
    const text = await nft("list counter ip6 passed forged");
    return Number(/packets (\d+)/.exec(text)?.[1]);
  };

  // A flood with a source that is not the pod's.
  await inPod(
    attacker,
    "ip",
    "addr",
    "add",
    `${FORGED}/128`,
    "dev",
    "eth0",
    "nodad",
  );
  const flood = new Deno.Command("nsenter", {
    args: [
      ...[`--net=/run/netns/${attacker.netns}`, "ping", "-q", "-i", "0.002"],
      ...["-I", FORGED, "-w", "3600", to],
    ],
    stdout: "null",
    stderr: "null",
  }).spawn();
  await using _flood = {
    async [Symbol.asyncDispose]() {
      try {
        flood.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await flood.status;
    },
  };

  await t.step("the flood passes while nobody restores the table", async () => {
    coild.process.signal("SIGSTOP");
    try {
      await nft(`delete table ${TABLE}\n${WATCH}`);
      await eventually("forged packets", async () => await forged() > 100);
    } finally {
      coild.process.signal("SIGCONT");
    }
    await restored(coild, 0);
  });

  const attacks: Readonly<Record<string, string>> = {
    "all of it": "flush ruleset",
    "the table": `delete table ${TABLE}`,
    "the rules of the chain": `flush chain ${TABLE} pod-sources`,
    "the check, by a rule before it": `insert rule ${TABLE} pod-sources accept`,
  };
  for (const [name, command] of Object.entries(attacks)) {
    await t.step(`${name}: it is back at once, under a flood`, async () => {
      const before = await repairs(coild) ?? 0;
      const ms = await assertSoon(async () => {
        await nft(`${command}\n${WATCH}`);
        await restored(coild, before);
      }, { what: "the table to be put back", limitMs: MAX_GAP_MS });
      // deno-lint-ignore no-console -- a figure
      console.log(`${name}: ${Math.round(ms)} ms, ${await forged()} passed`);
      const passed = await forged();
      await sleep(100);
      assert.equal(await forged(), passed);
      assert.equal(await coild.metric("coil_coild_source_validation"), 1);
    });
  }

  await t.step("others' tables, ADD and DEL cause no look", async () => {
    // Those at what it has put back are over.
    const before = await atRest("its looks", () => looks(coild));
    assert.ok(before > 0);
    for (let round = 0; round < 50; round++) {
      await nft(CHURN);
    }
    const other = await lab.createPod("other");
    await coild.add(other);
    await coild.del(other);
    await sleep(200);
    assert.equal(await looks(coild), before);
  });
});
