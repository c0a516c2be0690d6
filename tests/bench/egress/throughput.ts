// Throughput of our tunnel beside the same tunnel made by hand with `ip` and
// `nft`, in turn, in one virtual machine.
import { applyClient, planClient } from "../../../lib/egress/mod.ts";
import {
  Address,
  FAMILIES,
  type Family,
  Prefix,
} from "../../../lib/inet/mod.ts";
import { Netns } from "../../../lib/linux/mod.ts";
import {
  ADDRESSES,
  addressesOf,
  CLIENTS,
  type EgressLab,
  egressLab,
  makeClient,
  OURS,
  PORT,
  shell,
} from "../../vm/egress_server_lab.ts";
import { compareDatagrams } from "./datagrams.ts";
import type { Samples } from "./samples.ts";
import { compareStreams } from "./streams.ts";

const IPERF_PORT: Readonly<Record<Family, string>> = {
  ipv4: "5204",
  ipv6: "5206",
};
const DIRECTIONS = ["up", "down"] as const;
type Direction = typeof DIRECTIONS[number];

/** How each lab's tunnels are made; `direct` is ours to the gateway itself, which the client chooses. */
const KINDS = ["ours", "direct", "hand", "nosum"] as const;
/** As `direct`, with so many gateways in each family of which the client knows, and the same one that is ready. */
const MANY_GATEWAYS = 20;
const MANY = `direct.${MANY_GATEWAYS}` as const;
type Kind = typeof KINDS[number] | typeof MANY;
/** Compared with the Service by short bursts. */
const DIRECT_KINDS = ["direct", MANY] as const;

/** Measures; `report` gets what is known after each round. */
export async function throughput(options: {
  readonly rounds: number;
  readonly seconds: number;
  readonly report: (samples: Samples) => Promise<void>;
}): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const labs = new Map<Kind, EgressLab>();
  for (const kind of [...KINDS, MANY]) {
    const lab = stack.use(await egressLab());
    await makeTunnel(lab, kind);
    for (const family of FAMILIES) {
      const address = ADDRESSES.outside[family];
      const args = ["-s", "-D", "-p", IPERF_PORT[family], "-B", address];
      await lab.outside.exec("iperf3", ...args);
    }
    labs.set(kind, lab);
  }
  const rates: Record<string, number[]> = {};
  const bursts: Record<string, number[]> = {};
  const service = labs.get("ours");
  for (let round = 0; round < options.rounds; round++) {
    for (const family of FAMILIES) {
      for (const direction of DIRECTIONS) {
        // Which is first differs: what the host does in the meantime comes and goes.
        const order = KINDS.map((_, i) => KINDS[(i + round) % KINDS.length]);
        for (const kind of order) {
          const lab = kind && labs.get(kind);
          if (lab === undefined) continue;
          const { seconds } = options;
          const rate = await measure(lab, { family, direction, seconds });
          (rates[`${family}.${direction}.${kind}`] ??= []).push(rate);
        }
      }
    }
    for (const kind of DIRECT_KINDS) {
      const direct = labs.get(kind);
      if (service === undefined || direct === undefined) continue;
      const both = { service, direct };
      (bursts[`${kind}.datagrams`] ??= []).push(
        ...await compareDatagrams(both),
      );
      (bursts[`${kind}.streams`] ??= []).push(...await compareStreams(both));
    }
    await options.report({ ...samplesOf(rates), ...burstSamples(bursts) });
  }
}

async function makeTunnel(lab: EgressLab, kind: Kind): Promise<void> {
  if (kind === "hand" || kind === "nosum") {
    const checksum = kind === "hand";
    await makeGateway(lab, checksum);
    await makeClient(lab.client, { ...OURS, checksum });
    return;
  }
  const server = await lab.open();
  await server.setClients(CLIENTS);
  using netns = Netns.open(lab.client.path);
  const senders = addressesOf("gateway");
  const others = kind === MANY ? otherGateways() : [];
  const gateways = [...others, senders.ipv4, senders.ipv6];
  const { service, outside } = ADDRESSES;
  await applyClient(
    planClient({
      addresses: addressesOf("client"),
      ifname: "eth0",
      mtu: 0,
      port: PORT,
      originatingOnly: false,
      gateways: [{
        name: "bench/gateway",
        service: {
          ipv4: Address.parse(service.ipv4),
          ipv6: Address.parse(service.ipv6),
        },
        destinations: [
          Prefix.parse(`${outside.ipv4}/32`),
          Prefix.parse(`${outside.ipv6}/128`),
        ],
        sourcePortAuto: true,
        senders: gateways,
        direct: kind === "ours" ? undefined : gateways,
        available: ["ipv4", "ipv6"],
        failurePolicy: "Closed",
      }],
      avoided: new Set(others.map(String)),
    }),
    { netns },
  );
}

/** Gateways that do not exist. */
function otherGateways(): Address[] {
  return ["10.1.0.1", "fd01:0::1"].flatMap((text) => {
    const first = Address.parse(text);
    return Array.from(
      { length: MANY_GATEWAYS - 1 },
      (_, i) => first.offset(BigInt(i)),
    );
  });
}

/** A gateway as upstream Coil makes one: a device for the client, no guard. */
async function makeGateway(lab: EgressLab, checksum: boolean): Promise<void> {
  const { gateway, client } = ADDRESSES;
  const encap = `encap fou encap-sport auto encap-dport ${PORT} ${
    checksum ? "encap-csum" : "noencap-csum"
  }`;
  const csum6 = checksum ? "encap-udp6-csum" : "noencap-udp6-csum";
  await shell(
    lab.gateway,
    `sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0
     ip fou add port ${PORT} ipproto 4
     ip fou add port ${PORT} ipproto 41 -6
     ip link add coil_ipip4 type ipip external
     ip link add coil_ipip6 type ip6tnl external
     ip link add fou4_client mtu 1472 type ipip local ${gateway.ipv4} remote ${client.ipv4} ttl 225 ${encap}
     ip link add fou6_client mtu 1452 type ip6tnl mode ip6ip6 local ${gateway.ipv6} remote ${client.ipv6} \\
       encaplimit none hoplimit 225 ${encap} ${csum6}
     for link in coil_ipip4 coil_ipip6 fou4_client fou6_client; do ip link set $link up; done
     for family in -4 -6; do ip $family rule add pref 2000 iif eth0 lookup 118; done
     ip route add ${client.ipv4}/32 dev fou4_client table 118
     ip -6 route add ${client.ipv6}/128 dev fou6_client table 118
     nft -f - <<END
table inet nat {
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname eth0 ip saddr != ${gateway.ipv4} counter masquerade
    oifname eth0 ip6 saddr != ${gateway.ipv6} counter masquerade
  }
  chain forward {
    type filter hook forward priority filter
    oifname eth0 ct state invalid counter drop
  }
}
END`,
  );
}

/** One TCP stream, in Mbit/s as received. */
async function measure(
  lab: EgressLab,
  how: {
    readonly family: Family;
    readonly direction: Direction;
    readonly seconds: number;
  },
): Promise<number> {
  const { family, direction, seconds } = how;
  const text = await lab.client.exec(
    "iperf3",
    ...["-J", "-p", IPERF_PORT[family], "-c", ADDRESSES.outside[family]],
    ...["-t", String(seconds), "-O", "0.5"],
    ...(direction === "down" ? ["-R"] : []),
  );
  const { end } = JSON.parse(text) as {
    end: { sum_received: { bits_per_second: number } };
  };
  return end.sum_received.bits_per_second / 1e6;
}

function burstSamples(bursts: Readonly<Record<string, number[]>>): Samples {
  return Object.fromEntries(
    Object.entries(bursts).map(([name, samples]) => [
      `tunnel.${name}`,
      { unit: "%", samples },
    ]),
  );
}

/** Rates, and the ratios of those of one round, which the host's load bent alike. */
function samplesOf(
  rates: Readonly<Record<string, readonly number[]>>,
): Samples {
  const samples: Record<string, Samples[string]> = {};
  const ratios = { hand: [] as number[], nosum: [] as number[] };
  const direct: number[] = [];
  for (const [name, values] of Object.entries(rates)) {
    samples[`tunnel.${name}`] = { unit: "Mbit/s", samples: values };
    const [family, direction, kind] = name.split(".");
    const base = rates[`${family}.${direction}.hand`] ?? [];
    const ours = rates[`${family}.${direction}.ours`] ?? [];
    values.forEach((value, i) => {
      if (kind === "direct") direct.push(100 * value / (ours[i] ?? NaN));
      const percent = 100 * value / (base[i] ?? NaN);
      if (Number.isNaN(percent)) return;
      if (kind === "ours") ratios.hand.push(percent);
      if (kind === "nosum") ratios.nosum.push(percent);
    });
  }
  samples["tunnel.ratio"] = { unit: "%", samples: ratios.hand };
  samples["tunnel.direct.ratio"] = {
    unit: "%",
    samples: direct.filter((percent) => !Number.isNaN(percent)),
  };
  samples["tunnel.nosum.ratio"] = { unit: "%", samples: ratios.nosum };
  return samples;
}
