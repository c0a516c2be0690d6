// Originating-only mode: connections from outside are answered by the way they
// came, only what the pod itself begins goes through a gateway.
import assert from "node:assert/strict";
import { applyChoices } from "../../lib/egress/mod.ts";
import { Address, FAMILIES } from "../../lib/inet/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { eventually } from "../lab/wait.ts";
import {
  answers,
  apply,
  clientState,
  connectIn,
  HOSTS,
  listenIn,
  missingGateway,
  planOf,
  type PodLab,
  podLab,
  reach,
  shell,
  type Visit,
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
    for (const family of FAMILIES) {
      assert.ok(!await answers(lab, family, { seconds: 5 }));
    }
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
    for (const family of FAMILIES) {
      assert.ok(!await answers(lab, family, { seconds: 5 }));
    }
  },
);

for (const first of ["the other side", "the pod"] as const) {
  for (const isTracked of [false, true]) {
    const how = isTracked ? "that somebody tracks" : "that nobody tracks";
    Deno.test(`W32: connections from before originating-only was turned on, ${how}, go on when ${first} speaks first`, async () => {
      await using lab = await podLab();
      await using _tracked = isTracked ? await trackConnections(lab) : null;
      using stack = new DisposableStack();
      const visitors: Visit[] = [];
      for (const family of FAMILIES) {
        visitors.push(stack.use(await visit(lab, family)));
      }
      const expectAnswers = async () => {
        for (const visitor of visitors) {
          if (first === "the pod") await visitor.push();
          await visitor.talk();
        }
      };
      await lab.apply([EVERYWHERE], ORIGINATING);
      await expectAnswers();
      // Nor does it matter what the pod was before: as a client of the other kind it cannot answer.
      await lab.apply([EVERYWHERE]);
      await lab.apply([EVERYWHERE], ORIGINATING);
      await expectAnswers();
    });
  }
}

Deno.test(
  "a connection from outside that connection tracking has forgotten goes on, when the pod speaks first",
  async () => {
    await using lab = await podLab();
    await lab.apply([EVERYWHERE], ORIGINATING);
    using visitor = await visit(lab, "ipv4");
    await visitor.talk();
    using conntrack = ConntrackSocket.open({ netns: lab.netns });
    assert.ok(await conntrack.deleteWhere(() => true) > 0);
    await visitor.push();
    await visitor.talk();
  },
);

Deno.test(
  "answers go out by the way the question came where the pod chooses its gateways, too",
  async () => {
    await using lab = await podLab();
    const gateways = ["10.1.9.9", "10.1.9.10", "fd02::99"].map(Address.parse);
    const chosen = missingGateway(["0.0.0.0/0", "::/0"], {
      service: {
        ipv4: Address.parse("10.96.0.9"),
        ipv6: Address.parse("fd96::9"),
      },
      senders: gateways,
      direct: gateways,
      available: FAMILIES,
    });
    await lab.apply([chosen], ORIGINATING);
    using conntrack = ConntrackSocket.open({ netns: lab.netns });
    for (const family of FAMILIES) {
      using visitor = await visit(lab, family);
      await visitor.talk();
      await visitor.push();
      assert.ok(await conntrack.deleteWhere(() => true) > 0);
      await visitor.push();
      await visitor.talk();
      // A gateway is lost, and comes back.
      for (
        const lost of [new Set(["10.1.9.9", "fd02::99"]), new Set<string>()]
      ) {
        const changes = { ...ORIGINATING, lost, avoided: lost };
        const plan = planOf([chosen], changes);
        await applyChoices(plan, { netns: lab.netns });
        await visitor.talk();
        await visitor.push();
        assert.deepEqual((await apply(lab.netns, plan)).changes, []);
      }
    }
  },
);

Deno.test(
  "a connection of the pod's own that nobody has tracked does not go on outside the tunnels",
  async () => {
    await using lab = await podLab();
    const { netns, outsideNetns } = lab;
    for (const range of ["32768 60999", "5000 9000"]) {
      await writeFile(lab, "/proc/sys/net/ipv4/ip_local_port_range", range);
      await lab.apply([]);
      using listener = listenIn(outsideNetns, "ipv4");
      const to = { hostname: HOSTS.outside.ipv4, port: listener.addr.port };
      using own = await connectIn(netns, to);
      using _outside = await listener.accept();
      await lab.apply([EVERYWHERE], ORIGINATING);
      await using leaving = await countTo(lab, to.port);
      await own.write(new Uint8Array(1));
      await eventually("it to be refused", async () => {
        const { sent, refused } = await leaving.count();
        assert.equal(sent, 0);
        return refused > 0;
      });
    }
  },
);

function writeFile(
  { pod }: PodLab,
  path: string,
  text: string,
): Promise<string> {
  return shell(pod, `echo "${text}" > ${path}`);
}

/** Counts segments to a port: those that come to the receiver, where they are refused, and those that leave. */
async function countTo({ pod }: PodLab, port: number): Promise<
  AsyncDisposable & {
    count(): Promise<{ readonly sent: number; readonly refused: number }>;
  }
> {
  await shell(
    pod,
    `nft -f - <<END
table inet watch {
  counter sent { }
  counter refused { }
  chain output {
    type filter hook output priority -1
    oifname coil_ipip4 tcp dport ${port} counter name refused
  }
  chain postrouting {
    type filter hook postrouting priority 0
    tcp dport ${port} counter name sent
  }
}
END`,
  );
  const packetsOf = async (name: string): Promise<number> => {
    const text = await shell(pod, `nft list counter inet watch ${name}`);
    return Number(/packets (\d+)/.exec(text)?.[1]);
  };
  return {
    count: async () => ({
      sent: await packetsOf("sent"),
      refused: await packetsOf("refused"),
    }),
    async [Symbol.asyncDispose](): Promise<void> {
      await shell(pod, "nft delete table inet watch");
    },
  };
}

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
