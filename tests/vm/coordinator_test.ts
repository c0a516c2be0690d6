// The coordinator on what many a kernel lacks: ipvlan, Foo-over-UDP; and without
// what most have, connection tracking by nf_tables.
import assert from "node:assert/strict";
import {
  applyClient,
  clearClient,
  type ClientGateway,
  EgressServer,
  planClient,
} from "../../lib/egress/mod.ts";
import { Address, FAMILIES, type Family, Prefix } from "../../lib/inet/mod.ts";
import { Netns, openLibc } from "../../lib/linux/mod.ts";
import {
  addressIn,
  ANSWERED,
  CoordinatorLab,
  fetched,
  interfaceAddressIn,
  type LabPod,
  type NicSpec,
  ours,
  reaches,
  serving,
  stateOf,
} from "../netns/coordinator_lab.ts";
import { type TempNetns, tempNetns } from "../netns/testing.ts";
import { serveOutside } from "./egress_outside.ts";
import { planOf, PORT, shell } from "./egress_server_lab.ts";
import { kernelWithout } from "./kernel_modules.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

const IPVLAN = { kind: "ipvlan" } as const;
const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

async function everything(
  lab: CoordinatorLab,
  { netns }: LabPod,
): Promise<string[]> {
  return [...await stateOf(netns), ...await stateOf(lab.host)];
}

Deno.test("coordinator: pods by ipvlan reach host and ClusterIPs, and each interface answers by itself", async () => {
  await using lab = await CoordinatorLab.start(FAMILIES);
  const nics = [ETH0, NET1].map((nic) => ({ ...nic, ...IPVLAN }));
  const config = { podRPFilter: 1 };
  const pod = await lab.joined(nics, { config });
  const neighbour = await lab.joined([{ ...ETH0, ...IPVLAN, number: 101 }]);
  await serving(lab, async () => {
    for (const family of FAMILIES) {
      for (const { network } of nics) {
        const address = addressIn(network, family, 100);
        const source = addressIn(network === 6 ? 7 : 6, family, 1);
        assert.ok(await reaches(lab.host, address), `host to ${address}`);
        assert.ok(await reaches(lab.switch, address, { source }), address);
      }
      // Both have one MAC address, their parent's.
      const other = addressIn(6, family, 101);
      assert.ok(await reaches(pod.netns, other), other);
      for (const [from, number] of [[pod, 100], [neighbour, 101]] as const) {
        const own = addressIn(6, family, number);
        assert.match(await fetched(from.netns, family), new RegExp(own));
      }
    }
  });
  await lab.ok("CHECK", pod, { config });
  await lab.ok("DEL", neighbour);
  assert.ok(await reaches(lab.host, addressIn(6, "ipv4", 100)));
  for (const ifname of ["net1", "eth0"]) await lab.ok("DEL", pod, { ifname });
  assert.deepEqual(ours(await everything(lab, pod)), []);
});

Deno.test("coordinator: an ipvlan keeps its parent's MAC address, and a prefix for it is refused", async () => {
  await using lab = await CoordinatorLab.start(["ipv4"]);
  const pod = await lab.pod([{ ...ETH0, ...IPVLAN }]);
  const before = await everything(lab, pod);
  const config = { podMACPrefix: "0a:1b" };
  assert.equal(
    await lab.refusal("ADD", pod, { config }),
    '7 podMACPrefix does not fit interface "eth0"',
  );
  assert.deepEqual(await everything(lab, pod), before);
});

for (const family of FAMILIES) {
  Deno.test(`coordinator: by ipvlan, too, an address of another machine is found, and a gateway, ${family}`, async () => {
    await using lab = await CoordinatorLab.start([family]);
    const config = { detectIPConflict: true, detectGateway: true };
    // By default ADD waits 0.3 s for an answer; an emulated kernel may take longer.
    const answered = { ...config, detectOptions: ANSWERED };
    const address = addressIn(6, family, 77);
    await lab.switch.ip(
      ...["address", "add", interfaceAddressIn(6, family, 77), "dev", "net6"],
      ...family === "ipv6" ? ["nodad"] : [],
    );
    const taken = await lab.pod([{ ...ETH0, ...IPVLAN, number: 77 }]);
    const [row] = await lab.switch.ipJson("link", "show", "net6");
    assert.equal(
      await lab.refusal("ADD", taken, { config: answered }),
      `11 ip conflict: pod's interface eth0 with an conflicting ip ${address}, ${address} is located at ${
        row?.["address"]
      }`,
    );
    const free = await lab.pod([{ ...ETH0, ...IPVLAN }]);
    // One after the other: that no machine has the address takes all of the time to find out.
    await lab.ok("ADD", free, { config: { detectIPConflict: true } });
    const gatewayAnswers = { detectGateway: true, detectOptions: ANSWERED };
    await lab.ok("ADD", free, { config: gatewayAnswers });
    await lab.switch.ip("link", "set", "net6", "down");
    const other = await lab.pod([{ ...ETH0, ...IPVLAN, number: 102 }]);
    const gateway = addressIn(6, family, 1);
    assert.equal(
      await lab.refusal("ADD", other, { config }),
      `11 gateway ${gateway} is unreachable`,
    );
  });
}

/** What is beyond the switch: a gateway of an Egress, whose marks have the coordinator's bit, and a server that it leads to. */
const BEYOND = {
  gateway: { ipv4: "10.9.2.2", ipv6: "fd00:9:2::2" },
  outside: { ipv4: "203.0.113.9", ipv6: "2001:db8:9::9" },
} as const;
/** Of the gateway's Service. */
const SERVICE = { ipv4: "10.233.0.20", ipv6: "fd00:233::20" } as const;

/** A machine on a link of its own to the switch, whose end is number 1 there. */
async function attach(
  lab: CoordinatorLab,
  name: keyof typeof BEYOND,
): Promise<TempNetns> {
  const netns = await tempNetns(name);
  await lab.switch.ip(
    ...["link", "add", name, "type", "veth"],
    ...["peer", "name", "eth0", "netns", netns.name],
  );
  await lab.switch.ip("link", "set", name, "up");
  await netns.ip("link", "set", "eth0", "up");
  for (const family of FAMILIES) {
    const own = BEYOND[name][family];
    const near = own.replace(/[0-9]+$/, "1");
    const length = family === "ipv4" ? 24 : 64;
    const more = family === "ipv4" ? [] : ["nodad"];
    const at = (address: string) => ["address", "add", `${address}/${length}`];
    await lab.switch.ip(...at(near), "dev", name, ...more);
    await netns.ip(...at(own), "dev", "eth0", ...more);
    await netns.ip("route", "add", "default", "via", near);
  }
  return netns;
}

function parsed(
  { ipv4, ipv6 }: Readonly<Record<Family, string>>,
): Readonly<Record<Family, Address>> {
  return { ipv4: Address.parse(ipv4), ipv6: Address.parse(ipv6) };
}

/** An Egress for all that is outside; `isDirect`: the client chooses its gateway itself. */
function gateway(
  { isDirect = false }: { readonly isDirect?: boolean } = {},
): ClientGateway {
  const { ipv4, ipv6 } = parsed(BEYOND.gateway);
  return {
    name: "internet/egress",
    service: parsed(SERVICE),
    destinations: ["0.0.0.0/0", "::/0"].map(Prefix.parse),
    sourcePortAuto: true,
    senders: [ipv4, ipv6],
    available: FAMILIES,
    failurePolicy: "Closed",
    ...isDirect ? { direct: [ipv4, ipv6] } : {},
  };
}

/** Who the server outside says that a pod is. */
async function seenOutside(pod: TempNetns, family: Family): Promise<string> {
  const address = BEYOND.outside[family];
  const host = family === "ipv4" ? address : `[${address}]`;
  const body = await pod.exec("curl", "-sSm", "20", `http://${host}/0`);
  return body.trim();
}

const MODES = {
  "as usual": { originatingOnly: false, isDirect: false },
  "originating-only": { originatingOnly: true, isDirect: false },
  "of gateways that it chooses itself": {
    originatingOnly: false,
    isDirect: true,
  },
} as const;

for (const [mode, { originatingOnly, isDirect }] of Object.entries(MODES)) {
  Deno.test(`coordinator: an underlay pod is a client of an Egress, ${mode}`, async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    await using outside = await attach(lab, "outside");
    await using gatewayNetns = await attach(lab, "gateway");
    using outsideHandle = Netns.open(outside.path);
    await using _servers = serveOutside(
      outsideHandle,
      Object.values(BEYOND.outside),
    );
    // As kube-proxy does.
    await shell(
      lab.host,
      `nft -f - <<END
table inet egress {
  chain prerouting {
    type nat hook prerouting priority dstnat
    ip daddr ${SERVICE.ipv4} udp dport ${PORT} dnat ip to ${BEYOND.gateway.ipv4}
    ip6 daddr ${SERVICE.ipv6} udp dport ${PORT} dnat ip6 to ${BEYOND.gateway.ipv6}
    ip daddr 10.6.0.10 tcp dport 30080 dnat ip to 10.6.0.100:80
  }
}
END`,
    );
    const pod = await lab.joined([ETH0]);
    const addresses = parsed({
      ipv4: addressIn(6, "ipv4", 100),
      ipv6: addressIn(6, "ipv6", 100),
    });
    using netns = Netns.open(pod.netns.path);
    using serverNetns = Netns.open(gatewayNetns.path);
    await using server = await EgressServer.open(
      planOf({ addresses: parsed(BEYOND.gateway) }),
      { netns: serverNetns },
    );
    await server.setClients(Object.values(addresses));
    const plan = planClient({
      addresses,
      ifname: "eth0",
      mtu: 1500,
      port: PORT,
      gateways: [gateway({ isDirect })],
      originatingOnly,
    });
    for (const family of FAMILIES) {
      assert.equal(
        await seenOutside(pod.netns, family),
        `${addresses[family]}`,
        "before",
      );
    }
    const expectAll = async () => {
      for (const family of FAMILIES) {
        const seen = await seenOutside(pod.netns, family);
        assert.equal(seen, BEYOND.gateway[family], "by the gateway");
        assert.ok(await reaches(lab.host, `${addresses[family]}`), family);
        const host = addressIn(6, family, 10);
        assert.ok(await reaches(pod.netns, host), host);
      }
    };
    await applyClient(plan, { netns });
    await expectAll();
    await lab.ok("CHECK", pod);
    await serving(lab, async () => {
      for (const family of FAMILIES) {
        const seen = await fetched(pod.netns, family);
        assert.match(seen, new RegExp(`${addresses[family]}`));
      }
    });
    // This client of a NodePort is where the tunnel leads: its answer goes by the node all the same.
    await using _server = serveOutside(netns, [`${addresses.ipv4}`]);
    const nodePort = "http://10.6.0.10:30080/0";
    const client = await outside.exec("curl", "-sSm", "20", nodePort);
    assert.equal(client.trim(), BEYOND.outside.ipv4);

    // Each leaves the other's alone, in any order.
    const before = await everything(lab, pod);
    await lab.ok("ADD", pod);
    assert.deepEqual(await everything(lab, pod), before);
    await applyClient(plan, { netns });
    assert.deepEqual(await everything(lab, pod), before);
    await lab.ok("DEL", pod);
    await lab.ok("ADD", pod);
    await expectAll();
    await clearClient({ netns });
    await lab.ok("CHECK", pod);
    const own = `${addresses.ipv4}`;
    assert.equal(await seenOutside(pod.netns, "ipv4"), own, "no client");
  });
}

Deno.test("coordinator: a kernel without connection tracking by nf_tables: ADD says so and changes nothing, and works when it has it", async () => {
  await using lab = await CoordinatorLab.start(FAMILIES);
  const pod = await lab.pod([ETH0]);
  // A link of the kind has been made, and nf_tables used, before modules are hidden.
  await using kernel = await kernelWithout("nft_ct");
  const before = await everything(lab, pod);
  const { stdout, exitCode } = await lab.call("ADD", pod);
  assert.equal(exitCode, 1, stdout);
  const { code, msg, details } = JSON.parse(stdout);
  assert.equal(
    `${code} ${msg}`,
    "999 cannot mark connections from the host: the kernel refuses a table of nf_tables",
  );
  assert.match(details, /load module nft_ct/);
  assert.deepEqual(await everything(lab, pod), before);
  await lab.ok("DEL", pod);
  await kernel.repair();
  await lab.ok("ADD", pod);
  await lab.ok("CHECK", pod);
});
