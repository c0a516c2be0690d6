// What containers with NET_ADMIN do to their own pods keeps no call from its end.
import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { AT_MOST_IN_POD } from "../../lib/netlink/mod.ts";
import {
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  ours,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const NET2: NicSpec = { name: "net2", network: 8, number: 100 };

/** Whether neither side has anything left of the coordinator's. */
async function assertNothingLeft(
  lab: CoordinatorLab,
  { netns }: LabPod,
): Promise<void> {
  const left = [...await stateOf(netns), ...await stateOf(lab.host)];
  assert.deepEqual(ours(left), []);
}

netnsTest(
  "coordinator: DEL goes on where the pod has lost the gateway, or the source, of the default route that another interface gets back",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const lose = {
      gateway: ["route delete 10.7.0.0/24 dev net1"],
      source: [
        "address add 10.9.9.9 dev lo",
        "route replace default via 10.7.0.1 dev net1 table 101 proto 32 src 10.9.9.9",
        "address delete 10.9.9.9/32 dev lo",
      ],
    };
    for (const lines of Object.values(lose)) {
      const pod = await lab.joined([ETH0, NET1]);
      await pod.netns.ip("route", "delete", "default", "dev", "eth0");
      for (const line of lines) await pod.netns.ip(...line.split(" "));
      lab.warnings = [];
      await lab.ok("DEL", pod, { ifname: "eth0" });
      const [warning = "", ...more] = lab.warnings;
      assert.match(warning, /did not get its default route back/);
      assert.deepEqual(more, []);
      await lab.ok("DEL", pod, { ifname: "net1" });
      await assertNothingLeft(lab, pod);
      await pod.netns[Symbol.asyncDispose]();
    }
  },
);

netnsTest(
  "coordinator: DEL goes on where a process of the pod owns the table of reply marks",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    const { netns } = pod;
    await netns.exec("nft", "delete table inet coil-coordinator");
    await using owner = ownerOf(netns.path);
    await owner.add("table inet coil-coordinator { flags owner; }");
    lab.warnings = [];
    await lab.ok("DEL", pod);
    assert.match(lab.warnings.join("\n"), /keeps the table of reply marks/);
    await owner[Symbol.asyncDispose]();
    await assertNothingLeft(lab, pod);
  },
);

/** A process that owns nf_tables tables: they are its own alone, and go with it. */
function ownerOf(path: string) {
  const child = new Deno.Command("nsenter", {
    args: [`--net=${path}`, "nft", "-i"],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const input = child.stdin.getWriter();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let isOpen = true;
  return {
    /** Returns when it is there. */
    async add(what: string): Promise<void> {
      const lines = `add ${what}\nlist ruleset\n`;
      await input.write(new TextEncoder().encode(lines));
      while (!text.includes("owner")) {
        const { done, value = "" } = await output.read();
        assert.ok(!done, text);
        text += value;
      }
    },
    async [Symbol.asyncDispose](): Promise<void> {
      if (!isOpen) return;
      isOpen = false;
      await input.close();
      await output.cancel();
      await child.status;
    },
  };
}

netnsTest(
  "coordinator: a link that is not a pair is left alone, with any alias that a container has given it",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    // As a network card, it cannot be deleted; such a one comes back from a pod with its alias.
    await lab.host.ip("link", "set", "lo", "alias", "COIL-COORD-HUSK:c1:eth0");
    const config = { "cni.dev/valid-attachments": [] };
    await lab.ok("GC", pod, { config });
    await lab.host.ip("link", "set", "lo", "alias", "COIL-COORD:c1:eth0");
    lab.warnings = [];
    await lab.ok("GC", pod, { config });
    assert.equal(lab.warnings.length, 1); // of the pod, which is not in the list
    await lab.host.ip("link", "set", "lo", "alias", "");
    await lab.ok("DEL", pod);
    await assertNothingLeft(lab, pod);
  },
);

netnsTest(
  "coordinator: of an interface that has left the pod DEL takes the rules and routes, also when no result says its addresses",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.joined([ETH0, NET1, NET2]);
    const isOfNet1 = (line: string) => /table 101|lookup 101/.test(line);
    const other = await lab.pod([]);
    await pod.netns.ip("link", "set", "net1", "netns", other.netns.name);
    await lab.ok("DEL", pod, { ifname: "net1" });
    const left = ours(await stateOf(pod.netns));
    assert.deepEqual(left.filter(isOfNet1), []);
    assert.ok(left.some((line) => line.includes("lookup 102")));
    await lab.ok("CHECK", pod, { ifname: "net2" });
    for (const ifname of ["net2", "eth0"]) await lab.ok("DEL", pod, { ifname });
    await assertNothingLeft(lab, pod);
  },
);

netnsTest(
  "coordinator: of a pod's links no more than a bound is read",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    const bounds: (number | undefined)[] = [];
    lab.change = ({ openRoutes, ...outside }) => ({
      ...outside,
      openRoutes(netns) {
        const socket = openRoutes(netns);
        const listLinks = socket.listLinks.bind(socket);
        socket.listLinks = (options) => {
          if (netns !== outside.hostNetns) bounds.push(options?.atMost);
          return listLinks(options);
        };
        return socket;
      },
    });
    await lab.ok("CHECK", pod);
    await lab.ok("DEL", pod);
    assert.deepEqual(bounds, [AT_MOST_IN_POD]);
  },
);

netnsTest(
  "coordinator: CHECK and warnings name the first of very many things, and say how many there are",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0, NET1]);
    const each = (line: (i: number) => string) =>
      Array.from({ length: 60 }, (_, i) => line(i));
    const lines = [
      ...each((i) => `address add 198.18.0.${i + 1}/32 dev net1`),
      ...each((i) => `rule add pref 1101 from 198.19.0.${i} lookup 7`),
    ];
    for (const line of lines) await pod.netns.ip(...line.split(" "));
    lab.warnings = [];
    const { stdout } = await lab.call("CHECK", pod, { ifname: "net1" });
    assert.match(JSON.parse(stdout).details, /; and \d+ more$/);
    assert.ok(stdout.length < 5_000, stdout);
    const warning = lab.warnings.join(" ");
    assert.match(warning, /,and 40 more$/);
    await lab.ok("ADD", pod, { ifname: "net1" });
    await lab.ok("CHECK", pod, { ifname: "net1" });
  },
);
