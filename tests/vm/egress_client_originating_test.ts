// Originating-only mode: connections from outside are answered by the way they
// came, only what the pod itself begins goes through a gateway.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  answers,
  clientState,
  connectIn,
  HOSTS,
  listenIn,
  missingGateway,
  type PodLab,
  podLab,
  reach,
  shell,
  visit,
} from "../netns/egress_client_lab.ts";

/** Nothing that the pod begins gets anywhere. */
const EVERYWHERE = missingGateway(["0.0.0.0/0", "::/0"]);
const ORIGINATING = { originatingOnly: true };

Deno.test(
  "KN-14 W32: originating-only is turned on and off live, and answers go out by the way the question came",
  async () => {
    await using lab = await podLab();
    await lab.apply([EVERYWHERE]);
    for (const family of FAMILIES) assert.ok(!await answers(lab, family));
    await lab.apply([EVERYWHERE], ORIGINATING);
    for (const family of FAMILIES) {
      assert.ok(await answers(lab, family));
      using visitor = await visit(lab, family);
      await visitor.talk();
      // What the pod itself begins is refused still.
      await assert.rejects(
        reach(lab, family),
        /EHOSTUNREACH|No route to host/i,
      );
    }
    const state = await clientState(lab.pod);
    assert.match(state, /^1000:\s+from all fwmark eth0 lookup of-eth0$/m);
    assert.match(
      state,
      /^default via 169.254.1.1 dev eth0 table of-eth0 proto 30$/m,
    );
    assert.match(
      state,
      /iifname "eth0" ct direction original ct mark set eth0$/m,
    );
    await lab.apply([EVERYWHERE]);
    assert.doesNotMatch(await clientState(lab.pod), /1000:|of-eth0|table inet/);
    for (const family of FAMILIES) assert.ok(!await answers(lab, family));
  },
);

Deno.test(
  "W32: connections from before originating-only was turned on are answered too",
  async () => {
    await using lab = await podLab();
    using visitor = await visit(lab, "ipv4");
    await lab.apply([EVERYWHERE], ORIGINATING);
    await visitor.talk();
  },
);

Deno.test(
  "originating-only does not keep a connection of the pod's own outside the tunnels",
  async () => {
    await using lab = await podLab();
    const { netns, outsideNetns } = lab;
    using listener = listenIn(outsideNetns, "ipv4");
    const to = { hostname: HOSTS.outside.ipv4, port: listener.addr.port };
    await using _tracked = await trackConnections(lab);
    using own = await connectIn(netns, to);
    using outside = await listener.accept();
    await lab.apply([EVERYWHERE], ORIGINATING);
    // Its packets from outside come in by eth0, as those of visitors do.
    await outside.write(new Uint8Array(1));
    assert.equal(await own.read(new Uint8Array(1)), 1);
    const marks = await lab.pod.exec("cat", "/proc/net/nf_conntrack");
    const line = marks.split("\n").find((each) =>
      each.includes(`dport=${to.port}`)
    );
    assert.match(line ?? "", /mark=0\b/, marks);
  },
);

/** Connections are tracked only where a rule asks for it; this one does, before the pod is a client. */
async function trackConnections({ pod }: PodLab): Promise<AsyncDisposable> {
  await pod.exec("nft", "add table inet mine");
  await pod.exec(
    "nft",
    "add chain inet mine c { type filter hook input priority 0; ct state new; }",
  );
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      await pod.exec("nft", "delete table inet mine");
    },
  };
}

Deno.test(
  "W32: copied routes follow the main table, and a second interface comes and goes",
  async () => {
    await using lab = await podLab();
    await lab.apply([EVERYWHERE], ORIGINATING);
    await shell(
      lab.pod,
      `ip route add 198.51.100.0/24 via 169.254.1.1
     ip -6 route add 2001:db8:8::/48 via fe80::1 dev eth0
     ip link add net1 type bridge
     ip address add 192.168.7.7/24 dev net1
     ip link set net1 up`,
    );
    await lab.apply([EVERYWHERE], ORIGINATING);
    const grown = await clientState(lab.pod);
    assert.match(
      grown,
      /^198.51.100.0\/24 via 169.254.1.1 dev eth0 table of-eth0/m,
    );
    assert.match(
      grown,
      /^2001:db8:8::\/48 via fe80::1 dev eth0 table of-eth0/m,
    );
    assert.match(
      grown,
      /^192.168.7.0\/24 dev net1 table of-net1 proto 30 scope link src 192.168.7.7$/m,
    );
    assert.match(grown, /iifname "net1"/);
    await shell(
      lab.pod,
      "ip route delete 198.51.100.0/24; ip link delete net1",
    );
    await lab.apply([EVERYWHERE], ORIGINATING);
    const shrunk = await clientState(lab.pod);
    assert.doesNotMatch(shrunk, /198.51.100|net1|1000:.*fwmark [0-9]/);
    assert.deepEqual((await lab.apply([EVERYWHERE], ORIGINATING)).changes, []);
  },
);

Deno.test(
  "a link whose check of sources is strict takes questions from outside in originating-only mode",
  async () => {
    await using lab = await podLab();
    await shell(lab.pod, "echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter");
    await lab.apply([EVERYWHERE], ORIGINATING);
    assert.ok(await answers(lab, "ipv4"));
  },
);
