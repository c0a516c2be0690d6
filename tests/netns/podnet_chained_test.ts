import assert from "node:assert/strict";
import { Address, type DualStack } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import {
  ChainedNetwork,
  IfnameMissingError,
  NetnsNotFoundError,
  PodCheckError,
} from "../../lib/podnet/mod.ts";
import { findByAddress } from "../../lib/podnet/state/address_search.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

/** Of this run alone: pods are found by address among all namespaces of the machine. */
const [RUN = 0] = crypto.getRandomValues(new Uint8Array(1));

const ADDRESSES: DualStack<Address> = {
  ipv4: ipv4(2),
  ipv6: Address.parse(`fd77:${RUN.toString(16)}::2`),
};

function ipv4(n: number): Address {
  return Address.parse(`10.77.${RUN}.${n}`);
}

/** A host with a chained network, and pods that other plugins made. */
class Bed implements AsyncDisposable {
  readonly host: TempNetns;
  readonly net: ChainedNetwork;
  readonly #stack: AsyncDisposableStack;
  #pods = 0;

  private constructor(host: TempNetns, stack: AsyncDisposableStack) {
    this.host = host;
    this.#stack = stack;
    this.net = this.restart();
  }

  static async start(): Promise<Bed> {
    const stack = new AsyncDisposableStack();
    return new Bed(stack.use(await tempNetns("host")), stack);
  }

  /** As another process. */
  restart(): ChainedNetwork {
    const hostNetns = this.#stack.use(Netns.open(this.host.path));
    return this.#stack.use(ChainedNetwork.open({ hostNetns }));
  }

  /** A pod with a veth pair, as of ptp or bridge. */
  async veth(
    addresses: DualStack<Address> = ADDRESSES,
  ): Promise<{ pod: TempNetns; hostName: string }> {
    const pod = this.#stack.use(await tempNetns("pod"));
    const hostName = `h${++this.#pods}`;
    await this.host.ip(
      ...["link", "add", hostName, "type", "veth"],
      ...["peer", "name", "eth0", "netns", pod.name],
    );
    await this.host.ip("link", "set", hostName, "up");
    await address(pod, addresses);
    return { pod, hostName };
  }

  /** A pod with a macvlan: its parent is on the host, and no end of it. */
  async macvlan(
    addresses: DualStack<Address> = ADDRESSES,
  ): Promise<TempNetns> {
    const pod = this.#stack.use(await tempNetns("pod"));
    const parent = `p${++this.#pods}`;
    await this.host.ip("link", "add", parent, "type", "bridge");
    await this.host.ip(
      ...["link", "add", "link", parent, "name", "tmp", "type", "macvlan"],
      ...["mode", "bridge"],
    );
    await this.host.ip("link", "set", "tmp", "netns", pod.name, "name", "eth0");
    await address(pod, addresses);
    return pod;
  }

  async aliasOf(name: string): Promise<unknown> {
    const [link] = await this.host.ipJson("link", "show", name);
    return link?.["ifalias"];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

async function address(
  pod: TempNetns,
  { ipv4, ipv6 }: DualStack<Address>,
): Promise<void> {
  await pod.ip("link", "set", "eth0", "up");
  if (ipv4) await pod.ip("address", "add", `${ipv4}/24`, "dev", "eth0");
  if (ipv6) {
    await pod.ip("address", "add", `${ipv6}/64`, "dev", "eth0", "nodad");
  }
}

function podOf(id: string, addresses: DualStack<Address> = ADDRESSES) {
  return { id, ifname: "eth0", addresses };
}

/** Whether `openNetns()` leads to the pod. */
async function leadsTo(
  net: ChainedNetwork,
  id: string,
  { path }: TempNetns,
): Promise<boolean> {
  using netns = await net.openNetns(podOf(id));
  using wanted = Netns.open(path);
  return netns?.sameAs(wanted) === true;
}

netnsTest(
  "W47: adopt() marks the pod's other end, beside the links of other pods",
  async () => {
    await using bed = await Bed.start();
    const { pod, hostName } = await bed.veth();
    await bed.veth({ ipv4: ipv4(3) });
    const request = { ...podOf("u1"), netnsPath: pod.path };
    assert.deepEqual(await bed.net.adopt(request), { hostName });
    assert.equal(await bed.aliasOf(hostName), "COIL::u1:eth0");
    // Again, and for a pod that has the place of an earlier one.
    assert.deepEqual(await bed.net.adopt(request), { hostName });
    await bed.net.adopt({ ...request, id: "u2" });
    assert.equal(await bed.aliasOf(hostName), "COIL::u2:eth0");
  },
);

netnsTest("adopt() leaves an alias alone that somebody else gave", async () => {
  await using bed = await Bed.start();
  const { pod, hostName } = await bed.veth();
  await bed.host.ip("link", "set", hostName, "alias", "mine");
  const request = { ...podOf("u1"), netnsPath: pod.path };
  assert.deepEqual(await bed.net.adopt(request), {});
  assert.equal(await bed.aliasOf(hostName), "mine");
  await bed.net.check(request);
  assert.ok(await leadsTo(bed.net, "u1", pod));
  await bed.net.abandon(podOf("u1"));
  assert.equal(await bed.aliasOf(hostName), "mine");
});

netnsTest(
  "adopt() takes no link of another namespace for the host's end",
  async () => {
    await using bed = await Bed.start();
    const { pod: middle } = await bed.veth();
    await using pod = await tempNetns("pod");
    // As of a pod behind another one; its peer's index may well be one of the host's.
    await middle.ip(
      ...["link", "add", "inner", "type", "veth"],
      ...["peer", "name", "eth0", "netns", pod.name],
    );
    await address(pod, ADDRESSES);
    const request = { ...podOf("u1"), netnsPath: pod.path };
    assert.deepEqual(await bed.net.adopt(request), {});
    assert.equal((await bed.host.ip("-d", "link")).includes("COIL"), false);
  },
);

netnsTest(
  "adopt() remembers where a pod is of which nothing else tells",
  async () => {
    await using bed = await Bed.start();
    const pod = await bed.macvlan();
    await bed.macvlan();
    await bed.net.adopt({ ...podOf("u1"), netnsPath: pod.path });
    assert.ok(await leadsTo(bed.net, "u1", pod));
    assert.equal(await bed.restart().openNetns(podOf("u1")), undefined);
  },
);

netnsTest("adopt() says what is missing", async () => {
  await using bed = await Bed.start();
  const { pod } = await bed.veth();
  const request = { ...podOf("u1"), netnsPath: pod.path };
  await assert.rejects(
    bed.net.adopt({ ...request, ifname: "net1" }),
    (error) =>
      error instanceof IfnameMissingError && /"net1"/.test(error.message),
  );
  await assert.rejects(
    bed.net.adopt({ ...request, netnsPath: "/run/netns/absent" }),
    NetnsNotFoundError,
  );
  await assert.rejects(
    bed.net.adopt({ ...request, netnsPath: bed.host.path }),
    TypeError,
  );
});

netnsTest("abandon() forgets where a pod is", async () => {
  await using bed = await Bed.start();
  const { pod } = await bed.veth();
  const known = podOf("u1", {});
  await bed.net.adopt({ ...known, netnsPath: pod.path });
  await bed.net.check(known);
  await bed.net.abandon(known);
  await assert.rejects(bed.net.check(known), PodCheckError);
});

netnsTest("abandon() takes the mark off", async () => {
  await using bed = await Bed.start();
  const { pod, hostName } = await bed.veth();
  await bed.net.adopt({ ...podOf("u1"), netnsPath: pod.path });
  await bed.net.abandon(podOf("u1"));
  assert.equal(await bed.aliasOf(hostName), undefined);
  await bed.net.abandon(podOf("u1"));
});

netnsTest(
  "find() finds pods by mark, or by address, after a restart",
  async () => {
    await using bed = await Bed.start();
    const { pod: marked } = await bed.veth();
    const bareAddresses = { ipv4: ipv4(3) };
    const bare = await bed.macvlan(bareAddresses);
    await bed.net.adopt({ ...podOf("u1"), netnsPath: marked.path });
    const net = bed.restart();
    const pods = [
      podOf("u1"),
      podOf("u2", bareAddresses),
      podOf("u3", { ipv4: ipv4(4) }),
      podOf("u4", {}),
    ];
    const found = await net.find(pods);
    assert.deepEqual(found.map(({ id }) => id), ["u1", "u2"]);
    assert.ok(await leadsTo(net, "u1", marked));
    using netns = await net.openNetns(podOf("u2", bareAddresses));
    using wanted = Netns.open(bare.path);
    assert.ok(netns?.sameAs(wanted));
    assert.equal(await net.openNetns(podOf("u3", {})), undefined);
  },
);

netnsTest(
  "findByAddress() does not find a pod without addresses, even in a node's only pod namespace",
  async () => {
    await using bed = await Bed.start();
    const { pod } = await bed.veth();
    using hostNetns = Netns.open(bed.host.path);
    const pods = [podOf("u1"), podOf("u2", {})];
    const options = { hostNetns, among: [pod.path] };
    const found = await findByAddress(pods, options);
    assert.deepEqual([...found], [[pods[0], pod.path]]);
  },
);

netnsTest(
  "findByAddress() passes over namespaces that have gone since they were listed",
  async () => {
    await using bed = await Bed.start();
    const { pod } = await bed.veth();
    using hostNetns = Netns.open(bed.host.path);
    const pods = [podOf("u1")];
    const among = [`${pod.path}-gone`, "/etc/hostname", pod.path];
    const found = await findByAddress(pods, { hostNetns, among });
    assert.deepEqual([...found], [[pods[0], pod.path]]);
  },
);

netnsTest(
  "find() believes a mark rather than addresses, and addresses that two pods have not at all",
  async () => {
    await using bed = await Bed.start();
    const { pod: first } = await bed.veth();
    await bed.veth();
    await bed.net.adopt({ ...podOf("u1"), netnsPath: first.path });
    const net = bed.restart();
    const found = await net.find([podOf("u1"), podOf("u2")]);
    assert.deepEqual(found.map(({ id }) => id), ["u1"]);
    assert.ok(await leadsTo(net, "u1", first));
  },
);

netnsTest(
  "openNetns() does not believe a path that went to another namespace",
  async () => {
    await using bed = await Bed.start();
    const { pod } = await bed.veth();
    await bed.net.adopt({ ...podOf("u1"), netnsPath: pod.path });
    assert.ok(await leadsTo(bed.net, "u1", pod));
    await pod.ip("link", "delete", "eth0");
    assert.equal(await bed.net.openNetns(podOf("u1")), undefined);
  },
);

netnsTest("SV-8: check() says what is wrong", async () => {
  await using bed = await Bed.start();
  const { pod, hostName } = await bed.veth();
  const placed = { ...podOf("u1"), netnsPath: pod.path };
  const problem = async (): Promise<string> => {
    try {
      await bed.net.check(placed);
    } catch (error) {
      if (error instanceof PodCheckError) return error.problems.join();
      throw error;
    }
    return "";
  };
  assert.match(await problem(), new RegExp(`"${hostName}" has no mark`));
  await assert.rejects(
    bed.net.check(podOf("u1", {})),
    /this node does not know it/,
  );
  await bed.net.adopt(placed);
  assert.equal(await problem(), "");
  await bed.net.check(podOf("u1"));
  await pod.ip("address", "delete", `${ADDRESSES.ipv4}/24`, "dev", "eth0");
  const { ipv4: four, ipv6: six } = ADDRESSES;
  const missing = `does not have all of ${four}, ${six}`;
  assert.ok((await problem()).endsWith(missing));
  await pod.ip("link", "delete", "eth0");
  assert.match(await problem(), /Cannot find interface "eth0"/);
});
