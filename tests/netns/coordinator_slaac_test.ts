// Interfaces whose IPv6 address and default route a router has advertised.
import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { FAMILIES, Prefix } from "../../lib/inet/mod.ts";
import { failing } from "./coordinator_faults.ts";
import {
  addressIn,
  CoordinatorLab,
  fetched,
  type LabPod,
  type NetworkNumber,
  type NicSpec,
  ours,
  prefixOf,
  reaches,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { advertise } from "./router_advertisement.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = {
  name: "eth0",
  network: 6,
  number: 100,
  families: ["ipv4"],
};
const NET1: NicSpec = { ...ETH0, name: "net1", network: 7 };

/** Has the switch advertise itself, until the interface has an address by that: the address. */
async function addressByRouter(
  lab: CoordinatorLab,
  { netns }: LabPod,
  { name, network }: NicSpec,
): Promise<string> {
  let found = "";
  await untilPasses(async () => {
    await advertiseOn(lab, network);
    const text = await netns.ip(
      ...["-6", "address", "show", "dev", name, "scope", "global"],
      "-tentative",
    );
    const [, address] = /inet6 ([^/]+)\/64 .*dynamic/.exec(text) ?? [];
    assert.ok(address, text);
    found = address;
  });
  return found;
}

async function advertiseOn(
  lab: CoordinatorLab,
  network: NetworkNumber,
): Promise<void> {
  const prefix = Prefix.parse(`${prefixOf(network, "ipv6")}/64`);
  await advertise(lab.switch, `net${network}`, prefix);
}

/** The links by which the main table has default routes. */
async function defaultLinks({ netns }: LabPod): Promise<string[]> {
  const rows = await netns.ipJson("-6", "route", "show", "default");
  return rows.map(({ dev }) => String(dev));
}

/** What expires does so in the end. */
async function state({ netns }: LabPod): Promise<string[]> {
  const lines = [
    ...await stateOf(netns),
    await netns.exec("sysctl", "net.ipv6.conf.net1.accept_ra_defrtr"),
    // stateOf() leaves out what has a link-local address.
    await netns.ip("-6", "route", "show", "default"),
  ];
  return lines.map((line) => line.replaceAll(/\d+sec/g, "soon"));
}

/** An ADD of the second interface, refused at each step, leaves what the router has advertised; the last one is done. */
async function failsEverywhere(
  lab: CoordinatorLab,
  pod: LabPod,
): Promise<void> {
  const before = await state(pod);
  for (let step = 0;; step++) {
    const at = { left: step };
    lab.change = failing(at);
    const { exitCode } = await lab.call("ADD", pod, { ifname: "net1" });
    lab.change = (outside) => outside;
    if (at.left >= 0) return;
    assert.equal(exitCode, 1, `step ${step}`);
    assert.deepEqual(await state(pod), before, `step ${step}`);
  }
}

netnsTest(
  "coordinator: interfaces with addresses and default routes of router advertisements answer each by itself, and go on so after the next advertisement",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const config = {
      detectIPConflict: true,
      detectGateway: true,
      // On a busy machine the kernel's answers take long.
      detectOptions: { timeout: "2s" },
      podRPFilter: 1,
    };
    const pod = await lab.pod([ETH0]);
    const first = await addressByRouter(lab, pod, ETH0);
    await lab.ok("ADD", pod, { config });
    await lab.addNic(pod.netns, NET1);
    const second = await addressByRouter(lab, pod, NET1);
    assert.deepEqual((await defaultLinks(pod)).toSorted(), ["eth0", "net1"]);
    await failsEverywhere(lab, pod);
    await lab.ok("ADD", pod, { ifname: "net1", config });
    const check = async () => {
      assert.deepEqual(await defaultLinks(pod), ["eth0"]);
      const own = await pod.netns.ip("-6", "route", "show", "table", "101");
      assert.match(own, /^default via fe80:\S+ dev net1 proto 32/m);
      assert.doesNotMatch(own, /expires/);
      const rules = await pod.netns.ip("-6", "rule");
      assert.match(rules, new RegExp(`from ${second} lookup 101 proto 32`));
      for (const [address, other] of [[first, 7], [second, 6]] as const) {
        const source = addressIn(other, "ipv6", 1);
        assert.ok(await reaches(lab.switch, address, { source }), address);
        assert.ok(await reaches(lab.host, address), address);
      }
      await lab.ok("CHECK", pod, { config });
      await lab.ok("CHECK", pod, { ifname: "net1", config });
    };
    await check();
    await serving(lab, async () => {
      for (const source of [first, second]) {
        const seen = await fetched(pod.netns, "ipv6", { source });
        assert.equal(seen, source);
      }
    });
    const before = await state(pod);
    for (const network of [6, 7] as const) await advertiseOn(lab, network);
    // Its default route would be back before its answer.
    assert.ok(await reaches(pod.netns, addressIn(7, "ipv6", 1)));
    await check();
    assert.deepEqual(await state(pod), before);
    for (const ifname of ["net1", "eth0"]) await lab.ok("DEL", pod, { ifname });
    const left = [...await stateOf(pod.netns), ...await stateOf(lab.host)];
    assert.deepEqual(ours(left), []);
  },
);

netnsTest(
  "coordinator: an interface that has only an address of a router advertisement is joined by it, and one without any is refused",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv6"]);
    const nic = { ...ETH0, families: [] };
    const pod = await lab.pod([nic]);
    const before = [await stateOf(pod.netns), await stateOf(lab.host)];
    assert.equal(
      await lab.refusal("ADD", pod),
      '7 no usable IP addresses on "eth0"',
    );
    assert.deepEqual(
      [await stateOf(pod.netns), await stateOf(lab.host)],
      before,
    );
    const address = await addressByRouter(lab, pod, nic);
    await lab.ok("ADD", pod);
    await lab.ok("CHECK", pod);
    assert.ok(await reaches(lab.host, address));
    assert.ok(await reaches(pod.netns, addressIn(6, "ipv6", 10)));
  },
);
