// Another program removes what makes a gateway, in the gateway's own network.
import assert from "node:assert/strict";
import { KernelSync } from "../../roles/coil_egress/kernel/kernel_sync.ts";
import { watchPlane } from "../../roles/coil_egress/kernel/plane_watch.ts";
import { assertSoon, eventually } from "../lab/mod.ts";
import { ADDRESSES, CLIENTS, egressLab } from "./egress_server_lab.ts";

/** Only notifications lead to repairs: the periodic check comes when the test is over. */
const LOOK_MS = 3_600_000;

/** Until all is back. One second is the aim. */
const MAX_BACK_MS = 5_000;

Deno.test("a gateway survives another program that changes its network", async (t) => {
  await using lab = await egressLab();
  const server = await lab.open();
  const wanted = new Map(CLIENTS.map((client) => [`${client}`, client]));
  const sync = new KernelSync({
    kernel: {
      setClients: async (all) => void await server.setClients(all),
      changeClients: async (change) => void await server.changeClients(change),
    },
    wanted: () => wanted,
  });

  await t.step("a missing table is noticed, and made again", async () => {
    await server.setClients(CLIENTS);
    await lab.gateway.exec("nft", "flush ruleset");
    assert.deepEqual(await server.findDamage(), [
      'nftables table "inet coil" is missing',
    ]);
    await server.setClients(CLIENTS);
    assert.deepEqual(await server.findDamage({ table: true }), []);
  });

  const stop = new AbortController();
  const { signal } = stop;
  const repaired = { count: 0 };
  const running = [
    sync.run(signal),
    sync.flushed({ signal }).then(() =>
      watchPlane({
        sync,
        signal,
        lookMs: LOOK_MS,
        upkeep: {
          findDamage: (options) => server.findDamage(options),
          watch: () => server.watch(),
          watchTable: () => server.watchTable(),
        },
        onRepair: () => void repaired.count++,
      })
    ),
  ];
  await sync.flushed({ signal });
  assert.deepEqual(await server.findDamage(), []);

  const restored = async (name: string, before: number) => {
    const ms = await assertSoon(
      () =>
        eventually("everything to be there again", async () => {
          return repaired.count > before &&
            (await server.findDamage({ table: true })).length === 0;
        }),
      { what: name, limitMs: MAX_BACK_MS },
    );
    // deno-lint-ignore no-console -- a figure
    console.log(`${name}: ${Math.round(ms)} ms`);
  };
  const attacks: Readonly<Record<string, readonly (readonly string[])[]>> = {
    "its rules are deleted": [
      ["-4", "rule", "del", "pref", "2000"],
      ["-6", "rule", "del", "pref", "2000"],
    ],
    "its routes are flushed": [
      ["-4", "route", "flush", "table", "118"],
      ["-6", "route", "flush", "table", "118"],
    ],
    "its tunnel is set down": [["link", "set", "coil_fou4", "down"]],
    "its tunnel is deleted": [["link", "del", "coil_fou6"]],
  };
  for (const [name, commands] of Object.entries(attacks)) {
    await t.step(name, async () => {
      const before = repaired.count;
      for (const command of commands) await lab.gateway.ip(...command);
      await restored(name, before);
      const route = await lab.gateway.ip(
        ...["route", "show", "table", "118", ADDRESSES.client.ipv4],
      );
      assert.match(route, /coil_fou4/);
    });
  }

  await t.step("forwarding is switched off", async () => {
    await lab.gateway.exec("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward");
    const forwarding = async () => {
      const path = "/proc/sys/net/ipv4/ip_forward";
      return (await lab.gateway.exec("cat", path)).trim() === "1";
    };
    const what = "forwarding";
    const limitMs = MAX_BACK_MS;
    await assertSoon(() => eventually(what, forwarding), { what, limitMs });
  });

  const changes: Readonly<Record<string, string>> = {
    "the packet filter is flushed": "flush ruleset",
    "its table is deleted": "delete table inet coil",
    "its translation is deleted": "flush chain inet coil source_nat",
    "its guard is bypassed": "insert rule inet coil guard accept",
    "its clients are deleted": "flush set inet coil clients4",
  };
  for (const [name, command] of Object.entries(changes)) {
    await t.step(name, async () => {
      const before = repaired.count;
      await lab.gateway.exec("nft", command);
      await restored(name, before);
    });
  }

  stop.abort();
  await Promise.allSettled(running);
});
