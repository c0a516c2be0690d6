// The fabric of tests/lab/cloud: rules and routes are made by hand here, right
// and wrong ones, to see that it notices the wrong ones.
import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { inNetns, Netns } from "../../lib/linux/mod.ts";
import { Cloud } from "../lab/cloud/mod.ts";
import {
  byHand,
  cloudConfig,
  formOf,
  INSTANCE,
  signedRequest,
  SUBNET,
} from "../lab/cloud/testing.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const PEER = "10.0.9.10";
const PEER6 = "fd10:0:0:9::10";
const OUTSIDE = "198.51.100.10";
const OTHER = "i-0000000000000000b";

/** Answers with the address that a request came from. */
function serveSource(temp: TempNetns): Deno.HttpServer {
  using netns = Netns.open(temp.path);
  const options = { hostname: "::", port: 80, onListen: () => {} };
  return inNetns(
    netns,
    () =>
      Deno.serve(
        options,
        (_, { remoteAddr }) =>
          new Response((remoteAddr as Deno.NetAddr).hostname),
      ),
  );
}

/** A VPC with two nodes, a peer and a host outside. */
class Lab implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly cloud: Cloud;
  readonly fabric: TempNetns;
  readonly node: TempNetns;
  readonly other: TempNetns;

  private constructor(
    stack: AsyncDisposableStack,
    parts: Pick<Lab, "cloud" | "fabric" | "node" | "other">,
  ) {
    this.#stack = stack;
    this.cloud = parts.cloud;
    this.fabric = parts.fabric;
    this.node = parts.node;
    this.other = parts.other;
  }

  static async start(): Promise<Lab> {
    await using stack = new AsyncDisposableStack();
    const make = async (name: string) => stack.use(await tempNetns(name));
    const [fabric, node, other] = [
      await make("fabric"),
      await make("node"),
      await make("other"),
    ];
    const [peer, outside] = [await make("peer"), await make("outside")];
    const place = { subnet: SUBNET, securityGroups: [] };
    const cloud = stack.use(
      await Cloud.start(
        cloudConfig({
          instances: [
            { id: INSTANCE, type: "t3.medium", ...place },
            { id: OTHER, type: "t3.medium", ...place },
          ],
          fabric: {
            nodes: { [INSTANCE]: node.name, [OTHER]: other.name },
            hosts: [
              { netns: peer.name, addresses: [PEER, PEER6] },
              { netns: outside.name, addresses: [OUTSIDE], isOutside: true },
            ],
            ec2Address: "198.51.100.1",
          },
        }),
        fabric.name,
      ),
    );
    for (const host of [peer, outside]) {
      const server = serveSource(host);
      stack.defer(() => server.shutdown());
    }
    return new Lab(stack.move(), { cloud, fabric, node, other });
  }

  async do(action: string, parameters: Record<string, string | number>) {
    return await byHand(this.cloud, action, parameters);
  }

  /** The same, as coild of the node asks EC2. */
  async ask(action: string, parameters: Record<string, string | number>) {
    const { ec2 } = this.cloud.endpoints;
    const form = formOf(action, parameters);
    const { headers, body } = signedRequest(ec2, { form });
    const lines = [...headers].flatMap(([name, value]) => [
      ...["-H", `${name}: ${value}`],
    ]);
    const options = ["-sS", "--fail-with-body", "--max-time", "30", ...lines];
    return await this.node.exec("curl", ...options, "-d", body, ec2);
  }

  /** Attaches a new ENI to the node, waits for its link and sets it up. */
  async plug(parameters: Record<string, string | number> = {}) {
    const created = await this.do("CreateNetworkInterface", {
      SubnetId: SUBNET,
      ...parameters,
    });
    const [id = ""] = created.all("networkInterfaceId");
    const [mac] = created.all("macAddress");
    const attached = await this.do("AttachNetworkInterface", {
      NetworkInterfaceId: id,
      InstanceId: INSTANCE,
      DeviceIndex: 1,
    });
    await untilPasses(async () => {
      const links = await this.node.ipJson("link");
      assert.equal(
        links.find((it) => it["ifname"] === "eth1")?.["address"],
        mac,
      );
    });
    // Neighbours of IPv6 can be asked for at once then.
    await this.node.exec("sysctl", "-qw", "net.ipv6.conf.eth1.accept_dad=0");
    await this.node.ip("link", "set", "eth1", "up");
    const [attachmentId = ""] = attached.all("attachmentId");
    return { id, attachmentId };
  }

  /** Gives the plugged ENI a table with a default route, which no rule looks up yet. */
  async routeByEni(): Promise<void> {
    const inTable = ["dev", "eth1", "table", "10001"];
    await this.node.ip("route", "add", "10.0.1.1", ...inTable);
    await this.node.ip(
      "route",
      "add",
      "default",
      "via",
      "10.0.1.1",
      ...inTable,
    );
  }

  /** What the host at the address says where a request came from. */
  async sourceAt(host: string, from?: string): Promise<string> {
    const source = from === undefined ? [] : ["--interface", from];
    const url = host.includes(":") ? `http://[${host}]/` : `http://${host}/`;
    const options = ["-sS", "--max-time", "30", ...source, url];
    const text = await this.node.exec("curl", ...options);
    return text.replace("::ffff:", "");
  }

  /** Sends one packet that is expected to be lost. */
  async lose(host: string, from: string): Promise<void> {
    const ping = ["-c", "1", "-W", "0.2", "-I", from, host];
    const { code } = await this.node.tryExec("ping", ...ping);
    assert.equal(code, 1, `${from} to ${host} is lost`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

async function dropsOf(lab: Lab): Promise<Record<string, number>> {
  const drops = Object.entries(await lab.cloud.ask.drops());
  return Object.fromEntries(drops.filter(([, packets]) => packets > 0));
}

netnsTest(
  "vpc: fabric: a node has its primary ENI, and reaches all there is",
  async () => {
    await using lab = await Lab.start();
    const { node, other, cloud } = lab;
    assert.match(
      await node.ip("-4", "-br", "address", "show", "eth0"),
      /10\.0\.1\.4\/24/,
    );
    assert.match(await node.ip("link", "show", "eth0"), /mtu 9001/);
    assert.equal(await lab.sourceAt(PEER), "10.0.1.4");
    assert.equal(await lab.sourceAt(PEER6), "fd10:0:0:1::10");
    assert.equal(await lab.sourceAt(OUTSIDE), "10.0.1.4");
    await node.exec("ping", "-c", "1", "-w", "20", "10.0.1.5");
    await other.exec("ping", "-c", "1", "-w", "20", "10.0.1.4");
    const ec2 = await node.exec(
      "curl",
      "-sS",
      "-d",
      "Action=X",
      cloud.endpoints.ec2,
    );
    assert.match(ec2, /MissingAuthenticationToken/);
    assert.deepEqual(await dropsOf(lab), {});
  },
);

netnsTest(
  "vpc: fabric: the metadata service knows who asks, and its answers go two hops",
  async () => {
    await using lab = await Lab.start();
    const metadata = async (netns: TempNetns) => {
      const url = lab.cloud.endpoints.imds[INSTANCE];
      const curl = ["curl", "-sS", "--max-time", "30"];
      const ttl = "x-aws-ec2-metadata-token-ttl-seconds: 60";
      const put = [...curl, "-X", "PUT", "-H", ttl, `${url}/latest/api/token`];
      const token = await netns.exec(...put as [string]);
      const header = `x-aws-ec2-metadata-token: ${token}`;
      const get = [
        ...curl,
        "-H",
        header,
        `${url}/latest/meta-data/instance-id`,
      ];
      return await netns.exec(...get as [string]);
    };
    assert.equal(await metadata(lab.node), INSTANCE);
    assert.equal(await metadata(lab.other), OTHER);
    const ping = ["-c", "1", "-w", "20", "169.254.169.254"];
    assert.match(await lab.node.exec("ping", ...ping), /ttl=2 /);
  },
);

netnsTest(
  "vpc: fabric: a port drops and counts what is not of its ENI",
  async () => {
    await using lab = await Lab.start();
    const { node } = lab;
    const { id } = await lab.plug({ SecondaryPrivateIpAddressCount: 1 });
    await node.ip("address", "add", "10.0.1.7/32", "dev", "lo");
    // Wrong: by the primary ENI.
    await lab.lose(PEER, "10.0.1.7");
    const [primary = "", ...rest] = Object.keys(await dropsOf(lab));
    assert.deepEqual(rest, []);
    assert.notEqual(primary, id);
    assert.deepEqual(await dropsOf(lab), { [primary]: 1 });
    // Right: by the ENI whose address it is.
    await lab.routeByEni();
    await node.ip("rule", "add", "from", "10.0.1.7", "lookup", "10001");
    assert.equal(await lab.sourceAt(PEER, "10.0.1.7"), "10.0.1.7");
    assert.deepEqual(await dropsOf(lab), { [primary]: 1 });
    // An address of no ENI at all.
    await node.ip("address", "add", "10.0.1.77/32", "dev", "lo");
    await lab.lose(PEER, "10.0.1.77");
    assert.deepEqual(await dropsOf(lab), { [primary]: 2 });
    // Outside of the VPC only the primary address is known.
    await lab.lose(OUTSIDE, "10.0.1.7");
    assert.deepEqual(await dropsOf(lab), { [primary]: 2, not_public: 1 });
  },
);

netnsTest(
  "vpc: fabric: the network has what EC2 has answered",
  async () => {
    await using lab = await Lab.start();
    const { id } = await lab.plug();
    const set = `eni${Number.parseInt(id.slice("eni-".length), 16)}_ipv4`;
    const sources = () =>
      lab.fabric.exec("nft", "list", "set", "inet", "fabric", set);
    const eni = { NetworkInterfaceId: id };
    const prefix = "10.0.1.16/28";
    for (const how of ["ask", "do"] as const) {
      for (let round = 0; round < 5; round++) {
        const assigned = { ...eni, Ipv4PrefixCount: 1 };
        await lab[how]("AssignPrivateIpAddresses", assigned);
        assert.ok((await sources()).includes(prefix), how);
        const unassigned = { ...eni, "Ipv4Prefix.1": prefix };
        await lab[how]("UnassignPrivateIpAddresses", unassigned);
        assert.ok(!(await sources()).includes(prefix), how);
      }
    }
  },
);

netnsTest(
  "vpc: fabric: what is assigned and taken away counts at once, other counters stay",
  async () => {
    await using lab = await Lab.start();
    const { node } = lab;
    const { id, attachmentId } = await lab.plug();
    await lab.routeByEni();
    await node.ip(
      "-6",
      "route",
      "add",
      "default",
      "via",
      "fe80::1",
      "dev",
      "eth1",
      "table",
      "10001",
    );
    const pod = "10.0.1.20";
    const pod6 = "fd10::1:1:0:a00:114";
    await node.ip("address", "add", `${pod}/32`, "dev", "lo");
    await node.ip("address", "add", `${pod6}/128`, "dev", "lo");
    await node.ip("rule", "add", "from", "10.0.1.16/28", "lookup", "10001");
    await node.ip(
      "-6",
      "rule",
      "add",
      "from",
      "fd10:0:0:1:1::/80",
      "lookup",
      "10001",
    );
    // What the kernel itself sends by the primary ENI is not looked at.
    const drops = async () => (await dropsOf(lab))[id];
    await lab.lose(PEER, pod);
    await lab.lose(PEER6, pod6);
    assert.equal(await drops(), 2);
    const eni = { NetworkInterfaceId: id };
    await lab.do("AssignPrivateIpAddresses", { ...eni, Ipv4PrefixCount: 1 });
    await lab.do("AssignIpv6Addresses", { ...eni, Ipv6PrefixCount: 1 });
    assert.equal(await drops(), 2);
    assert.equal(await lab.sourceAt(PEER, pod), pod);
    assert.equal(await lab.sourceAt(PEER6, pod6), pod6);
    const prefix = { "Ipv4Prefix.1": "10.0.1.16/28" };
    await lab.do("UnassignPrivateIpAddresses", { ...eni, ...prefix });
    assert.equal(await drops(), 2);
    await lab.lose(PEER, pod);
    assert.equal(await drops(), 3);
    await lab.cloud.ask.setPace({ detachMs: 3_600_000 });
    await lab.do("DetachNetworkInterface", { AttachmentId: attachmentId });
    assert.equal(await drops(), undefined, "gone while EC2 detaches it");
    assert.doesNotMatch(await node.ip("link"), /eth1/);
  },
);
