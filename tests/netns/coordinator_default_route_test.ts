// Which interface has the pod's default route, when calls do not agree about it.
import assert from "node:assert/strict";
import { DEFAULT_ROUTE_NIC_ANNOTATION } from "../../lib/names/mod.ts";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  addressIn,
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  overlayAddress,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const FAR: Readonly<Record<Family, string>> = {
  ipv4: "198.51.100.1",
  ipv6: "2001:db8::1",
};

interface World {
  readonly join: (lab: CoordinatorLab) => Promise<LabPod>;
  readonly eth0: (family: Family) => string;
}

const WORLDS: Readonly<Record<string, World>> = {
  underlay: {
    join: (lab) => lab.joined([ETH0]),
    eth0: (family) => addressIn(6, family, 100),
  },
  overlay: {
    join: (lab) => lab.joined([], { overlay: 5 }),
    eth0: (family) => overlayAddress(family, 5),
  },
};

async function assertDefault(pod: LabPod, nic: string): Promise<void> {
  for (const family of FAMILIES) {
    const way = await pod.netns.ip("route", "get", FAR[family]);
    assert.match(way, new RegExp(` dev ${nic} `), family);
  }
}

for (const [mode, { join, eth0 }] of Object.entries(WORLDS)) {
  netnsTest(
    `coordinator: the default route stays where it is when no interface is named again, and goes to another one that is, ${mode}`,
    async () => {
      await using lab = await CoordinatorLab.start(FAMILIES);
      const pod = await join(lab);
      await lab.addNic(pod.netns, NET1);
      const look = async () => [
        await stateOf(pod.netns),
        await stateOf(lab.host),
      ];
      const call = (command: "ADD" | "CHECK", podDefaultRouteNic = "") =>
        lab.ok(command, pod, {
          ifname: "net1",
          config: { podDefaultRouteNic },
        });
      await call("ADD", "net1");
      const kept = await look();
      await assertDefault(pod, "net1");
      await call("CHECK");
      await call("ADD");
      assert.deepEqual(await look(), kept);
      await call("ADD", "eth0");
      await assertDefault(pod, "eth0");
      const given = await look();
      for (const named of ["eth0", ""]) {
        await call("CHECK", named);
        await call("ADD", named);
        assert.deepEqual(await look(), given, named);
      }
      await call("ADD", "net1");
      await assertDefault(pod, "net1");
      await call("CHECK", "net1");
      for (const family of FAMILIES) {
        for (const address of [eth0(family), addressIn(7, family, 100)]) {
          assert.ok(await reaches(lab.host, address), address);
        }
        const net1 = addressIn(7, family, 100);
        const source = addressIn(6, family, 1);
        assert.ok(await reaches(lab.switch, net1, { source }), net1);
      }
      assert.deepEqual(lab.warnings.filter((text) => !/annot/.test(text)), []);
    },
  );
}

netnsTest(
  "coordinator: CHECK goes by the pod's annotation, and by what is there when it is not known",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const annotated = (ask: () => Promise<string | undefined>) => {
      lab.change = (outside) => ({
        ...outside,
        shared: () => ({ given: { defaultRouteNic: "eth0" } }),
        async annotationsOf() {
          const nic = await ask();
          return nic === undefined
            ? undefined
            : { [DEFAULT_ROUTE_NIC_ANNOTATION]: nic };
        },
      });
    };
    const pod = await lab.joined([ETH0]);
    await lab.addNic(pod.netns, NET1);
    const net1 = { ifname: "net1" };
    annotated(() => Promise.resolve("net1"));
    await lab.ok("ADD", pod, net1);
    await lab.ok("CHECK", pod, net1);
    annotated(() => Promise.resolve("eth0"));
    assert.match(await lab.refusal("CHECK", pod, net1), /not as ADD made it/);
    annotated(() => Promise.reject(new Error("no API server")));
    await lab.ok("CHECK", pod, net1);
    annotated(() => Promise.resolve(undefined));
    await lab.ok("CHECK", pod, net1);
  },
);
