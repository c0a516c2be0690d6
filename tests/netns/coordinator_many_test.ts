// A pod with very many interfaces, and the runtime's GC beside its ADDs.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { awaitedLater } from "../lab/wait.ts";
import {
  addressIn,
  CoordinatorLab,
  interfaceAddressIn,
  type LabPod,
  type NetworkNumber,
  type NicSpec,
  ours,
  reaches,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const INTERFACES = 20;
/** Addresses that a pod with NET_ADMIN has given itself. */
const MANY = 3_000;
const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const NICS: readonly NicSpec[] = Array.from(
  { length: INTERFACES },
  (_, i) =>
    i === 0 ? ETH0 : {
      name: `net${i}`,
      network: 7 + i % 2 as NetworkNumber,
      number: 100 + i,
    },
);

/** All of them, in an order without one. */
const MIXED = NICS.map((_, i) => NICS[i * 7 % INTERFACES] ?? ETH0);

netnsTest(
  `coordinator: each of ${INTERFACES} interfaces answers by itself, and they come and go in any order`,
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.joined(NICS);
    const verify = async (nics: readonly NicSpec[]) => {
      for (const { name: ifname, network, number } of nics) {
        await lab.ok("CHECK", pod, { ifname });
        for (const family of FAMILIES) {
          const address = addressIn(network, family, number);
          const far = addressIn(network === 6 ? 7 : 6, family, 1);
          const way = await pod.netns.ip("route", "get", far, "from", address);
          assert.match(way, new RegExp(` dev ${ifname} `));
        }
      }
    };
    const tables = async () =>
      new Set((await pod.netns.ip("rule")).match(/lookup 1\d\d/g)).size;
    await verify(NICS);
    assert.equal(await tables(), INTERFACES); // that of answers to the host, too, and eth0 has another
    for (
      const { network, number } of [NICS[1], NICS.at(-1), ETH0] as NicSpec[]
    ) {
      assert.ok(await reaches(lab.host, addressIn(network, "ipv4", number)));
    }

    // The last ones go, the last one first; ADD in any order, twice.
    const [kept, last] = [NICS.slice(0, 10), NICS.slice(10)];
    for (const { name: ifname } of last.toReversed()) {
      await lab.ok("DEL", pod, { ifname });
      await pod.netns.ip("link", "delete", ifname);
    }
    await verify(kept);
    const back = MIXED.filter((nic) => last.includes(nic));
    for (const nic of back) await lab.addNic(pod.netns, nic);
    for (const { name: ifname } of [...back, ...back.toReversed()]) {
      await lab.ok("ADD", pod, { ifname });
    }
    await verify(MIXED);
    assert.equal(await tables(), INTERFACES);

    // The DELs of some are lost.
    const lost = MIXED.slice(1, 5);
    for (const { name } of lost) await pod.netns.ip("link", "delete", name);
    const valid = [{ containerID: pod.containerId, ifname: "eth0" }];
    await lab.ok("GC", pod, {
      prevResult: null,
      config: { "cni.dev/valid-attachments": valid },
    });
    const host = (await stateOf(lab.host)).join("\n");
    for (const { network, number } of lost) {
      assert.ok(!host.includes(`${addressIn(network, "ipv4", number)} `));
    }
    const left = MIXED.filter((nic) => !lost.includes(nic));
    await verify(left);
    for (const { name: ifname } of left.slice(1).toReversed()) {
      await lab.ok("DEL", pod, { ifname });
    }
    // Of what is gone the result of ADD says which addresses it had.
    for (const { name: ifname, network, number } of lost) {
      const ips = FAMILIES.map((family) => ({
        address: interfaceAddressIn(network, family, number),
      }));
      const prevResult = { cniVersion: "1.1.0", ips };
      await lab.ok("DEL", pod, { ifname, prevResult });
    }
    await lab.ok("DEL", pod);
    const state = [...await stateOf(pod.netns), ...await stateOf(lab.host)];
    assert.deepEqual(ours(state), []);
  },
);

netnsTest(
  "coordinator: GC with a list that lacks pods whose ADD is under way takes nothing of theirs",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pods: LabPod[] = [];
    for (let i = 0; i < 8; i++) {
      pods.push(await lab.pod([{ ...ETH0, number: 100 + i }]));
    }
    const [first] = pods;
    assert.ok(first !== undefined);
    let looks = 0;
    // All namespaces are looked at once for all pods.
    lab.change = (outside) => ({
      ...outside,
      openNamespaces() {
        looks++;
        return outside.openNamespaces();
      },
    });
    let collections = 0;
    const collect = async () => {
      collections++;
      await lab.ok("GC", first, {
        prevResult: null,
        config: { "cni.dev/valid-attachments": [] },
      });
    };
    const all = async (command: "ADD" | "DEL") => {
      for (const pod of pods) await lab.ok(command, pod);
    };
    for (let round = 0; round < 3; round++) {
      let isOver = false;
      const adding = awaitedLater(all("ADD").finally(() => isOver = true));
      do await collect(); while (!isOver);
      await adding;
      if (round < 2) await all("DEL");
    }
    for (const pod of pods) await lab.ok("CHECK", pod);
    assert.match(lab.warnings.join("\n"), /Kept a pair: its container is not/);
    assert.equal(looks, collections);
  },
);

netnsTest(
  "coordinator: of a pod with very many addresses GC keeps none but those that the host has routes to",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0, NET1]);
    const lines = Array.from(
      { length: MANY },
      (_, i) => `address add 198.18.${i >> 8}.${i & 255}/32 dev lo`,
    );
    const file = await Deno.makeTempFile();
    await Deno.writeTextFile(file, lines.join("\n"));
    await pod.netns.ip("-batch", file);
    await Deno.remove(file);
    await pod.netns.ip("link", "delete", NET1.name);
    let most = 0;
    lab.change = (outside) => ({
      ...outside,
      openRoutes(netns) {
        const socket = outside.openRoutes(netns);
        const list = socket.listAddresses.bind(socket);
        socket.listAddresses = async (...args) => {
          const found = await list(...args);
          most = Math.max(most, found.length);
          return found;
        };
        return socket;
      },
    });
    await lab.ok("GC", pod, {
      prevResult: null,
      config: { "cni.dev/valid-attachments": [] },
    });
    assert.equal(most, 1);
    const routes = await lab.host.ip("route", "show", "table", "500");
    assert.deepEqual(routes.match(/^10\.\S+/gm), ["10.6.0.100"]);
    await lab.ok("CHECK", pod);
  },
);

netnsTest(
  "coordinator: GC takes nothing of a pod whose namespace is not at its path any longer",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    // It has no interface of the name.
    const { netns: other } = await lab.pod([]);
    lab.change = (outside) => ({
      ...outside,
      openNamespaces: () => ({
        ofPeer: () => Promise.resolve(outside.openPodNetns(other.path)),
        [Symbol.dispose]() {},
      }),
    });
    await lab.ok("GC", pod, {
      prevResult: null,
      config: { "cni.dev/valid-attachments": [] },
    });
    await lab.ok("CHECK", pod);
  },
);
