// Whose network namespace it is: numbers, names and addresses are given again.
import assert from "node:assert/strict";
import { Address } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { findPodNetns } from "../../lib/podnet/netns/find_netns.ts";
import { NetnsIndex } from "../../lib/podnet/netns/mod.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const ADDRESS = "10.1.2.1";

/** Makes a pair whose end in the pod is `eth0` and has the address. */
async function join(
  host: TempNetns,
  pod: TempNetns,
  { index, peerIndex }: { readonly index: number; readonly peerIndex: number },
): Promise<void> {
  await host.ip(
    ...["link", "add", "veth0", "index", String(index), "type", "veth"],
    ...["peer", "name", "eth0", "index", String(peerIndex)],
    ...["netns", pod.name],
  );
  await pod.ip("address", "add", `${ADDRESS}/32`, "dev", "eth0");
}

netnsTest(
  "findPodNetns() takes no namespace for the pod's whose interface has one index of the pair alone",
  async () => {
    await using host = await tempNetns("host");
    await using pod = await tempNetns("pod");
    await join(host, pod, { index: 101, peerIndex: 201 });
    await using elsewhere = await tempNetns("host");
    await using sameOwn = await tempNetns("pod");
    await join(elsewhere, sameOwn, { index: 102, peerIndex: 201 });
    await using another = await tempNetns("host");
    await using samePeer = await tempNetns("pod");
    await join(another, samePeer, { index: 101, peerIndex: 202 });

    using hostNetns = Netns.open(host.path);
    using socket = RouteSocket.open({ netns: hostNetns });
    const link = await socket.getLink({ name: "veth0" });
    assert.ok(link);
    const outside = {
      link,
      ifname: "eth0",
      addresses: { ipv4: Address.parse(ADDRESS) },
    };
    for (const likely of [sameOwn, samePeer, pod]) {
      using found = await findPodNetns(outside, {
        likelyPath: likely.path,
        index: new NetnsIndex(socket),
      });
      assert.equal(found?.path, pod.path);
    }
  },
);
