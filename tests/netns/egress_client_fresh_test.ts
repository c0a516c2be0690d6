// A client that is made at once, in a namespace that is new: as one that is made
// step by step. What needs tunnels is in tests/vm.
import assert from "node:assert/strict";
import {
  applyClient,
  clearClient,
  type ClientPlan,
  type ClientRequest,
  isClient,
} from "../../lib/egress/mod.ts";
import { makeFresh } from "../../lib/egress/client/fresh.ts";
import { Address, type Family } from "../../lib/inet/mod.ts";
import { inNetns } from "../../lib/linux/mod.ts";
import { type NftNewTable, RouteSocket } from "../../lib/netlink/mod.ts";
import {
  clientState,
  missingGateway,
  planOf,
  podLab,
} from "./egress_client_lab.ts";
import { netnsTest } from "./testing.ts";

const MTU = 1500;
const EGRESS = missingGateway(["0.0.0.0/0", "10.5.0.0/16", "::/0"]);

netnsTest("a client made at once is as one made step by step", async () => {
  await using lab = await podLab();
  const { netns, pod } = lab;
  const plan = planOf([EGRESS]);
  const atOnce = await applyClient(plan, { netns, freshMtu: MTU });
  const state = await clientState(pod);
  assert.match(state, /unreachable 10\.5\.0\.0\/16/);
  assert.equal(atOnce.changes.length, plan.rules.length + plan.routes.length);
  assert.deepEqual((await lab.apply([EGRESS])).changes, []);
  await clearClient({ netns });
  assert.equal(await clientState(pod), "");
  await lab.apply([EGRESS]);
  assert.equal(await clientState(pod), state);
});

const LEFTOVERS: readonly (readonly [string, string])[] = [
  ["a rule", "ip rule add priority 1900 lookup 117"],
  ["a route", "ip route add unreachable 10.5.0.0/16 table 117 metric 4096"],
  [
    "a route of IPv6",
    "ip -6 route add unreachable default table 118 metric 4096",
  ],
];
for (const [what, command] of LEFTOVERS) {
  netnsTest(
    `a namespace that is said to be new and has ${what} of a client becomes as planned all the same`,
    async () => {
      await using lab = await podLab();
      const { netns, pod } = lab;
      await lab.apply([EGRESS]);
      const state = await clientState(pod);
      await clearClient({ netns });
      await pod.exec("sh", "-euc", command);
      assert.equal(await isClient({ netns }), true);
      const plan = planOf([EGRESS]);
      await applyClient(plan, { netns, freshMtu: MTU });
      assert.equal(await clientState(pod), state);
      assert.deepEqual((await lab.apply([EGRESS])).changes, []);
    },
  );
}

netnsTest(
  "a namespace that is said to be new and has a client of another family becomes as planned",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    const narrow = missingGateway(["198.51.100.0/24"]);
    const plan = planOf([narrow]);
    await applyClient(plan, { netns, freshMtu: MTU });
    const state = await clientState(pod);
    await clearClient({ netns });
    await lab.apply([missingGateway(["::/0"])]);
    const { changes } = await applyClient(plan, { netns, freshMtu: MTU });
    assert.ok(changes.some((change) => change.startsWith("delete ")));
    assert.equal(await clientState(pod), state);
  },
);

/** Has a Service, and a gateway that answers. */
const SERVED = missingGateway(["203.0.113.0/24"], {
  service: { ipv4: Address.parse("10.68.0.9") },
  available: ["ipv4"],
  senders: [Address.parse("10.1.9.9")],
});

/** Whether packets are dropped that come by another way than answers leave by: 1 is yes, 2 if there is no way at all. */
const REVERSE_PATHS = ["all", "default", "eth0"]
  .map((link) => `net.ipv4.conf.${link}.rp_filter`);

netnsTest(
  "a client whose port another program has is refused its destinations, made at once too",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    const drop = () =>
      pod.exec("sysctl", "-qw", ...REVERSE_PATHS.map((key) => `${key}=1`));
    const taken = inNetns(
      netns,
      () =>
        Deno.listenDatagram({ hostname: "::", port: 5555, transport: "udp" }),
    );
    using _socket = { [Symbol.dispose]: () => taken.close() };
    const plan = planOf([SERVED]);
    await drop();
    await assert.rejects(applyClient(plan, { netns, freshMtu: MTU }));
    assert.match(await clientState(pod), /unreachable 203\.0\.113\.0\/24/);
    assert.equal(await pod.exec("sysctl", "-n", ...REVERSE_PATHS), "0\n0\n2\n");
    await drop();
    await assert.rejects(applyClient(plan, { netns }));
    assert.equal(await pod.exec("sysctl", "-n", ...REVERSE_PATHS), "0\n0\n1\n");
  },
);

netnsTest(
  "a call that was given up before it began makes nothing",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    const signal = AbortSignal.abort();
    const options = { netns, freshMtu: MTU, signal };
    await assert.rejects(applyClient(planOf([EGRESS]), options), {
      name: "AbortError",
    });
    assert.equal(await clientState(pod), "");
  },
);

netnsTest(
  "what is no answer of the kernel's is told, and nothing else is tried",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    const plan: ClientPlan = {
      ...planOf([EGRESS]),
      // Read by the way that makes all at once, and not by the other one.
      get families(): Family[] {
        throw new Error("a bug");
      },
    };
    await assert.rejects(
      applyClient(plan, { netns, freshMtu: MTU }),
      { message: "a bug" },
    );
    assert.equal(await clientState(pod), "");
    await applyClient(plan, { netns });
    assert.notEqual(await clientState(pod), "");
  },
);

netnsTest(
  "a new namespace in which a client was begun by a killed process",
  async () => {
    await using lab = await podLab();
    const { netns, pod } = lab;
    const other = missingGateway(["198.51.100.0/24"]);
    await applyClient(planOf([other]), { netns, freshMtu: MTU });
    const plan = planOf([EGRESS]);
    await applyClient(plan, { netns, freshMtu: MTU });
    const state = await clientState(pod);
    assert.doesNotMatch(state, /198\.51\.100/);
    await clearClient({ netns });
    await lab.apply([EGRESS]);
    assert.equal(await clientState(pod), state);
  },
);

netnsTest(
  "clients of the same gateways share a table, others do not",
  async () => {
    await using lab = await podLab();
    const { netns } = lab;
    using route = RouteSocket.open({ netns });
    const tableOf = async (changes: Partial<ClientRequest>) => {
      const tables: NftNewTable[] = [];
      const createTable = (table: NftNewTable) => {
        tables.push(table);
        return Promise.resolve(false);
      };
      const fou = { tryAdd: () => Promise.resolve([]) };
      const options = { netns, route, fou, linkMtu: MTU, nft: { createTable } };
      await makeFresh(planOf([SERVED], changes), options);
      return tables[0];
    };
    const first = await tableOf({});
    assert.ok(first !== undefined);
    assert.equal(await tableOf({}), first);
    for (const changes of [{ port: 5556 }, { ifname: "lo" }]) {
      assert.notEqual(await tableOf(changes), first);
    }
  },
);
