// Connections of pods that are gone, as coild makes the node forget them, against /proc/net/nf_conntrack.
import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { ConntrackSocket } from "../../lib/netlink/mod.ts";
import { StaleFlows } from "../../roles/coild/network/stale_flows.ts";
import { keepFlows, netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const [A, B, C, D] = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"] as const;
const [A6, B6] = ["fd01::1", "fd01::2"] as const;
/** Is translated to B. */
const SERVICE = "10.9.9.9";

/** A node with all these addresses, which tracks connections. */
async function makeNode(): Promise<TempNetns> {
  const node = await tempNetns("node");
  await node.ip("link", "set", "lo", "up");
  await keepFlows(node);
  for (const address of [A, B, C, D]) {
    await node.ip("addr", "add", `${address}/32`, "dev", "lo");
  }
  for (const address of [A6, B6]) {
    await node.ip("addr", "add", `${address}/128`, "dev", "lo", "nodad");
  }
  await node.ip("route", "add", "local", SERVICE, "dev", "lo");
  await node.exec(
    "nft",
    "add table inet t; add chain inet t out " +
      "{ type nat hook output priority -100; }; " +
      `add rule inet t out ip daddr ${SERVICE} dnat ip to ${B}; ` +
      "add rule inet t out ct state new",
  );
  return node;
}

async function ping(node: TempNetns, from: string, to: string): Promise<void> {
  await node.exec("ping", "-c1", "-w20", "-I", from, to);
}

/** The connections as "SOURCE>DESTINATION", before translation. */
async function flowsOf(node: TempNetns): Promise<string[]> {
  const text = await node.exec("cat", "/proc/net/nf_conntrack");
  return Array.from(
    text.matchAll(/^.*? src=(\S+) dst=(\S+)/gm),
    ([, source = "", destination = ""]) =>
      `${Address.parse(source)}>${Address.parse(destination)}`,
  ).sort();
}

function staleFlows(
  node: TempNetns,
  isFree: (address: Address) => boolean = () => true,
): StaleFlows {
  const open = () => {
    using netns = Netns.open(node.path);
    return ConntrackSocket.open({ netns });
  };
  return new StaleFlows({ isFree, open });
}

netnsTest(
  "coild makes the node forget the connections from and to a freed address, also those of a Service, and no other",
  async () => {
    await using node = await makeNode();
    await ping(node, A, C);
    await ping(node, C, B);
    await ping(node, C, SERVICE);
    await ping(node, C, D);
    await ping(node, A6, B6);
    assert.deepEqual(await flowsOf(node), [
      `${A}>${C}`,
      `${C}>${B}`,
      `${C}>${D}`,
      `${C}>${SERVICE}`,
      `${A6}>${B6}`,
    ]);
    const flows = staleFlows(node);
    await flows.forget();
    assert.equal((await flowsOf(node)).length, 5, "of no address");
    flows.freed([Address.parse(B)]);
    await flows.forget();
    assert.deepEqual(await flowsOf(node), [
      `${A}>${C}`,
      `${C}>${D}`,
      `${A6}>${B6}`,
    ]);
    flows.freed([Address.parse(A), Address.parse(B6)]);
    await flows.forget();
    assert.deepEqual(await flowsOf(node), [`${C}>${D}`]);
  },
);

netnsTest(
  "coild leaves the connections of an address alone that another pod got in the meantime",
  async () => {
    await using node = await makeNode();
    await ping(node, A, C);
    await ping(node, B, C);
    const flows = staleFlows(node, (address) => address.toString() !== A);
    flows.freed([Address.parse(A), Address.parse(B)]);
    await flows.forget();
    assert.deepEqual(await flowsOf(node), [`${A}>${C}`]);
  },
);
