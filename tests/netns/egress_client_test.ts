// What of a client needs no tunnel: rules, and routes that refuse. The rest is
// in tests/vm.
import assert from "node:assert/strict";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import { TUNNEL_LINKS } from "../../lib/egress/kernel/tunnel_names.ts";
import { applyClient, clearClient, isClient } from "../../lib/egress/mod.ts";
import {
  applyCut,
  clientState,
  missingGateway,
  planOf,
  type PodLab,
  podLab,
  reach,
  shell,
} from "./egress_client_lab.ts";
import { netnsTest } from "./testing.ts";

const EVERYWHERE = missingGateway(["0.0.0.0/0", "::/0"]);

/** The rules of all priorities but the kernel's own, as `ip` shows them. */
async function rulesOf({ pod }: PodLab, family: Family): Promise<string[]> {
  const text = await pod.ip(family === "ipv4" ? "-4" : "-6", "rule", "show");
  return text.split("\n").map((line) => line.replaceAll(/\s+/g, " ").trim())
    .filter((line) => line !== "" && !/^(0|3276[67]):/.test(line));
}

const RULES: Readonly<Record<Family, readonly string[]>> = {
  ipv4: [
    "1800: from all to 169.254.0.0/16 lookup main",
    "1900: from all lookup 117",
    "2000: from all to 10.0.0.0/8 lookup main",
    "2001: from all to 172.16.0.0/12 lookup main",
    "2002: from all to 192.168.0.0/16 lookup main",
    "2100: from all lookup 118",
  ],
  ipv6: [
    "1800: from all to fe80::/10 lookup main",
    "1900: from all lookup 117",
    "2000: from all to fc00::/7 lookup main",
    "2100: from all lookup 118",
  ],
};

for (const families of [["ipv4"], ["ipv6"], ["ipv4", "ipv6"]] as const) {
  netnsTest(
    `KN-13: a client of ${
      families.join(" and ")
    } has upstream's rules, and is one from then on`,
    async () => {
      await using lab = await podLab();
      const { netns } = lab;
      assert.equal(await isClient({ netns }), false);
      const of = (family: Family) => families.some((each) => each === family);
      await lab.apply([
        missingGateway([
          ...(of("ipv4") ? ["0.0.0.0/0"] : []),
          ...(of("ipv6") ? ["::/0"] : []),
        ]),
      ]);
      assert.equal(await isClient({ netns }), true);
      for (const family of FAMILIES) {
        const expected = of(family) ? RULES[family] : [];
        assert.deepEqual(await rulesOf(lab, family), expected);
      }
      assert.equal(await clearClient({ netns }), true);
      assert.equal(await isClient({ netns }), false);
      assert.equal(await clearClient({ netns }), false);
      assert.equal(await clientState(lab.pod), "");
    },
  );
}

netnsTest("applyClient() does nothing the second time", async () => {
  await using lab = await podLab();
  const gateways = [missingGateway(["0.0.0.0/0", "10.5.0.0/16", "::/0"])];
  const first = await lab.apply(gateways);
  assert.notDeepEqual(first.changes, []);
  const state = await clientState(lab.pod);
  const second = await lab.apply(gateways);
  assert.deepEqual(second.changes, []);
  assert.equal(await clientState(lab.pod), state);
});

netnsTest(
  "W31: applyClient() removes what the last destination of a family left, and all with the last Egress",
  async () => {
    await using lab = await podLab();
    await lab.apply([missingGateway(["0.0.0.0/0", "::/0", "fd05::/16"])]);
    await lab.apply([missingGateway(["0.0.0.0/0"])]);
    assert.deepEqual(await rulesOf(lab, "ipv6"), []);
    assert.deepEqual(await rulesOf(lab, "ipv4"), RULES.ipv4);
    await lab.apply([]);
    assert.equal(await clientState(lab.pod), "");
  },
);

netnsTest(
  "an Egress that fails closed refuses at once, and nothing else",
  async () => {
    await using lab = await podLab();
    await lab.apply([EVERYWHERE]);
    for (const family of FAMILIES) {
      const started = performance.now();
      await assert.rejects(reach(lab, family), /No route to host/);
      // Connecting to what does not answer takes two minutes.
      assert.ok(performance.now() - started < 60_000);
    }
    // In the cluster, and past the pod's own gateway, all is as before.
    await lab.pod.exec("ping", "-c1", "-w20", "169.254.1.1");
    await lab.apply([missingGateway(["198.51.100.0/24", "2001:db8:8::/48"])]);
    for (const family of FAMILIES) await reach(lab, family);
  },
);

netnsTest(
  "an Egress that fails open lets packets pass while it is missing",
  async () => {
    await using lab = await podLab();
    await lab.apply([{ ...EVERYWHERE, failurePolicy: "Open" }]);
    for (const family of FAMILIES) await reach(lab, family);
  },
);

netnsTest(
  "what the Service alone has no address for is refused or passes, by the failure policy",
  async () => {
    await using lab = await podLab();
    for (const family of FAMILIES) {
      const other = family === "ipv4" ? "ipv6" : "ipv4";
      const egress = missingGateway([EVERY[family]], {
        service: { [other]: Address.parse(SERVICE[other]) },
        available: FAMILIES,
      });
      await lab.apply([egress]);
      await assert.rejects(reach(lab, family), /No route to host/);
      await reach(lab, other);
      await lab.apply([{ ...egress, failurePolicy: "Open" }]);
      await reach(lab, family);
    }
    assert.equal(await clientState(lab.pod), "");
  },
);

const EVERY = { ipv4: "0.0.0.0/0", ipv6: "::/0" } as const;
const SERVICE = { ipv4: "10.96.0.10", ipv6: "fd96::10" } as const;

netnsTest(
  "what others have made is untouched, from first to last",
  async () => {
    await using lab = await podLab();
    await shell(
      lab.pod,
      `ip rule add priority 1900 to 198.51.100.0/24 lookup 50
     ip rule add priority 2050 iif lo to 198.51.101.0/24 lookup main
     ip rule add priority 1000 fwmark 7 lookup 77
     ip rule add priority 150 lookup 118
     ip route add 198.51.100.0/24 dev lo table 50
     ip route add 198.51.100.0/24 dev lo table 1077
     ip link add fou4_mine type bridge
     nft add table inet mine
     nft add chain inet mine input "{ type filter hook input priority -150; }"
     nft add rule inet mine input counter
     nft add table ip coil`,
    );
    const others = async () =>
      await shell(
        lab.pod,
        `ip rule show | grep -E '^(150|1000|1900|2050):' | grep -Ev 'lookup 117|lookup 10[0-9][0-9]'
       ip route show table 50; ip route show table 1077; ip route show table main
       ip link show fou4_mine | grep -o '^[0-9]*: fou4_mine'
       nft list table inet mine | sed 's/packets.*//'; nft list table ip coil`,
      );
    const before = await others();
    await lab.apply([EVERYWHERE]);
    assert.equal(await others(), before);
    await lab.apply([missingGateway(["198.51.100.0/24"])]);
    assert.equal(await others(), before);
    assert.equal(await clearClient({ netns: lab.netns }), true);
    assert.equal(await others(), before);
    assert.equal(await isClient({ netns: lab.netns }), false);
  },
);

netnsTest(
  "rules and routes that are there twice, or half, are set right",
  async () => {
    await using lab = await podLab();
    await lab.apply([EVERYWHERE]);
    const wanted = await clientState(lab.pod);
    const damage = [
      "ip rule delete priority 2001; ip -6 rule delete priority 2100",
      "ip rule delete priority 2100; ip rule add priority 2100 to 0.0.0.0/1 lookup 118",
      "ip rule add priority 2003 to 100.64.0.0/10 lookup main",
      "ip route flush table 118; ip -6 route flush table 118",
      "ip route add unreachable 192.0.2.0/24 table 117; ip route add default dev eth0 table 118",
      "ip -6 route replace prohibit default metric 4096 table 118",
    ];
    for (const script of damage) {
      await shell(lab.pod, script);
      assert.notEqual(await clientState(lab.pod), wanted, script);
      await lab.apply([EVERYWHERE]);
      assert.equal(await clientState(lab.pod), wanted, script);
    }
  },
);

netnsTest(
  "what another program removes at the same time is no failure",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    await lab.apply([EVERYWHERE]);
    const { signal } = new AbortController();
    // It is asked before each step, after all has been read.
    signal.throwIfAborted = () => {
      const args = ["-n", pod.name, "rule", "delete", "priority", "1900"];
      new Deno.Command("ip", { args }).outputSync();
    };
    await applyClient(planOf([]), { netns, signal });
    assert.equal(await clientState(pod), "");
  },
);

/** Makes a client with a tunnel, which only a kernel with FoU can do. */
async function applyTunnel(lab: PodLab): Promise<void> {
  const gateway = missingGateway(["203.0.113.0/24"], {
    service: { ipv4: Address.parse("10.68.0.9") },
    available: ["ipv4"],
  });
  const { code } = await lab.pod.tryExec("ip", "fou", "show");
  const expected = code === 0 ? undefined : "FouUnsupportedError";
  const failure = await lab.apply([gateway])
    .then(() => undefined, (error: Error) => error.name);
  assert.equal(failure, expected);
}

netnsTest("a tunnel that the kernel cannot make is explained", async () => {
  await using lab = await podLab();
  await applyTunnel(lab);
});

netnsTest(
  "a call that is cut off after any step leaves nothing that the next one cannot set right",
  async () => {
    await using lab = await podLab();
    const { netns } = lab;
    const plan = planOf([EVERYWHERE]);
    for (let steps = 0;; steps++) {
      const cut = await applyCut(plan, { netns, steps });
      await lab.apply([EVERYWHERE]);
      assert.deepEqual(
        (await lab.apply([EVERYWHERE])).changes,
        [],
      );
      // And the other way: nothing is left of a client whose removal was cut off.
      await applyCut(planOf([]), { netns, steps });
      await lab.apply([]);
      assert.equal(await clientState(lab.pod), "");
      if (!cut) break;
    }
  },
);

netnsTest(
  "a link of another kind in a tunnel's place goes before the tunnel comes",
  async () => {
    await using lab = await podLab();
    const { receiver } = TUNNEL_LINKS.ipv4;
    await lab.pod.ip("link", "add", receiver, "type", "bridge");
    await applyTunnel(lab);
    assert.equal(await lab.pod.ip("link", "show", "type", "bridge"), "");
    assert.doesNotMatch(await clientState(lab.pod), /203\.0\.113\.0\/24 dev/);
  },
);
