// Another program removes what makes a gateway, in the gateway's own network.
import assert from "node:assert/strict";
import { KernelSync } from "../../roles/coil_egress/kernel_sync.ts";
import { watchPlane } from "../../roles/coil_egress/plane_watch.ts";
import { eventually } from "../lab/mod.ts";
import { ADDRESSES, CLIENTS, egressLab } from "./egress_server_lab.ts";

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
  const stop = new AbortController();
  const { signal } = stop;
  const repaired = { count: 0 };
  const running = [
    sync.run(signal),
    sync.flushed({ signal }).then(() =>
      watchPlane({
        ...{ sync, signal },
        upkeep: {
          findDamage: () => server.findDamage(),
          watch: () => server.watch(),
        },
        onRepair: () => void repaired.count++,
      })
    ),
  ];
  await sync.flushed({ signal });
  assert.deepEqual(await server.findDamage(), []);

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
      const began = performance.now();
      await eventually("everything to be there again", async () => {
        return repaired.count > before &&
          (await server.findDamage()).length === 0;
      });
      // deno-lint-ignore no-console -- a figure
      console.log(`${name}: ${Math.round(performance.now() - began)} ms`);
      const route = await lab.gateway.ip(
        ...["route", "show", "table", "118", ADDRESSES.client.ipv4],
      );
      assert.match(route, /coil_fou4/);
    });
  }

  await t.step("forwarding is switched off", async () => {
    await lab.gateway.exec("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward");
    await eventually("forwarding", async () => {
      const path = "/proc/sys/net/ipv4/ip_forward";
      return (await lab.gateway.exec("cat", path)).trim() === "1";
    });
  });

  await t.step("its nftables table is deleted", async () => {
    await lab.gateway.exec("nft", "flush", "ruleset");
    // The kernel's routing says nothing of it: the look of every 30 s finds it.
    assert.deepEqual(await server.findDamage(), [
      'nftables table "inet coil" is missing',
    ]);
    await sync.repair({ signal });
    assert.deepEqual(await server.findDamage(), []);
    await lab.gateway.exec("nft", "list", "table", "inet", "coil");
  });

  stop.abort();
  await Promise.allSettled(running);
});
