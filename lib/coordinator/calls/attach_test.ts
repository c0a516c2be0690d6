// attach() and check(), which reads what attach() makes, without a kernel.
import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import type { Given } from "../config/config.ts";
import { settingsOf } from "../config/defaults.ts";
import {
  type AddressEntry,
  type Link,
  NetlinkError,
} from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import type { Filters, Kernel, Outside } from "../kernel/ports.ts";
import { planVeth } from "../plan/veth.ts";
import { defaultRoute, FakeNetwork, linkOf } from "../testing.ts";
import { attach } from "./attach.ts";
import { check } from "./check.ts";

const [ETH0, NET1, VETH, NODE, END] = [2, 4, 3, 9, 7] as const;
const SPEC = await planVeth({ containerId: "cid", ifname: "eth0" }, {
  mtu: 1500,
});
const INNER = linkOf(VETH, { name: "veth0", peerIndex: END });
const OUTER = linkOf(END, {
  name: SPEC.hostName,
  alias: SPEC.alias,
  peerIndex: VETH,
});
const EPERM = new NetlinkError("do it", { errno: 1 });

/** A pod with two interfaces, its host, and what is done to both and said of it. */
class Site {
  readonly pod: FakeNetwork;
  readonly host: FakeNetwork;
  readonly done: string[] = [];
  readonly warnings: unknown[] = [];
  readonly notes: unknown[] = [];
  conflict: string | undefined;
  undoing: () => void = () => {};

  constructor(
    { pair = [], addresses = [addressEntry(ETH0, "10.6.0.100/24")] }: {
      /** The host's end, and the pod's. */
      readonly pair?: readonly Link[];
      readonly addresses?: AddressEntry[];
    } = {},
  ) {
    const [outer, inner] = pair;
    this.pod = new FakeNetwork({
      links: [
        linkOf(ETH0, { name: "eth0", kind: "macvlan" }),
        linkOf(NET1, { name: "net1", kind: "macvlan" }),
        ...inner ? [inner] : [],
      ],
      addresses: [...addresses, addressEntry(NET1, "10.7.0.100/24")],
      routes: [defaultRoute(ETH0, "10.6.0.1"), defaultRoute(NET1, "10.7.0.1")],
    });
    this.host = new FakeNetwork({
      links: [linkOf(NODE, { name: "node" }), ...outer ? [outer] : []],
      addresses: [addressEntry(NODE, "10.6.0.10/24")],
    });
  }

  /** The kernel of this process, as far as sysctls are read. */
  get #kernel(): Kernel {
    const filters: Partial<Filters> = {
      createTable: () => Promise.resolve(this.done.push("table") > 0),
      deleteTable: () => {
        this.undoing();
        return Promise.resolve(this.done.push("no table") > 0);
      },
      compareTable: () => Promise.resolve([]),
    };
    const { pod, host } = this;
    return {
      pod,
      host,
      filters,
      writeSysctl() {}, // of which there are depends on this machine
    } as Partial<Kernel> as Kernel; // all that is used
  }

  get #outside(): Outside {
    return {
      findHostEnd: ({ link }) => {
        this.done.push(`end of ${link.name}`);
        return Promise.resolve(OUTER);
      },
      probes: {
        findConflict: (_link, address) => {
          this.done.push(`ask for ${address}`);
          return Promise.resolve(this.conflict);
        },
        answers: (_link, { gateway }) =>
          Promise.resolve(this.done.push(`ask ${gateway}`) > 0),
        announce: (_link, address) =>
          Promise.resolve(void this.done.push(`announce ${address}`)),
      },
      note: (decided) => this.notes.push(decided),
      warn: (_message, fields) => this.warnings.push(fields),
    } as Partial<Outside> as Outside; // all that is used
  }

  async attach(ifname = "eth0", given: Given = {}): Promise<void> {
    const settings = settingsOf([given]);
    const attachment = { containerId: "cid", ifname, settings };
    await attach(this.#outside, this.#kernel, attachment);
  }

  async check(
    options: { readonly hasDefaults: boolean },
    given: Given = {},
    ifname = "eth0",
  ): Promise<void> {
    const settings = settingsOf([given]);
    const attachment = { containerId: "cid", ifname, settings };
    await check(this.#outside, this.#kernel, attachment, options);
  }

  /** The changes that were sent to a side; a new link's number is N. */
  sent(side: "pod" | "host"): string[] {
    return this[side].sent.filter((text) => !text.startsWith("get "))
      .map((text) => text.replace(/(?<=link )\d+/, "N"));
  }
}

/** What ADD makes of the first interface, in the pod and then on the host. */
const IN_POD = [
  'replace neighbour "10.6.0.10" of link N',
  'add route "10.6.0.10/32" to table 254',
  'add route "10.6.0.10/32" to table 100',
  'add route "default" to table 100',
  'add ipv4 rule "1000: from all fwmark 0x10000000/0x90000000 lookup 100 proto 32"',
];
const ON_HOST = [
  'replace neighbour "10.6.0.100" of link N',
  'add route "10.6.0.100/32" to table 500',
  'add ipv4 rule "1000: from all lookup 500 proto 32"',
];
const SET_UP = ["set link N", "set link N"];

Deno.test("attach() makes a pair for the first interface, and says how it was joined", async () => {
  const site = new Site();
  await site.attach();
  assert.deepEqual(site.notes, [{ mode: "underlay", table: undefined }]);
  assert.deepEqual(site.sent("pod"), [...SET_UP, ...IN_POD]);
  assert.deepEqual(site.sent("host"), [
    `create veth "${SPEC.hostName}" with peer "veth0"`,
    ...[1, 2].map(() => `set link "${SPEC.hostName}"`),
    ...ON_HOST,
  ]);
  assert.deepEqual([site.done, site.warnings], [["table"], []]);
});

Deno.test("attach() makes what is missing beside a pair that is there", async () => {
  const site = new Site({ pair: [OUTER, INNER] });
  await site.attach();
  assert.deepEqual(site.sent("pod"), IN_POD);
  assert.deepEqual(site.sent("host"), ON_HOST);
  // The table is there.
  assert.deepEqual(site.done, []);
});

Deno.test("attach() joins another interface by the pair of the first one", async () => {
  const site = new Site({ pair: [OUTER, INNER] });
  await site.attach("net1");
  assert.deepEqual(site.notes, [{ mode: "underlay", table: 101 }]);
  assert.ok(site.done.includes("end of veth0"));
  assert.ok(
    site.sent("host").includes('add route "10.7.0.100/32" to table 500'),
  );
});

Deno.test("attach() takes everything back when a part of it is refused, the last first", async () => {
  const site = new Site();
  site.host.answer = (text) =>
    text.startsWith("add ipv4 rule") ? EPERM : undefined;
  await assert.rejects(site.attach(), EPERM);
  assert.deepEqual(site.done, ["table", "no table"]);
  const undone = site.sent("host").slice(3 + ON_HOST.length);
  assert.deepEqual(undone, [
    'delete route "10.6.0.100/32" from table 500',
    'delete neighbour "10.6.0.100" of link N',
    "delete link N",
  ]);
  assert.deepEqual(site.warnings, []);
});

Deno.test("attach() fails for what was refused first, and says what it could not take back", async () => {
  const site = new Site();
  const fault = new Error("a fault");
  site.undoing = () => {
    throw fault;
  };
  site.host.answer = (text) =>
    text.startsWith("add ipv4 rule") ? EPERM : undefined;
  await assert.rejects(site.attach(), EPERM);
  assert.deepEqual(site.warnings, [{ iface: "eth0", err: fault }]);
  assert.equal(site.sent("host").at(-1), "delete link N");
});

Deno.test("attach() asks the network before anything is made, for addresses that the kernel has found in use, too", async () => {
  const addresses = [
    addressEntry(ETH0, "10.6.0.100/24"),
    addressEntry(ETH0, "fd00::1/64", { dadFailed: true }),
  ];
  const asked = async (given: Given, site = new Site({ addresses })) => {
    await site.attach("eth0", given);
    return site.done.filter((text) => text.startsWith("ask")).sort();
  };
  const both = ["ask for 10.6.0.100", "ask for fd00::1"];
  assert.deepEqual(await asked({ detectIpConflict: true }), both);
  assert.deepEqual(await asked({ detectGateway: true }), ["ask 10.6.0.1"]);
  assert.deepEqual(await asked({}), []);
  const taken = new Site();
  taken.conflict = "02:00:00:00:00:99";
  await assert.rejects(asked({ detectIpConflict: true }, taken), /conflict/);
  assert.deepEqual([taken.sent("host"), taken.notes], [[], []]);
});

Deno.test("attach() refuses what does not fit before the network is asked", async () => {
  const site = new Site();
  const given: Given = { mode: "overlay", detectGateway: true };
  await assert.rejects(site.attach("eth0", given), /mode overlay does not fit/);
  assert.deepEqual(site.done, []);
});

Deno.test("attach() announces an interface that it has given another MAC address", async () => {
  const site = new Site();
  await site.attach("eth0", { macPrefix: "0a:1b" });
  assert.equal(site.done.at(-1), "announce 10.6.0.100");
});

Deno.test("check() says what is missing, in ip's words", async () => {
  const site = new Site({ pair: [OUTER, INNER] });
  await assert.rejects(
    site.check({ hasDefaults: true }),
    (error) => {
      const text = repairOf(error);
      assert.match(text, /ip rule add pref 1000 lookup 500 proto 32/);
      assert.match(text, /ip -n POD rule add pref 1000 fwmark/);
      return true;
    },
  );
  assert.deepEqual([site.sent("pod"), site.sent("host")], [[], []]);
});

Deno.test("check() without defaults goes by what does not depend on them", async () => {
  const site = new Site({ pair: [OUTER, INNER] });
  // The defaults may have had mode disable.
  await site.check({ hasDefaults: false });
  assert.deepEqual(site.done, []);
  await assert.rejects(
    site.check({ hasDefaults: false }, { mode: "underlay" }),
    (error) => {
      const text = repairOf(error);
      assert.doesNotMatch(text, /table 500|lookup 500|rp_filter/);
      assert.match(text, /ip -n POD rule add pref 1000 fwmark/);
      assert.match(
        text,
        /ip -n POD route replace 10\.6\.0\.10\/32 dev veth0 proto/,
      );
      return true;
    },
  );
});

function repairOf(error: unknown): string {
  assert.ok(error instanceof CniError && error.code === 999);
  assert.match(error.message, /"eth0" of container "cid" is not as ADD made/);
  return `${error.details}`;
}
