import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Netns } from "../../linux/mod.ts";
import {
  type AddressEntry,
  type Link,
  type LinkSelector,
  type Neighbour,
  NetlinkError,
  type Request,
  type Route,
  type Rule,
} from "../../netlink/mod.ts";
import { addressEntry, bytesOf, hex } from "../../netlink/testing.ts";
import { openPeers } from "../kernel/peers.ts";
import type { Routes } from "../kernel/ports.ts";
import { countJoined, keepHost, keepPod } from "./upkeep.ts";

const POD = Address.parse("10.6.0.100");
const HOST = Address.parse("10.6.0.10");
const END = 7;
const MAC = "02:00:00:00:00:01";

function link(index: number, changes: Partial<Link> = {}): Link {
  return {
    index,
    name: `link${index}`,
    kind: "veth",
    mac: MAC,
    mtu: 1500,
    up: true,
    lowerUp: true,
    group: 0,
    flags: 1,
    ...changes,
  };
}

/** What a network namespace has. */
interface State {
  links: Link[];
  addresses: AddressEntry[];
  rules: Rule[];
  routes: Route[];
  neighbours: Neighbour[];
}

const RULE: Rule = { family: "ipv4", priority: 1000, table: 500, protocol: 32 };
const ROUTE: Route = {
  family: "ipv4",
  destination: Prefix.host(POD),
  index: END,
  table: 500,
  protocol: 32,
  scope: "link",
  type: "unicast",
  source: HOST,
};
const NEIGHBOUR: Neighbour = {
  index: END,
  address: POD,
  mac: MAC,
  state: "permanent",
  protocol: 32,
};

/** A host with one joined pod. */
function joined(): State {
  return {
    links: [link(2), link(END, { alias: "COIL-COORD:cid:eth0" })],
    addresses: [addressEntry(2, "10.6.0.10/24")],
    rules: [RULE],
    routes: [ROUTE],
    neighbours: [NEIGHBOUR],
  };
}

/** A network namespace; `onRead` is called after each thing that is read of it. */
class Kernel implements Routes {
  readonly sent: string[] = [];
  readonly bytes: string[] = [];
  /** From which address it says that it sends. */
  source: Address = HOST;
  onRead: () => void = () => {};
  answer: (request: string) => NetlinkError | undefined = () => undefined;
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  #read<T>(found: readonly T[]): Promise<T[]> {
    const copy = [...found];
    this.onRead();
    return Promise.resolve(copy);
  }

  listLinks = () => this.#read(this.#state.links);
  listAddresses = () => this.#read(this.#state.addresses);
  listRules = () => this.#read(this.#state.rules);
  listNeighbours = () => this.#read(this.#state.neighbours);
  listRoutes = ({ protocol }: { readonly protocol?: number } = {}) =>
    this.#read(
      this.#state.routes.filter((route) =>
        protocol === undefined || route.protocol === protocol
      ),
    );
  lookUpRoutes = (addresses: readonly Address[]) =>
    this.#read(addresses.map(() => ({ source: this.source }) as Route)); // all that is looked at
  getLink = (selector: LinkSelector) =>
    Promise.resolve(
      this.#state.links.find(({ index }) =>
        "index" in selector && index === selector.index
      ),
    );
  execute = () => Promise.reject(new Error("not asked"));

  tryExecute(requests: readonly Request[]) {
    const texts = requests.map((request) => request.describe());
    this.sent.push(...texts);
    this.bytes.push(...requests.map(bytesOf));
    return Promise.resolve(texts.map((text) => this.answer(text)));
  }

  [Symbol.dispose](): void {}
}

const quiet = { isQuiet: () => true };
const keepHusks = { discard: () => Promise.reject(new Error("no husk")) };
const PUT_BACK = 'replace route "10.6.0.100/32" to table 500';

Deno.test("keepHost() puts back what the host lacks, and sends nothing where it lacks nothing", async () => {
  const state = joined();
  const host = new Kernel(state);
  const look = () => keepHost(keepHusks, host, quiet);
  const whole = await look();
  assert.deepEqual([whole.changed, whole.isPartial, host.sent], [0, false, []]);
  assert.deepEqual(whole.hostAddresses.map(String), ["10.6.0.10"]);
  assert.deepEqual(whole.joined.map(({ index }) => index), [END]);
  state.routes = [];
  assert.equal((await look()).changed, 1);
  assert.deepEqual(host.sent, [PUT_BACK]);
});

Deno.test("keepHost() has the host send from the address that it says itself", async () => {
  const state = joined();
  const other = Address.parse("10.6.0.11");
  state.addresses.push(addressEntry(2, `${other}/24`));
  state.routes = [];
  for (const source of [HOST, other]) {
    const host = new Kernel(state);
    host.source = source;
    await keepHost(keepHusks, host, quiet);
    const [bytes = ""] = host.bytes;
    const found = [HOST, other].filter((address) =>
      bytes.includes(hex(address.toBytes()))
    );
    assert.deepEqual(found, [source]);
  }
});

Deno.test("keepHost() goes by neighbours that the coordinator has made for ever, not by others", async () => {
  for (
    const changes of [{ protocol: 3 }, { state: "reachable" }] as const
  ) {
    const state = joined();
    state.routes = [];
    state.neighbours = [{ ...NEIGHBOUR, ...changes }];
    const host = new Kernel(state);
    await keepHost(keepHusks, host, quiet);
    assert.deepEqual(host.sent, []);
  }
});

Deno.test("keepHost() leaves what it may have read amid a call, and says so", async () => {
  const state = joined();
  const host = new Kernel(state);
  const busy = { isQuiet: () => false };
  assert.equal((await keepHost(keepHusks, host, busy)).isPartial, false);
  state.routes = [];
  const { changed, isPartial } = await keepHost(keepHusks, host, busy);
  assert.deepEqual([changed, isPartial, host.sent], [0, true, []]);
});

Deno.test("keepHost() puts nothing back of an interface that a process without coild deletes while it reads", async () => {
  const other = Address.parse("10.7.0.100");
  for (let reads = 1; reads <= 6; reads++) {
    const state = joined();
    const route = { ...ROUTE, destination: Prefix.host(other) };
    const neighbour = { ...NEIGHBOUR, address: other };
    state.routes.push(route);
    state.neighbours.push(neighbour);
    const host = new Kernel(state);
    let left = reads;
    host.onRead = () => {
      if (--left > 0) return;
      // The link stays: it serves the pod's other interface.
      Object.assign(state, { routes: [route], neighbours: [neighbour] });
    };
    await keepHost(keepHusks, host, quiet);
    assert.deepEqual(host.sent, [], `after ${reads} reads`);
  }
});

Deno.test("keepHost() has the pairs deleted that were cut off", async () => {
  const state = joined();
  state.links.push(link(9, { alias: "COIL-COORD-HUSK:gone:net1" }));
  const husks: unknown[] = [];
  const discard = (husk: unknown) => Promise.resolve(void husks.push(husk));
  await keepHost({ discard }, new Kernel(state), quiet);
  assert.deepEqual(husks, [{ containerId: "gone", ifname: "net1", index: 9 }]);
});

Deno.test("keepHost() counts what the kernel took; what has come or gone in the meantime is no failure", async () => {
  const state = joined();
  const host = new Kernel(state);
  state.routes = [];
  state.rules = [];
  const [EEXIST, ENODEV, EPERM] = [17, 19, 1];
  const look = async (errno: number) => {
    host.answer = (request) =>
      request.includes("route")
        ? new NetlinkError(request, { errno })
        : undefined;
    return (await keepHost(keepHusks, host, quiet)).changed;
  };
  assert.equal(await look(EEXIST), 1);
  assert.equal(await look(ENODEV), 1);
  await assert.rejects(look(EPERM), NetlinkError);
});

Deno.test("countJoined() counts pods, not their addresses", async () => {
  const state = joined();
  state.routes = [
    ROUTE,
    { ...ROUTE, destination: Prefix.parse("fd00::100/128"), family: "ipv6" },
    { ...ROUTE, index: 8 },
    { ...ROUTE, index: 9, protocol: 3 },
  ];
  assert.equal(await countJoined(new Kernel(state)), 2);
});

/** How often a pod is asked or changed by a look, where this is inside it. */
async function looksInto(
  inside: Partial<Link>,
  hostEnd: Partial<Link> = {},
): Promise<number> {
  const pod = new Kernel({
    links: [link(3, { peerIndex: END, ...inside })],
    addresses: [addressEntry(3, "10.6.0.100/24")],
    rules: [],
    routes: [{
      ...ROUTE,
      destination: Prefix.host(HOST),
      index: 3,
      table: 254,
    }],
    neighbours: [],
  });
  let isOpen = false;
  const netns = {
    [Symbol.dispose]() {
      isOpen = false;
    },
  } as Netns; // all that is used
  using peers = openPeers({
    openNamespaces: () => ({
      ofPeer: () => {
        isOpen = true;
        return Promise.resolve(netns);
      },
      [Symbol.dispose]() {},
    }),
    openRoutes: () => pod,
  });
  await keepPod(peers, link(END, { peerIndex: 3, ...hostEnd }), [HOST]);
  assert.equal(isOpen, false);
  return pod.sent.length;
}

Deno.test("keepPod() leaves a namespace alone in which the pair's other end is not: its number was given again", async () => {
  assert.ok(await looksInto({}) > 0);
  assert.equal(await looksInto({ kind: "bridge" }), 0);
  assert.equal(await looksInto({ peerIndex: 8 }), 0);
  assert.equal(await looksInto({ index: 4 }), 0);
  assert.equal(await looksInto({ mac: undefined }), 0);
  assert.equal(await looksInto({}, { mac: undefined }), 0);
  assert.equal(await looksInto({}, { peerIndex: undefined }), 0);
});
