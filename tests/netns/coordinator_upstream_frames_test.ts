// What a network sees of a pod that upstream's coordinator has joined, and of
// ours: all differences are here, with their reasons.
import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../lib/inet/mod.ts";
import { AgentStub, ensurePeerCoordinator } from "../lab/peer_coordinator.ts";
import {
  addressIn,
  CLUSTER_IP,
  CoordinatorLab,
  interfaceAddressIn,
  type LabPod,
  type NetworkNumber,
  type NicSpec,
  reaches,
  SERVICES,
} from "./coordinator_lab.ts";
import { type Add, addOurs, addUpstreams } from "./coordinator_peer.ts";
import { FrameCapture } from "./frame_capture.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
/** Where the network's frames are seen. */
const PORTS = ["net6", "net7"];
/** Of an echo request to the host that leads to the pod's interface of this network. */
const bytesFor = (network: NetworkNumber) => network * 20;

/** What the frames' MAC addresses are called. */
async function namesOf(
  lab: CoordinatorLab,
  pod: LabPod,
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const places: readonly (readonly [string, TempNetns])[] = [
    ["switch", lab.switch],
    ["host", lab.host],
    ["pod", pod.netns],
  ];
  for (const [place, netns] of places) {
    for (const { ifname, address } of await netns.ipJson("link", "show")) {
      const name = `${ifname}`.replace(/^veth[0-9a-f]{11}$/, "END");
      names.set(`${address}`, `${place}'s ${name}`);
    }
  }
  return names;
}

/** The host's end of the pod's pair. */
async function hostEnd(lab: CoordinatorLab): Promise<string> {
  const links = await lab.host.ipJson("link", "show");
  const end = links.find(({ ifname }) =>
    /^veth[0-9a-f]{11}$/.test(`${ifname}`)
  );
  return `${end?.["ifname"]}`;
}

/** A client of a NodePort whose address is kept: the echo request's size says which interface it is for. */
async function openNodePorts(lab: CoordinatorLab): Promise<void> {
  for (const { network } of [ETH0, NET1]) {
    await lab.host.exec(
      "nft",
      `table ip np${network} { chain pre { type nat hook prerouting priority -101; ` +
        `ip daddr 10.6.0.10 icmp type echo-request ip length ${
          bytesFor(network) + 28
        } ` +
        `dnat to 10.${network}.0.100; }; }`,
    );
  }
}

async function askNodePort(
  lab: CoordinatorLab,
  network: NetworkNumber,
): Promise<void> {
  await lab.switch.tryExec(
    ...["ping", "-n", "-c1", "-W1", "-s", `${bytesFor(network)}`] as [
      string,
      ...string[],
    ],
    ...["-I", "10.8.0.1", "10.6.0.10"],
  );
}

/** A TCP connection to a Service, whose server is not there: the first packet and the refusal tell the way. */
async function askService(pod: TempNetns, family: Family): Promise<void> {
  const host = family === "ipv4" ? CLUSTER_IP.ipv4 : `[${CLUSTER_IP.ipv6}]`;
  await pod.tryExec("curl", "-s", "-m", "60", `http://${host}/`);
}

/** Two interfaces with a MAC prefix, and what is sent then: each frame with its part of the story. */
async function tell(add: Add): Promise<Set<string>> {
  await using lab = await CoordinatorLab.start(FAMILIES);
  await openNodePorts(lab);
  const pod = await lab.pod([]);
  const story = new Set<string>();
  await using stack = new AsyncDisposableStack();
  const captures: FrameCapture[] = [];
  for (const port of PORTS) {
    captures.push(stack.use(await FrameCapture.open(lab.switch, port)));
  }
  const during = async (part: string, happens: () => Promise<unknown>) => {
    for (const capture of captures) capture.take(new Map());
    await happens();
    const names = await namesOf(lab, pod);
    for (const [text, count] of captures.flatMap((c) => [...c.take(names)])) {
      const often = part.endsWith("added")
        ? `, ${count === 1 ? "once" : `${count} times`}`
        : "";
      story.add(`${part}: ${text}${often}`);
    }
  };
  for (const nic of [ETH0, NET1]) {
    await lab.addNic(pod.netns, nic);
    const addresses = FAMILIES.map((family) =>
      interfaceAddressIn(nic.network, family, nic.number)
    );
    const config = { podMACPrefix: "0a:1b" };
    await during(
      `${nic.name} is added`,
      () => add(lab, pod, { name: nic.name, addresses, config }),
    );
  }
  captures.push(
    stack.use(await FrameCapture.open(lab.host, await hostEnd(lab), "END")),
  );
  for (const family of FAMILIES) {
    await during(
      `the pod asks a Service, ${family}`,
      () => askService(pod.netns, family),
    );
    for (const { name, network } of [ETH0, NET1]) {
      const address = addressIn(network, family, 100);
      const source = addressIn(8, family, 1);
      await during(
        `the host asks ${name}, ${family}`,
        () => reaches(lab.host, address),
      );
      await during(
        `the network asks ${name}, ${family}`,
        () => reaches(lab.switch, address, { source }),
      );
    }
  }
  for (const { name, network } of [ETH0, NET1]) {
    await during(
      `a NodePort leads to ${name}`,
      () => askNodePort(lab, network),
    );
  }
  return story;
}

const ADVERTISED =
  "RFC 4861, 7.2.6: neighbours take a changed address from an advertisement; none of upstream's is seen";
const ANNOUNCED = "as often as RFC 5227 says: one may get lost";
const BY_NODE =
  "what came by the node is answered by the node: who asked it knows no other address";

/** What is seen of one of the two only, and why. */
const DIFFERENCES: Readonly<
  Record<"onlyOurs" | "onlyUpstream", Readonly<Record<string, string>>>
> = {
  onlyOurs: {
    "a NodePort leads to net1: END: pod's veth0 > host's END: 10.7.0.100 to 10.8.0.1, reply":
      BY_NODE,
    "a NodePort leads to net1: net6: host's net6 > switch's net6: 10.6.0.10 to 10.8.0.1, reply":
      BY_NODE,
    "eth0 is added: net6: pod's eth0 > all: ARP 10.6.0.100 asks for 10.6.0.100, 3 times":
      ANNOUNCED,
    "eth0 is added: net6: pod's eth0 > all: fd00:10:6::100 to ff02::1, advertisement of fd00:10:6::100, 3 times":
      ADVERTISED,
    "net1 is added: net7: pod's net1 > all: ARP 10.7.0.100 asks for 10.7.0.100, 3 times":
      ANNOUNCED,
    "net1 is added: net7: pod's net1 > all: fd00:10:7::100 to ff02::1, advertisement of fd00:10:7::100, 3 times":
      ADVERTISED,
  },
  onlyUpstream: {
    "a NodePort leads to net1: net7: pod's net1 > switch's net7: 10.7.0.100 to 10.8.0.1, reply":
      BY_NODE,
    "eth0 is added: net6: pod's eth0 > all: ARP 10.6.0.100 asks for 10.6.0.100, once":
      ANNOUNCED,
    "net1 is added: net7: pod's net1 > all: ARP 10.7.0.100 asks for 10.7.0.100, once":
      ANNOUNCED,
  },
};

netnsTest(
  "coordinator: a network sees of a pod what it sees with upstream's, but for what is listed here",
  async () => {
    const plugin = await ensurePeerCoordinator();
    const directory = await Deno.makeTempDir();
    const serviceCIDR = Object.values(SERVICES);
    await using _agent = await AgentStub.start({ serviceCIDR });
    const ours = await tell(addOurs);
    const theirs = await tell(addUpstreams(plugin, directory));
    await Deno.remove(directory, { recursive: true });
    assert.ok(ours.size > 30);
    assert.deepEqual(
      {
        onlyOurs: [...ours.difference(theirs)].sort(),
        onlyUpstream: [...theirs.difference(ours)].sort(),
      },
      {
        onlyOurs: Object.keys(DIFFERENCES.onlyOurs).sort(),
        onlyUpstream: Object.keys(DIFFERENCES.onlyUpstream).sort(),
      },
    );
  },
);
