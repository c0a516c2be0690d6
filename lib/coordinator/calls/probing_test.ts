import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { LinuxError, type Netns } from "../../linux/mod.ts";
import type { AddressEntry, Link, Route } from "../../netlink/mod.ts";
import { addressEntry } from "../../netlink/testing.ts";
import { settingsOf } from "../config/defaults.ts";
import type { Given } from "../config/config.ts";
import type { Kernel, Probes } from "../kernel/ports.ts";
import { defaultRoute, FakeNetwork, isRefusal, linkOf } from "../testing.ts";
import { probe } from "./probing.ts";

const NET1 = 4;
const netns = {} as Netns; // handed on
const BOTH = { detectIpConflict: true, detectGateway: true };

/** A pod's interface that is probed, and the network's answers. */
class Site {
  link = linkOf(NET1, { name: "net1" });
  addresses: AddressEntry[] = [
    addressEntry(NET1, "10.7.0.100/24"),
    addressEntry(NET1, "fd00:7::100/64"),
    addressEntry(9, "10.9.0.100/24"),
  ];
  routes = [defaultRoute(NET1, "10.7.0.1"), defaultRoute(NET1, "fd00:7::1")];
  conflict: Probes["findConflict"] = () => Promise.resolve(undefined);
  answers: Probes["answers"] = () => Promise.resolve(true);
  readonly asked: string[] = [];
  readonly said: unknown[] = [];
  readonly undo: (() => Promise<void>)[] = [];
  readonly pod: FakeNetwork;

  constructor(given: Partial<Omit<Site, "pod">> = {}) {
    Object.assign(this, given);
    this.pod = new FakeNetwork({ links: [this.link], routes: this.routes });
  }

  /** What was asked; addresses, which are asked for at once, in their own order. */
  get inOrder(): string[] {
    const gateway = this.asked.findIndex((asked) => asked.includes(" from "));
    const count = gateway < 0 ? this.asked.length : gateway;
    return [...this.asked.slice(0, count).sort(), ...this.asked.slice(count)];
  }

  probe(given: Given): Promise<void> {
    const kernel = { pod: this.pod, netns } as Partial<Kernel> as Kernel; // all that is used
    const probes: Probes = {
      findConflict: (link, address, times) => {
        this.asked.push(`${address}`);
        return this.conflict(link, address, times);
      },
      answers: (link, at, times) => {
        this.asked.push(`${at.gateway} from ${at.source}`);
        return this.answers(link, at, times);
      },
      announce: () => Promise.reject(new Error("not asked for")),
    };
    const settings = settingsOf([given]);
    return probe(
      {
        probes,
        found: (problem) => this.said.push(problem),
        warn: (_message, fields) => this.said.push(fields),
      },
      kernel,
      {
        attachment: { containerId: "cid", ifname: "net1", settings },
        pod: {
          links: [this.link],
          addresses: this.addresses,
          rules: [],
          routes: [],
          neighbours: [],
        },
        undo: { defer: (undo) => void this.undo.push(undo) },
      },
    );
  }
}

const CONFLICTS = ["10.7.0.100", "fd00:7::100"];
const GATEWAYS = [
  "10.7.0.1 from 10.7.0.100",
  "fd00:7::1 from fd00:7::100",
];

Deno.test("probe() asks for what is configured, for addresses first", async () => {
  const asked = async (given: Given) => {
    const site = new Site();
    await site.probe(given);
    assert.deepEqual([site.pod.sent, site.said], [[], []]);
    return site.inOrder;
  };
  assert.deepEqual(await asked(BOTH), [...CONFLICTS, ...GATEWAYS]);
  assert.deepEqual(await asked({ detectIpConflict: true }), CONFLICTS);
  assert.deepEqual(await asked({ detectGateway: true }), GATEWAYS);
});

Deno.test("probe() takes an address that another machine has off the interface, says who, and asks no gateway", async () => {
  const mac = "02:00:00:00:00:99";
  const site = new Site({
    conflict: (_link, { family }) =>
      Promise.resolve(family === "ipv4" ? mac : undefined),
  });
  await assert.rejects(
    site.probe(BOTH),
    isRefusal(11, /10\.7\.0\.100.*is located at 02:00:00:00:00:99/),
  );
  const address = Address.parse("10.7.0.100");
  assert.deepEqual(site.said, [{ kind: "conflict", address, mac }]);
  assert.deepEqual(site.inOrder, CONFLICTS);
  assert.deepEqual(site.pod.sent, [
    'delete address "10.7.0.100/24" from link 4',
  ]);
});

Deno.test("probe() says which gateway does not answer", async () => {
  const site = new Site({
    answers: (_link, { gateway }) => Promise.resolve(gateway.family === "ipv6"),
  });
  await assert.rejects(
    site.probe(BOTH),
    isRefusal(11, /10\.7\.0\.1 is unreach/),
  );
  const gateway = Address.parse("10.7.0.1");
  assert.deepEqual(site.said, [{ kind: "gateway", gateway }]);
});

Deno.test("probe() asks each gateway of the interface once, from the address in its network, else from one of its family", async () => {
  const asked = async (...routes: Route[]) => {
    const site = new Site({
      addresses: [
        addressEntry(NET1, "10.6.0.100/24"),
        addressEntry(NET1, "10.7.0.100/24"),
      ],
      routes,
    });
    await site.probe({ detectGateway: true });
    return site.asked;
  };
  const near = defaultRoute(NET1, "10.7.0.1");
  assert.deepEqual(await asked(near, near), ["10.7.0.1 from 10.7.0.100"]);
  assert.deepEqual(await asked(defaultRoute(NET1, "10.1.0.1")), [
    "10.1.0.1 from 10.6.0.100",
  ]);
  assert.deepEqual(await asked(defaultRoute(9, "10.9.0.1")), []);
  assert.deepEqual(await asked(defaultRoute(NET1)), []);
  assert.deepEqual(await asked(defaultRoute(NET1, "fd00:7::1")), []);
  const gateway = Address.parse("10.7.0.2");
  const hops = [{ index: 9, weight: 1 }, { index: NET1, gateway, weight: 1 }];
  assert.deepEqual(await asked({ ...defaultRoute(9), hops }), [
    "10.7.0.2 from 10.7.0.100",
  ]);
});

Deno.test("probe() sets an interface up that is down, and down again where ADD fails", async () => {
  const site = new Site({ link: linkOf(NET1, { name: "net1", up: false }) });
  await site.probe(BOTH);
  assert.deepEqual(site.pod.sent, ["set link 4"]);
  const [setUp] = site.pod.bytes;
  assert.equal(site.undo.length, 1);
  await site.undo[0]?.();
  assert.deepEqual(site.pod.sent, ["set link 4", "set link 4"]);
  assert.notEqual(site.pod.bytes[1], setUp);
});

Deno.test("probe() asks nothing by a link without a MAC address, and says so", async () => {
  for (const mac of [undefined, "00:00:00:00:00:00"]) {
    const changes: Partial<Link> = { name: "net1", mac, up: false };
    const site = new Site({ link: linkOf(NET1, changes) });
    await site.probe(BOTH);
    assert.deepEqual([site.asked, site.pod.sent], [[], []]);
    assert.deepEqual(site.said, [{ iface: "net1" }]);
  }
});

Deno.test("probe() names the capability that is missing, and passes other errors on", async () => {
  const failing = (error: Error) =>
    new Site({ conflict: () => Promise.reject(error) }).probe(BOTH);
  const EPERM = new LinuxError("open a socket", {
    syscall: "socket",
    errno: 1,
  });
  await assert.rejects(
    failing(EPERM),
    isRefusal(999, /cannot ask the network/),
  );
  const EINVAL = new LinuxError("open a socket", {
    syscall: "socket",
    errno: 22,
  });
  await assert.rejects(failing(EINVAL), EINVAL);
  const other = new Error("not of Linux");
  await assert.rejects(failing(other), other);
});
