// What a node takes for one packet of a pod to a peer in the VPC, by the rules
// that it has: a program sends as fast as it can, and the kernel forwards within
// each send, in the program's processor time.
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { Netns } from "../../../lib/linux/mod.ts";
import { type HostEni, VpcHost } from "../../../lib/vpc/mod.ts";
import { settingsOf } from "../../../lib/vpc/host/testing.ts";
import { ipBatch } from "../../lab/network.ts";
import { type TempNetns, tempNetns } from "../../netns/testing.ts";
import { type Figure, figure } from "../figures.ts";

/** An m5.24xlarge: 15 ENIs, each with 49 places for pods. */
const ENIS = 15;
const PLACES = 49;
const PODS = ENIS * PLACES;
const PREFIX_SIZE = 16;

const SUBNET = Prefix.parse("10.0.16.0/20");
const GATEWAY = SUBNET.nth(1n);
const PEER = Address.parse("10.0.200.9");
/** The pod that sends: its block is the last one that is tried, among others of its network. */
const OWN = SUBNET.nth(3_769n);
const PACKETS = 20_000;

/**
 * Sends them, 64 bytes each, and prints the processor seconds that it took, the kernel's forwarding among them: other
 * programs take none of these.
 */
const SENDER = `
use Socket; use Time::HiRes;
socket(my $s, PF_INET, SOCK_DGRAM, 0) or die $!;
connect($s, pack_sockaddr_in(9, inet_aton("${PEER}"))) or die $!;
my ($data, $began) = ("x" x 64, Time::HiRes::clock());
for (1..${PACKETS}) { send($s, $data, 0) or die $!; }
print Time::HiRes::clock() - $began;
`;

/** How a node is configured. */
interface Layout {
  readonly name: string;
  readonly apply: (site: Site) => Promise<void>;
}

/** Pod, node and peer; the last one receives what all ENIs send. */
interface Site {
  readonly pod: TempNetns;
  readonly node: TempNetns;
  readonly peer: TempNetns;
}

const LAYOUTS: readonly Layout[] = [
  { name: "none", apply: () => Promise.resolve() },
  { name: "prefixes", apply: (site) => applyCoil(site, prefixes(1)) },
  { name: "spread", apply: (site) => applyCoil(site, prefixes(ENIS)) },
  { name: "addresses", apply: (site) => applyCoil(site, addresses()) },
  { name: "upstream", apply: applyUpstream },
];

/**
 * `vpc.forward.*`, with 735 pods: without rules; with Coil's for prefixes, as coild fills ENIs, and, the worst case, on
 * all of them; for single addresses; with the rules and routes of upstream, but not its packet filter.
 */
export async function forwardFigures(
  { quick }: { readonly quick: boolean },
): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const sites: { readonly name: string; readonly site: Site }[] = [];
  for (const { name, apply } of LAYOUTS) {
    const site = await makeSite(stack);
    await apply(site);
    sites.push({ name, site });
  }
  const samples = new Map<string, number[]>();
  for (let round = 0; round < (quick ? 3 : 15); round++) {
    for (const { name, site } of sites) {
      const us = await sendAll(site);
      samples.set(name, [...samples.get(name) ?? [], us]);
    }
  }
  return [...samples].map(([name, us]) =>
    figure(`vpc.forward.${name}`, "µs", us)
  );
}

async function sendAll({ pod, peer }: Site): Promise<number> {
  const before = await received(peer);
  const seconds = Number(
    await pod.exec("taskset", "-c", "0", "perl", "-e", SENDER),
  );
  const arrived = await received(peer) - before;
  if (arrived < PACKETS * 0.99) {
    throw new Error(`Cannot measure: ${arrived} of ${PACKETS} packets came`);
  }
  return seconds * 1e6 / PACKETS;
}

/** How many packets the peer got. */
async function received(peer: TempNetns): Promise<number> {
  const text = await peer.exec("cat", "/proc/net/dev");
  return [...text.matchAll(/^\s*eth\d+:\s+\d+\s+(\d+)/gm)]
    .reduce((sum, [, packets]) => sum + Number(packets), 0);
}

async function makeSite(stack: AsyncDisposableStack): Promise<Site> {
  const make = async (name: string) => stack.use(await tempNetns(name));
  const site = {
    pod: await make("pod"),
    node: await make("node"),
    peer: await make("peer"),
  };
  const { pod, node, peer } = site;
  await node.exec("sysctl", "-qw", "net.ipv4.ip_forward=1");
  await node.ip("link", "add", "pod0", "type", "veth", ...end(pod, "eth0"));
  await ipBatch(pod.name, [
    `address add ${OWN}/32 dev eth0`,
    "link set eth0 up",
    "route add 169.254.1.1 dev eth0",
    "route add default via 169.254.1.1",
    `neigh add 169.254.1.1 lladdr ${await macOf(node, "pod0")} dev eth0`,
  ]);
  await ipBatch(node.name, ["link set pod0 up", `route add ${OWN} dev pod0`]);
  for (let device = 0; device < ENIS; device++) {
    const name = `eth${device}`;
    const own = ["address", eniMac(device)];
    await node.ip(
      "link",
      "add",
      name,
      ...own,
      "type",
      "veth",
      ...end(peer, name),
    );
    await peer.ip("link", "set", name, "up");
    await ipBatch(node.name, [
      `link set ${name} up`,
      `route add ${GATEWAY} dev ${name} metric ${device + 1}`,
      `neigh add ${GATEWAY} lladdr ${await macOf(peer, name)} dev ${name}`,
    ]);
  }
  await node.ip("route", "add", "default", "via", `${GATEWAY}`, "dev", "eth0");
  return site;
}

const end = (peer: TempNetns, name: string) => [
  ...["peer", "name", name, "netns", peer.name],
];
const eniMac = (device: number) =>
  `02:00:00:00:0c:${device.toString(16).padStart(2, "0")}`;

async function macOf(netns: TempNetns, link: string): Promise<string> {
  const [found] = await netns.ipJson("link", "show", link);
  return String(found?.["address"]);
}

/** Single addresses, 49 for each ENI. */
function addresses(): Prefix[][] {
  return Array.from(
    { length: ENIS },
    (_, device) =>
      Array.from({ length: PLACES }, (_, n) =>
        // Places are not in a row, as EC2's are not.
        Prefix.host(SUBNET.nth(BigInt(100 + 5 * (device * PLACES + n))))),
  );
}

/** As many prefixes as the pods need: on one ENI, which has room for them, or on all but the primary one. */
function prefixes(enis: number): Prefix[][] {
  const blocks: Prefix[][] = Array.from({ length: enis }, () => []);
  for (let n = 0; n < Math.ceil(PODS / PREFIX_SIZE); n++) {
    const first = SUBNET.nth(BigInt(128 + n * PREFIX_SIZE));
    const device = enis === 1 ? 0 : 1 + n % (enis - 1);
    blocks[device]?.push(Prefix.of(first, 28));
  }
  return blocks;
}

/** The pod's routes and rules as `lib/podnet` has them, and those of the ENIs by their blocks. */
async function applyCoil({ node }: Site, blocks: Prefix[][]): Promise<void> {
  const enis = blocks.map((own, device): HostEni => ({
    id: `eni-${device}`,
    device,
    mac: eniMac(device),
    addresses: { ipv4: SUBNET.nth(BigInt(10 + device)) },
    gateways: { ipv4: GATEWAY },
    blocks: device < blocks.length - 1 ? own : [...own.slice(1), ownBlock(own)],
  }));
  using netns = Netns.open(node.path);
  await using host = VpcHost.open({ hostNetns: netns });
  const { problems } = await host.ensure(
    settingsOf({ enis, vpcCidrs: [Prefix.parse("10.0.0.0/16")] }),
  );
  if (problems.length > 0) throw new Error(problems.map(String).join("\n"));
  await ipBatch(node.name, [
    "rule add priority 512 lookup 116",
    ...podAddresses().map((address) =>
      `route add ${address} dev pod0 table 116`
    ),
  ]);
}

function ownBlock([block]: readonly Prefix[]): Prefix {
  return Prefix.of(OWN, block?.length ?? 32);
}

/** Two rules for each pod, as upstream's plugin makes them, and a table for each ENI. */
async function applyUpstream({ node }: Site): Promise<void> {
  const tables = Array.from({ length: ENIS - 1 }, (_, n) => n + 1);
  const pods = podAddresses();
  await ipBatch(node.name, [
    ...tables.flatMap((device) => [
      `route add ${GATEWAY} dev eth${device} table ${device + 1}`,
      `route add default via ${GATEWAY} dev eth${device} table ${device + 1}`,
    ]),
    ...pods.slice(1).map((address) => `route add ${address} dev pod0`),
    ...pods.map((address) => `rule add priority 512 to ${address} lookup main`),
    "rule add priority 1024 fwmark 0x80/0x80 lookup main",
    // The last one first: the kernel tries those of one priority in the order in which they were added.
    ...pods.slice(PLACES).toReversed().concat(pods.slice(0, 1)).map((
      address,
      n,
    ) => `rule add priority 1536 from ${address} lookup ${2 + n % (ENIS - 1)}`),
  ]);
}

/** OWN, and all others. */
function podAddresses(): Address[] {
  const others = Array.from(
    { length: PODS - 1 },
    (_, n) => SUBNET.nth(BigInt(100 + 5 * n)),
  );
  return [OWN, ...others];
}
