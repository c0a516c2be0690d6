// What making a client costs in the kernel, without coild around it: on a
// kernel without Foo over UDP everything but the tunnels themselves.
import {
  applyClient,
  type ClientGateway,
  type ClientPlan,
  planClient,
  prepareKernel,
} from "../../../lib/egress/mod.ts";
import { addLink, wantedLinks } from "../../../lib/egress/client/links.ts";
import { gatewayFor, POD } from "../../../lib/egress/testing.ts";
import { Address, FAMILIES } from "../../../lib/inet/mod.ts";
import { Netns } from "../../../lib/linux/mod.ts";
import { linkAddVeth, RouteSocket } from "../../../lib/netlink/mod.ts";
import { run } from "../../lab/mod.ts";
import { type TempNetns, tempNetns } from "../../netns/testing.ts";
import type { Samples } from "./samples.ts";
import { applyWithoutTunnels, withoutTunnels } from "./without_tunnels.ts";

const freshMtu = 1500;

/** How much to measure. */
export interface ApplyOptions {
  readonly rounds: number;
  /** Whether the kernel has Foo over UDP. */
  readonly tunnels: boolean;
}

/**
 * As ADD does it, in a namespace that is new: `apply.base`: rules, routes and
 * the nft table, and no tunnel. With tunnels, `apply.one` and `apply.two`: the
 * whole for so many gateways. `apply.ways` and `apply.again`: what it takes
 * where the namespace is read first, at first and when all is right already.
 * `apply.veth`: what the kernel takes for a pair of links, to compare with;
 * `apply.links`: for the links of one gateway.
 */
export async function applyTimes(
  { rounds, tunnels }: ApplyOptions,
): Promise<Samples> {
  if (tunnels) await prepareKernel(FAMILIES);
  const plans = [1, 2].map((count) => planOf(count));
  const [one, two] = plans;
  if (one === undefined || two === undefined) throw new RangeError("no plan");
  const times: Record<string, number[]> = {};
  const timed = async (name: string, work: () => Promise<unknown>) => {
    const startMs = performance.now();
    await work();
    (times[name] ??= []).push(performance.now() - startMs);
  };
  // The first round pays for what is compiled and loaded.
  for (let round = -1; round < rounds; round++) {
    if (round === 0) {
      for (const name of Object.keys(times)) delete times[name];
    }
    await inPod((netns) =>
      timed("apply.ways", () => applyClient(withoutTunnels(one), { netns }))
    );
    await inPod((netns) =>
      timed("apply.base", () => applyWithoutTunnels(one, { netns, freshMtu }))
    );
    await inPod((netns) => timed("apply.veth", () => makeVeth(netns)));
    if (!tunnels) continue;
    await inPod((netns) => timed("apply.links", () => makeLinks(one, netns)));
    await inPod(async (netns) => {
      await timed("apply.one", () => applyClient(one, { netns, freshMtu }));
      await timed("apply.again", () => applyClient(one, { netns }));
    });
    await inPod((netns) =>
      timed("apply.two", () => applyClient(two, { netns, freshMtu }))
    );
  }
  return Object.fromEntries(
    Object.entries(times).map(([name, samples]) => [
      name,
      { unit: "ms", samples },
    ]),
  );
}

async function makeVeth(netns: Netns): Promise<void> {
  using route = RouteSocket.open({ netns });
  const peer = { name: "veth1", queues: 1 };
  await route.execute([linkAddVeth({ name: "veth0", queues: 1, peer })]);
}

async function makeLinks(plan: ClientPlan, netns: Netns): Promise<void> {
  using route = RouteSocket.open({ netns });
  const links = wantedLinks(plan, freshMtu);
  await route.execute(
    links.flatMap((link) => addLink(link, { addrGen: true })),
  );
}

/** A client of so many gateways, in both families, each with a network of each family. */
function planOf(count: number): ClientPlan {
  const gateways = Array.from(
    { length: count },
    (_, i): ClientGateway =>
      gatewayFor(
        `nat/gateway-${i}`,
        [`198.51.${i}.0/24`, `2001:db8:${i}::/48`],
        {
          service: {
            ipv4: Address.parse(`10.68.12.${i + 1}`),
            ipv6: Address.parse(`fd96::${i + 1}`),
          },
        },
      ),
  );
  return planClient({
    addresses: POD,
    ifname: "eth0",
    mtu: 0,
    port: 5555,
    gateways,
    originatingOnly: false,
  });
}

/** A pod's network, as coild has just made it. */
async function inPod(work: (netns: Netns) => Promise<void>): Promise<void> {
  await using pod = await tempNetns("bench");
  await run("ip", ["-batch", "-"], { stdin: linesFor(pod) });
  await run("ip", ["-n", pod.name, "-batch", "-"], { stdin: POD_LINES });
  using netns = Netns.open(pod.path);
  await work(netns);
}

/** One side of a pair stays in the pod too: it need not lead anywhere. */
function linesFor(pod: TempNetns): string {
  return `link add eth0 netns ${pod.name} type veth peer name far netns ${pod.name}`;
}

const POD_LINES = `link set far up
address add ${POD.ipv4}/32 dev eth0
address add ${POD.ipv6}/128 dev eth0 nodad
link set eth0 up
route add 169.254.1.1 dev eth0 scope link
route add default via 169.254.1.1 dev eth0
route add fe80::1 dev eth0
route add default via fe80::1 dev eth0`;
