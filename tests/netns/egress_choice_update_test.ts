// What becomes of the table of a client that chooses when coild is updated.
// Earlier versions had rules for each gateway in place of the maps.
import assert from "node:assert/strict";
import { applyChoices, gatewayMark } from "../../lib/egress/mod.ts";
import type { ClientPlan } from "../../lib/egress/plan/plan.ts";
import { clientTable } from "../../lib/egress/plan/table.ts";
import { Address } from "../../lib/inet/mod.ts";
import { inNetns, type Netns } from "../../lib/linux/mod.ts";
import {
  NetfilterSocket,
  nft,
  type NftRule,
  type NftTable,
} from "../../lib/netlink/mod.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import { eventually } from "../lab/wait.ts";
import {
  HOSTS,
  missingGateway,
  planOf,
  type PodLab,
  podLab,
  shell,
} from "./egress_client_lab.ts";
import { handles } from "./netfilter_small_table.ts";
import { listTable } from "./netfilter_testing.ts";
import { netnsTest } from "./testing.ts";

const PORT = 5555;
const SERVICE = {
  ipv4: Address.parse("10.96.0.9"),
  ipv6: Address.parse("fd96::10"),
};
const GATEWAYS = ["10.1.9.9", "10.1.9.10", "fd02::99", "fd02::9a"]
  .map((text) => Address.parse(text));
const EGRESS = missingGateway(["0.0.0.0/0", "::/0"], {
  service: SERVICE,
  senders: GATEWAYS,
  direct: GATEWAYS,
  available: ["ipv4", "ipv6"],
});

function tableOf(plan: ClientPlan): NftTable {
  return clientTable(plan, { interfaces: [] });
}

/** As earlier versions made it. */
function formerTable(plan: ClientPlan): NftTable {
  const table = tableOf(plan);
  const sets = table.sets.filter(({ value }) => value === undefined);
  const chains = table.chains.map((chain) => ({
    ...chain,
    rules: chain.rules.flatMap(formerRules),
  }));
  return { ...table, sets, chains };
}

/** A rule for each gateway where there is one with a map. */
function formerRules(rule: NftRule): NftRule[] {
  const by = rule.statements.find((each) => each.kind === "setByMap");
  if (by === undefined) return [rule];
  const port = nft.udpDport(PORT);
  const { target, field } = by;
  return GATEWAYS.flatMap((address) => {
    const [saddr, daddr] = [
      nft.saddrField(address.family),
      nft.daddrField(address.family),
    ];
    const mark = gatewayMark(address);
    if (target === "meta mark" && field === saddr) {
      return [
        nft.rule([
          port,
          nft.saddr(address),
          nft.setMetaMark(mark),
          nft.accept(),
        ]),
      ];
    }
    if (target !== daddr) return [];
    const write = { kind: "setAddress", field: daddr, address } as const;
    return [nft.rule([nft.metaMark(mark), port, write, nft.accept()])];
  });
}

/** Counts datagrams to each gateway that leave the pod, and those with each gateway's mark that come in. */
async function watch({ pod, outside }: PodLab): Promise<void> {
  const counter = (match: string) => `${match} udp dport ${PORT} counter`;
  const ip = (address: Address) => address.family === "ipv4" ? "ip" : "ip6";
  const sent = GATEWAYS.map((each) => counter(`${ip(each)} daddr ${each}`));
  await outside.exec(
    "nft",
    `table inet seen {
      chain c {
        type filter hook prerouting priority -301
        ${sent.join("\n")}
      }
    }`,
  );
  const marked = GATEWAYS.map((each) =>
    counter(`${ip(each)} saddr ${each} meta mark ${gatewayMark(each)}`)
  );
  await pod.exec(
    "nft",
    `table inet seen {
      chain c {
        type filter hook input priority -149
        ${marked.join("\n")}
      }
    }`,
  );
}

async function counts({ pod, outside }: PodLab): Promise<number[]> {
  const both = await Promise.all([outside, pod].map(async (netns) => {
    const text = await listTable(netns, "seen");
    return [...text.matchAll(/counter packets (\d+)/g)].map(([, count]) =>
      Number(count)
    );
  }));
  return both.flat();
}

/** A datagram with each gateway's mark to the Service, and one from each gateway. */
async function exchange({ pod, netns, outsideNetns }: PodLab): Promise<void> {
  for (const gateway of GATEWAYS) {
    const { family } = gateway;
    await pod.exec(
      "nft",
      `table inet marks
       delete table inet marks
       table inet marks {
         chain c {
           type filter hook output priority -301
           udp dport ${PORT} meta mark set ${gatewayMark(gateway)}
         }
       }`,
    );
    const hostname = HOSTS.pod[family];
    const target = { transport: "udp", port: PORT } as const;
    await send(netns, hostname, { ...target, hostname: `${SERVICE[family]}` });
    await send(outsideNetns, `${gateway}`, { ...target, hostname });
  }
}

async function send(
  from: Netns,
  hostname: string,
  to: Deno.NetAddr,
): Promise<void> {
  const socket = inNetns(
    from,
    () => Deno.listenDatagram({ transport: "udp", hostname, port: 0 }),
  );
  await socket.send(new Uint8Array(8), to);
  socket.close();
}

/** Each gateway gets what has its mark, and is known by what it sends. */
async function expectWays(lab: PodLab, times: number): Promise<void> {
  await exchange(lab);
  await eventually("datagrams", async () => {
    const expected = new Array(2 * GATEWAYS.length).fill(times);
    assert.deepEqual(await counts(lab), expected);
    return true;
  });
}

netnsTest(
  "the table of an earlier version, with rules for each gateway, goes on until it becomes one with maps",
  async () => {
    await using lab = await podLab();
    const { pod, netns } = lab;
    const addresses = GATEWAYS.map((each) =>
      `ip address add ${each} dev pod0${each.family === "ipv6" ? " nodad" : ""}`
    );
    await shell(lab.outside, addresses.join("\n"));
    await watch(lab);
    const plan = planOf([EGRESS]);
    assert.equal(plan.choices.length, 2);
    await using socket = NetfilterSocket.open({ netns });
    await socket.replaceTable(formerTable(plan));
    await expectWays(lab, 1);

    // Before the first look at the pod a gateway may be lost.
    const left = new Set(GATEWAYS.slice(0, 1).map(String));
    const later = planOf([EGRESS], { avoided: left, lost: left });
    await applyChoices(later, { netns });
    assert.equal(
      await listTable(pod, "coil"),
      formatTable(formerTable(later)),
    );
    await expectWays(lab, 2);

    const parts = async (): Promise<string[]> =>
      (await handles(pod, "coil")).match(/^\t(set|counter|chain).*/gm) ?? [];
    const before = await parts();
    assert.equal(await socket.replaceTable(tableOf(later)), true);
    assert.equal(await socket.replaceTable(tableOf(later)), false);
    const after = await parts();
    for (const part of before) assert.ok(after.includes(part), part);
    await expectWays(lab, 3);

    // As an earlier version does where coild is rolled back.
    assert.equal(await socket.replaceTable(formerTable(later)), true);
    assert.equal(
      await listTable(pod, "coil"),
      formatTable(formerTable(later)),
    );
    await expectWays(lab, 4);
  },
);
