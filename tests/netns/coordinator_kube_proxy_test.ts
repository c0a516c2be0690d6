// Underlay pod to overlay pod of another node, by TCP: the known drop, and its ways out.
import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { serveOutside } from "../vm/egress_outside.ts";
import { CoordinatorLab } from "./coordinator_lab.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const OVERLAY = "10.244.2.0/24";
const SERVER = "10.244.2.5";

/** A pod of another node, which answers underlay pods by the network between: no link leads to them from there. */
async function podElsewhere(lab: CoordinatorLab): Promise<TempNetns> {
  const pod = await tempNetns("far");
  await lab.switch.ip(
    ...["link", "add", "far", "type", "veth"],
    ...["peer", "name", "eth0", "netns", pod.name],
  );
  await lab.switch.ip("link", "set", "far", "up");
  await lab.switch.ip("address", "add", "10.244.2.1/24", "dev", "far");
  await pod.ip("link", "set", "eth0", "up");
  await pod.ip("address", "add", `${SERVER}/24`, "dev", "eth0");
  await pod.ip("route", "add", "default", "via", "10.244.2.1");
  await lab.host.ip("route", "add", OVERLAY, "via", "10.6.0.1");
  return pod;
}

netnsTest(
  "coordinator: a Service proxy that drops invalid packets cuts TCP to overlay pods of other nodes, and one that does not lets it pass",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await using far = await podElsewhere(lab);
    using farNetns = Netns.open(far.path);
    await using _server = serveOutside(farNetns, [SERVER]);
    const config = { overlayPodCIDR: [OVERLAY] };
    const nics = [{ name: "eth0", network: 6, number: 100 }] as const;
    const pod = await lab.joined(nics, { config });
    const ask = async () => {
      const { stdout } = await pod.netns.tryExec(
        ...["curl", "-s", "-m", "3", `http://${SERVER}/0`] as const,
      );
      return stdout.trim();
    };
    // kube-proxy's rule, mode iptables.
    const drop = "add rule inet proxy forward ct state invalid drop";
    await lab.host.exec(
      "nft",
      "add table inet proxy; add chain inet proxy forward " +
        `{ type filter hook forward priority 0; }; ${drop}`,
    );
    assert.equal(await ask(), "", "dropped");
    const ping = ["ping", "-n", "-c1", "-w20", SERVER] as const;
    const echo = await pod.netns.tryExec(...ping);
    assert.equal(echo.code, 0, "only TCP has states that do not fit");
    // As in mode ipvs, and in mode iptables with nf_conntrack_tcp_be_liberal=1.
    await lab.host.exec("nft", "flush chain inet proxy forward");
    await untilPasses(async () => assert.equal(await ask(), "10.6.0.100"));
  },
);
