// Answers of the real kernel with some bytes changed or cut off.
import fc from "fast-check";
import assert from "node:assert/strict";
import { listFlows } from "../lab/flows.ts";
import {
  type Bytes,
  NETLINK_NETFILTER,
  NETLINK_ROUTE,
  Netns,
  openNetlink,
} from "../../lib/linux/mod.ts";
import {
  ConntrackSocket,
  NetfilterSocket,
  NetlinkError,
  netnsIdGet,
  RouteSocket,
} from "../../lib/netlink/mod.ts";
import { linkGetCounters } from "../lab/netlink_requests.ts";
import { formatTable } from "../lab/plan_text/nft_table.ts";
import type { Transport } from "../../lib/netlink/connection/transport.ts";
import { EXAMPLE_TABLE } from "../../lib/netlink/netfilter/testing.ts";
import { listTable } from "./netfilter_testing.ts";
import { keepFlows, netnsTest, tempNetns } from "./testing.ts";

/** What happens to a datagram: bytes that change, and how much of it is left, as a share of its length. */
interface Damage {
  readonly changes: readonly (readonly [at: number, value: number])[];
  readonly left: number;
}

/** A socket whose answers are damaged on their way, while there is damage left. */
class DamagedSocket implements Transport {
  readonly #socket: Transport;
  damages: Damage[] = [];

  constructor(socket: Transport) {
    this.#socket = socket;
  }

  get portId(): number {
    return this.#socket.portId;
  }

  sendNow(bytes: Bytes): void {
    this.#socket.sendNow(bytes);
  }

  sendOffThread(bytes: Bytes): Promise<void> {
    return this.#socket.sendOffThread(bytes);
  }

  receiveNow(buffer: Bytes): number | undefined {
    return this.#damaged(buffer, this.#socket.receiveNow(buffer));
  }

  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    return this.#damaged(buffer, await this.#socket.receiveOffThread(buffer));
  }

  closeOffThread(): Promise<void> {
    return this.#socket.closeOffThread();
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  #damaged(buffer: Bytes, length: number | undefined): number | undefined {
    const damage = length === undefined ? undefined : this.damages.shift();
    if (length === undefined || damage === undefined) return length;
    for (const [at, value] of damage.changes) {
      buffer[Math.floor(at * length)] = value;
    }
    return Math.ceil(damage.left * length);
  }
}

const SHARE = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const DAMAGES = fc.array(
  fc.record({
    changes: fc.array(
      fc.tuple(SHARE, fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 255))),
      { maxLength: 4 },
    ),
    left: fc.oneof(fc.constant(1), SHARE),
  }),
  { minLength: 1, maxLength: 8 },
);

/** With any damage each question ends, with an answer or an error that is meant for it. */
async function survives(
  transport: DamagedSocket,
  questions: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<void> {
  const one = fc.constantFrom(...Object.keys(questions));
  await fc.assert(
    fc.asyncProperty(one, DAMAGES, async (name, damages) => {
      transport.damages = [...damages];
      try {
        await questions[name]?.();
      } catch (error) {
        const isMeant = error instanceof SyntaxError ||
          error instanceof NetlinkError ||
          // The key of a set, or an element, that is unknown here.
          error instanceof TypeError && /^Cannot list set/.test(error.message);
        assert(isMeant, error instanceof Error ? `${error.stack}` : `${error}`);
      } finally {
        transport.damages = [];
      }
    }),
    { numRuns: 400 },
  );
}

const NETWORK = `
  link add near type veth peer name far
  link set near up alias text
  address add 10.0.0.1/24 dev near
  address add fd00::1/64 dev near nodad
  route add 10.1.0.0/16 via 10.0.0.2 dev near
  rule add from 10.0.0.0/8 fwmark 1 pref 9
  neigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev near`;

netnsTest("RouteSocket bears damaged answers and stays in step", async () => {
  await using temp = await tempNetns("hostile");
  for (const line of NETWORK.trim().split("\n")) {
    await temp.ip(...line.trim().split(" "));
  }
  using netns = Netns.open(temp.path);
  const transport = new DamagedSocket(openNetlink(NETLINK_ROUTE, { netns }));
  using socket = RouteSocket.over(transport);
  const everything = async () => ({
    links: await socket.listLinks(),
    addresses: await socket.listAddresses(),
    routes: await socket.listRoutes(),
    rules: await socket.listRules(),
    link: await socket.getLink({ name: "near" }),
  });
  const before = await everything();
  await survives(transport, {
    links: () => socket.listLinks(),
    addresses: () => socket.listAddresses(),
    routes: () => socket.listRoutes(),
    rules: () => socket.listRules(),
    neighbours: () => socket.listNeighbours(),
    link: () => socket.getLink({ name: "near" }),
    counters: () =>
      socket.execute([linkGetCounters({ name: "near" }, () => {})]),
    number: () => socket.execute([netnsIdGet(netns, () => {})]),
  });
  assert.deepEqual(await everything(), before);
});

netnsTest(
  "NetfilterSocket bears damaged answers, and the table is as planned afterwards",
  async () => {
    await using temp = await tempNetns("hostile");
    using netns = Netns.open(temp.path);
    const transport = new DamagedSocket(
      openNetlink(NETLINK_NETFILTER, { netns }),
    );
    await using socket = NetfilterSocket.over(transport);
    const { name, sets } = EXAMPLE_TABLE;
    await socket.replaceTable(EXAMPLE_TABLE);
    await survives(transport, {
      compare: () => socket.replaceTable(EXAMPLE_TABLE),
      tables: () => socket.listTables(),
      exists: () => socket.tableExists(name),
      counters: () => socket.readCounters(name),
      ...Object.fromEntries(
        sets.map((set) => [set.name, () => socket.listSet(name, set.name)]),
      ),
    });
    await socket.replaceTable(EXAMPLE_TABLE);
    assert.equal(await listTable(temp, name), formatTable(EXAMPLE_TABLE));
    assert.equal(await socket.replaceTable(EXAMPLE_TABLE), false);
  },
);

netnsTest(
  "ConntrackSocket bears damaged answers and stays in step",
  async () => {
    await using temp = await tempNetns("hostile");
    await temp.exec(
      "nft",
      "add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c ct state new accept",
    );
    await keepFlows(temp);
    await temp.exec("ping", "-c1", "-w20", "127.0.0.1");
    await temp.exec("ping", "-c1", "-w20", "::1");
    using netns = Netns.open(temp.path);
    const transport = new DamagedSocket(
      openNetlink(NETLINK_NETFILTER, { netns }),
    );
    await using socket = ConntrackSocket.over(transport);
    assert.equal((await listFlows(socket)).length, 2);
    await survives(transport, {
      list: () => listFlows(socket),
      visit: () => socket.visit((flow) => void flow.originalSource.toString()),
      count: () => socket.count(),
    });
    assert.equal((await listFlows(socket)).length, 2);
  },
);
