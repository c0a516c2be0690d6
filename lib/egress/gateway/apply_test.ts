import assert from "node:assert/strict";
import { Address, mapDualStack, Prefix } from "../../inet/mod.ts";
import { ERRNO } from "../../linux/mod.ts";
import {
  type Link,
  linkAddTunnel,
  linkChangeTunnel,
  linkDelete,
  linkSet,
  type Request,
  type Route,
  routeDelete,
  routeReplace,
  ruleAdd,
} from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import { applyServer, clearServer } from "./apply.ts";
import { findServerDamage } from "./inspect.ts";
import { listLimited } from "./limits.ts";
import type { ServerSysctl } from "../gateway_plan/family.ts";
import {
  planServer,
  type ServerPlan,
  type ServerRequest,
} from "../gateway_plan/plan.ts";
import { FakeServerKernel } from "./testing.ts";

const { EAFNOSUPPORT, EEXIST, EOPNOTSUPP, EPERM } = ERRNO;

const OWN = {
  ipv4: Address.parse("10.1.2.2"),
  ipv6: Address.parse("fd01:2::2"),
};
const CLIENT = Address.parse("10.1.1.2");

/** A gateway whose sysctls are right: tests change nothing of this machine. */
function planOf(changes: Partial<ServerRequest> = {}): ServerPlan {
  const plan = planServer({
    addresses: OWN,
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    sourcePortAuto: true,
    ...changes,
  });
  const families = mapDualStack(plan.families, (family) => ({
    ...family,
    sysctls: [{ name: "kernel/ostype", value: "Linux", alsoGood: [] }],
  }));
  return { ...plan, families };
}

function linkOf(
  name: string,
  more: Partial<Link> & { readonly index: number },
): Link {
  const numbers = { mtu: 1500, group: 0, flags: 0 };
  return { name, up: true, lowerUp: true, ...numbers, ...more };
}

/** The plan's tunnel devices. */
function tunnelsOf(plan: ServerPlan, changes: Partial<Link> = {}): Link[] {
  return [plan.families.ipv4, plan.families.ipv6].flatMap((family, n) => {
    if (family === undefined) return [];
    const { name, tunnel, mtu = 0 } = family.link;
    const { kind } = tunnel;
    return [linkOf(name, { index: 4 + 2 * n, kind, tunnel, mtu, ...changes })];
  });
}

function routeTo(address: Address, index: number): Route {
  return {
    family: address.family,
    destination: Prefix.host(address),
    index,
    table: 118,
    protocol: 30,
    scope: "link",
    type: "unicast",
  };
}

function refusalOf(family: "ipv4" | "ipv6"): Route {
  return {
    family,
    destination: undefined,
    metric: 4096,
    table: 118,
    protocol: 30,
    scope: "global",
    type: "unreachable",
  };
}

/** A kernel in which all is as planned, with one client. */
async function readyKernel(plan: ServerPlan): Promise<FakeServerKernel> {
  const fake = new FakeServerKernel();
  fake.links = [linkOf("eth0", { index: 2 }), ...tunnelsOf(plan)];
  fake.rules = [plan.families.ipv4, plan.families.ipv6].flatMap((family) =>
    family === undefined ? [] : [family.rule]
  );
  fake.routes = [refusalOf("ipv4"), refusalOf("ipv6"), routeTo(CLIENT, 4)];
  fake.sets = { clients4: [CLIENT], clients6: [] };
  fake.ports = [
    { family: "ipv4", port: 5555, protocol: 4 },
    { family: "ipv6", port: 5555, protocol: 41 },
  ];
  await applyServer(fake.kernel, plan, {});
  fake.done.length = 0;
  return fake;
}

const WHOLE = [
  "replace table with limits",
  'replace route "default" to table 118',
  'replace route "default" to table 118',
];

Deno.test("applyServer() lets nobody in before all is in place", async () => {
  const plan = planOf();
  const fake = new FakeServerKernel();
  fake.links = [linkOf("eth0", { index: 2 })];
  fake.after = (done) => {
    if (done.includes("coil_fou4") && fake.links.length === 1) {
      fake.links.push(...tunnelsOf(plan));
    }
  };
  const { links, clients, limits } = await applyServer(fake.kernel, plan, {});
  assert.deepEqual(fake.done, [
    "replace table with limits",
    'create ipip "coil_fou4"',
    'set link "coil_fou4"',
    ...WHOLE.slice(1),
    'add ipv4 rule "2000: from all iif eth0 lookup 118"',
    'add ipv6 rule "2000: from all iif eth0 lookup 118"',
    "add ipv4 port 5555",
    "add ipv6 port 5555",
  ]);
  assert.deepEqual([...links], [["ipv4", 4], ["ipv6", 6]]);
  assert.equal(clients.size, 0);
  assert.deepEqual(limits, {
    flows: 65_536,
    flowsToOneAddress: 16_128,
    isSupported: true,
  });
});

/** Whether the kernel was asked for these, and nothing else. */
function assertSent(
  fake: Pick<FakeServerKernel, "sent">,
  wanted: readonly Request[],
) {
  assert.deepEqual(fake.sent.map(bytesOf), wanted.map(bytesOf));
}

Deno.test("applyServer() asks for devices that send nothing of their own, routes that refuse strangers, and rules", async () => {
  const plan = planOf();
  const { ipv4, ipv6 } = plan.families;
  assert.ok(ipv4 && ipv6);
  const fake = new FakeServerKernel();
  fake.links = [linkOf("eth0", { index: 2 })];
  fake.after = (done) => {
    const made = tunnelsOf(plan).find(({ name }) => done.includes(name));
    if (made !== undefined && done.startsWith("create")) fake.links.push(made);
  };
  fake.sets = { clients4: [CLIENT] };
  await applyServer(fake.kernel, plan, {});
  const own = { table: 118, protocol: 30 };
  const refusal = {
    type: "unreachable",
    metric: 4096,
    scope: "global",
    ...own,
  } as const;
  assertSent(fake, [
    linkAddTunnel({ name: "coil_fou4", tunnel: ipv4.link.tunnel, mtu: 1472 }),
    linkSet({ name: "coil_fou4" }, { up: true }),
    linkAddTunnel({ name: "coil_fou6", tunnel: ipv6.link.tunnel, mtu: 1452 }),
    linkSet({ name: "coil_fou6" }, { ipv6AddrGenMode: "none" }),
    linkSet({ name: "coil_fou6" }, { up: true }),
    routeReplace({ family: "ipv4", ...refusal }),
    routeReplace({ family: "ipv6", ...refusal }),
    routeReplace({
      family: "ipv4",
      destination: Prefix.host(CLIENT),
      index: 4,
      scope: "link",
      ...own,
    }),
    ruleAdd(ipv4.rule),
    ruleAdd(ipv6.rule),
  ]);
});

Deno.test("applyServer() leaves alone what is right", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  fake.routes.push({ ...routeTo(CLIENT, 9), table: 254 });
  fake.routes.push({ ...routeTo(OWN.ipv6, 9), protocol: 4 });
  fake.rules.push({ family: "ipv4", priority: 1, table: 118, iif: "eth9" });
  fake.rules.push({ family: "ipv4", priority: 2000, table: 9, iif: "eth9" });
  fake.rules.push({ family: "ipv4", priority: 2000, table: 118 });
  fake.links.push(linkOf("egress-dummy", { index: 11, kind: "bridge" }));
  fake.links.push(linkOf("other", { index: 12, kind: "ipip" }));
  const { clients } = await applyServer(fake.kernel, plan, {});
  assert.deepEqual(fake.done, WHOLE);
  assert.deepEqual([...clients.keys()], ["10.1.1.2"]);
});

Deno.test("applyServer() keeps the clients that it finds, and gives each its route", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  const [listed, elsewhere] = ["10.1.1.3", "10.1.1.4"].map(Address.parse);
  assert.ok(listed && elsewhere);
  fake.sets = { clients4: [listed] };
  fake.routes.push(routeTo(elsewhere, 9));
  const { clients } = await applyServer(fake.kernel, plan, {});
  assert.deepEqual(
    [...clients.keys()].toSorted(),
    ["10.1.1.2", "10.1.1.3", "10.1.1.4"],
  );
  assert.deepEqual(fake.done.slice(3).toSorted(), [
    'replace route "10.1.1.3/32" to table 118',
    'replace route "10.1.1.4/32" to table 118',
  ]);
});

Deno.test("applyServer() removes an earlier gateway's port first, and the rest of it last", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  const earlier = planOf({ port: 5556 });
  fake.links = [linkOf("eth0", { index: 2 }), ...tunnelsOf(earlier)];
  fake.links.push(linkOf("egress-dummy", { index: 11, kind: "dummy" }));
  const nobody = Prefix.parse("10.9.0.0/16");
  fake.routes.push({ ...routeTo(CLIENT, 4), destination: nobody });
  fake.rules.push({ family: "ipv4", priority: 2000, table: 118, iif: "eth9" });
  await applyServer(fake.kernel, plan, {});
  assert.deepEqual(fake.done, [
    "delete ipv4 port 5556",
    "delete ipv6 port 5556",
    "replace table with limits",
    "change ipip 4",
    "set link 4",
    "change ip6tnl 6",
    "set link 6",
    ...WHOLE.slice(1),
    'delete route "10.9.0.0/16" from table 118',
    'delete ipv4 rule "2000: from all iif eth9 lookup 118"',
    "delete link 11",
  ]);
});

Deno.test("applyServer() removes what a family has that is not served any more", async () => {
  const fake = await readyKernel(planOf());
  fake.ports.pop();
  await applyServer(fake.kernel, planOf({ addresses: { ipv4: OWN.ipv4 } }), {});
  assert.deepEqual(fake.done, [
    "delete ipv6 port 5555",
    ...WHOLE.slice(0, 2),
    'delete route "default" from table 118',
    'delete ipv6 rule "2000: from all iif eth0 lookup 118"',
    "delete link 6",
  ]);
});

Deno.test("applyServer() works in a kernel without IPv6", async () => {
  const plan = planOf({ addresses: { ipv4: OWN.ipv4 } });
  const fake = await readyKernel(planOf());
  fake.links.pop();
  fake.rules.pop();
  for (const errno of [EAFNOSUPPORT, EOPNOTSUPP]) {
    fake.ipv6Errno = errno;
    fake.done.length = 0;
    await applyServer(fake.kernel, plan, {});
    assert.deepEqual(fake.done, WHOLE.slice(0, 2));
  }
  fake.ipv6Errno = EPERM;
  await assert.rejects(applyServer(fake.kernel, plan, {}), { code: "EPERM" });
});

Deno.test("applyServer() accepts a rule that another process has just added as its own", async () => {
  const plan = planOf();
  for (const [errno, isFine] of [[EEXIST, true], [EPERM, false]] as const) {
    const fake = await readyKernel(plan);
    fake.rules = [];
    fake.refusals['add ipv4 rule "2000: from all iif eth0 lookup 118"'] = errno;
    const applying = applyServer(fake.kernel, plan, {});
    if (isFine) await applying;
    else await assert.rejects(applying, { code: "EPERM" });
  }
});

Deno.test("applyServer() corrects tunnel devices in place", async () => {
  const plan = planOf();
  const { ipv4, ipv6 } = plan.families;
  assert.ok(ipv4 && ipv6);
  const [four, six] = tunnelsOf(plan);
  assert.ok(four && six);
  const cases: readonly (readonly [Partial<Link>, ...string[]])[] = [
    [{}],
    [{ up: false }, "set link 4"],
    [{ mtu: 1400 }, "set link 4"],
    [
      { tunnel: { ...ipv4.link.tunnel, ttl: 1 } },
      "change ipip 4",
      "set link 4",
    ],
    [{ tunnel: undefined }, "change ipip 4", "set link 4"],
    [
      { kind: "gre" },
      "delete link 4",
      'create ipip "coil_fou4"',
      'set link "coil_fou4"',
    ],
  ];
  for (const [changes, ...expected] of cases) {
    const fake = await readyKernel(plan);
    fake.links = [linkOf("eth0", { index: 2 }), { ...four, ...changes }, six];
    await applyServer(fake.kernel, plan, {});
    assert.deepEqual(fake.done, [WHOLE[0], ...expected, ...WHOLE.slice(1)]);
  }
});

Deno.test("applyServer() asks for just what a device lacks", async () => {
  const plan = planOf();
  const [four, six] = tunnelsOf(plan);
  const { ipv4, ipv6 } = plan.families;
  assert.ok(four && six && ipv4 && ipv6);
  const mtu = 1472;
  const cases: readonly (readonly [Partial<Link>, ...Request[]])[] = [
    [{ up: false }, linkSet({ index: 4 }, { up: true })],
    [{ mtu: 1400 }, linkSet({ index: 4 }, { mtu })],
    [{ tunnel: { ...ipv4.link.tunnel, collectMetadata: false } }],
    ...[{ ttl: 1 }, { collectMetadata: true }].map((change) =>
      [
        { tunnel: { ...ipv4.link.tunnel, ...change } },
        linkChangeTunnel({ index: 4 }, ipv4.link.tunnel, { mtu }),
        linkSet({ index: 4 }, { mtu }),
      ] as const
    ),
    [
      { kind: "gre" },
      linkDelete({ index: 4 }),
      linkAddTunnel({ name: "coil_fou4", tunnel: ipv4.link.tunnel, mtu }),
      linkSet({ name: "coil_fou4" }, { up: true }),
    ],
  ];
  for (const [changes, ...wanted] of cases) {
    const fake = await readyKernel(plan);
    fake.links = [linkOf("eth0", { index: 2 }), { ...four, ...changes }, six];
    fake.sent.length = 0;
    await applyServer(fake.kernel, plan, {});
    // After these come the two routes that refuse strangers.
    assertSent({ sent: fake.sent.slice(0, -2) }, wanted);
  }
});

Deno.test("applyServer() removes just the routes that it found, by all that they have", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  const nobody = Prefix.parse("10.9.0.0/16");
  const surplus = [
    { ...routeTo(CLIENT, 4), destination: nobody, metric: 7 },
    { ...refusalOf("ipv6"), metric: 1 },
    { ...routeTo(CLIENT, 4), type: "blackhole" as const },
  ];
  fake.routes.push(...surplus);
  fake.sent.length = 0;
  await applyServer(fake.kernel, plan, {});
  assert.deepEqual(
    fake.sent.slice(2).map(bytesOf),
    [surplus[0], surplus[2], surplus[1]].flatMap((route) => {
      if (route === undefined) return [];
      const { family, destination, metric, index, table, protocol } = route;
      const key = { family, destination, metric, index, table, protocol };
      return [bytesOf(routeDelete(key))];
    }),
  );
});

Deno.test("applyServer() names the interface that it lacks, and a device that goes at once", async () => {
  const plan = planOf({ mtu: 0 });
  const fake = new FakeServerKernel();
  await assert.rejects(
    applyServer(fake.kernel, plan, {}),
    /has no interface "eth0"/,
  );
  fake.links = [linkOf("eth0", { index: 2 })];
  await assert.rejects(
    applyServer(fake.kernel, plan, {}),
    /"coil_fou4": another program deleted it at once/,
  );
});

Deno.test("applyServer() does without limits where the kernel cannot count, or nobody wants them", async () => {
  for (
    const [max, canLimit, limits] of [
      [undefined, false, { isSupported: false }],
      [0, false, { isSupported: false }],
      [0, true, { isSupported: true }],
      [100, true, { isSupported: true, flows: 100 }],
    ] as const
  ) {
    const plan = planOf({
      probePort: 8081,
      ...(max === undefined ? {} : { maxFlowsPerClient: max }),
    });
    const fake = await readyKernel(plan);
    fake.canLimit = canLimit;
    fake.table = undefined;
    const applied = await applyServer(fake.kernel, plan, {});
    assert.deepEqual(applied.limits, limits);
    const table = canLimit ? "replace table with limits" : "replace table";
    assert.equal(fake.done[0], table);
    assert.ok(fake.table);
  }
});

Deno.test("applyServer() hands on what the kernel refuses for another reason than that something is not there", async () => {
  const plan = planOf();
  const harms: readonly ((fake: FakeServerKernel) => void)[] = [
    (fake) => Object.assign(fake, { sets: undefined, setErrno: EPERM }),
    (fake) => Object.assign(fake, { canLimit: false, limitErrno: EPERM }),
  ];
  for (const harm of harms) {
    const fake = await readyKernel(plan);
    harm(fake);
    await assert.rejects(applyServer(fake.kernel, plan, {}), { code: "EPERM" });
  }
  const fake = await readyKernel(plan);
  Object.assign(fake, { sets: undefined, setErrno: EPERM });
  await assert.rejects(listLimited(fake.kernel, plan), { code: "EPERM" });
});

Deno.test("applyServer() gives the tunnel the MTU that the gateway was given", async () => {
  const plan = planOf({ mtu: 1400 });
  const fake = await readyKernel(planOf());
  await applyServer(fake.kernel, plan, {});
  assertSent(
    { sent: fake.sent.filter((r) => /^set link/.test(r.describe())) },
    [
      linkSet({ index: 4 }, { mtu: 1400 - 28 }),
      linkSet({ index: 6 }, { mtu: 1400 - 48 }),
    ],
  );
});

Deno.test("clearServer() removes all of a gateway, and nothing of others", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  fake.routes.push({ ...routeTo(CLIENT, 9), protocol: 4 });
  fake.rules.push({ family: "ipv4", priority: 2000, table: 9, iif: "eth9" });
  fake.links.push(linkOf("other", { index: 12, kind: "ipip" }));
  await clearServer(fake.kernel, plan);
  const group = fake.done.findIndex((done) => done.startsWith("delete link g"));
  assert.deepEqual(fake.done.toSpliced(group, 1), [
    "delete ipv4 port 5555",
    "delete ipv6 port 5555",
    'delete route "default" from table 118',
    'delete route "10.1.1.2/32" from table 118',
    'delete route "default" from table 118',
    'delete ipv4 rule "2000: from all iif eth0 lookup 118"',
    'delete ipv6 rule "2000: from all iif eth0 lookup 118"',
    "set link 4",
    "set link 6",
    "delete table",
  ]);
});

Deno.test("findServerDamage() names each part that is missing", async () => {
  const plan = planOf();
  const clients = new Map([["10.1.1.2", CLIENT]]);
  const damage = async (
    harm: (fake: FakeServerKernel) => void,
    wanted: ServerPlan = plan,
  ) => {
    const fake = await readyKernel(plan);
    const { limits } = await applyServer(fake.kernel, plan, {});
    harm(fake);
    const expected = { plan: wanted, clients, table: { limits } };
    return await findServerDamage(fake.kernel, expected);
  };
  assert.deepEqual(await damage(() => {}), []);
  const cases: Readonly<
    Record<string, (fake: FakeServerKernel) => void>
  > = {
    'nftables table "inet coil" is missing': (f) => f.table = undefined,
    'nftables table "inet coil" was changed': (f) => f.table = "other",
    'link "coil_fou6" is missing or down': (f) => f.links.pop(),
    'link "coil_fou4" is missing or down': (f) =>
      f.links = f.links.map((l) => ({ ...l, up: l.index !== 4 })),
    'ipv4 rule "2000: from all iif eth0 lookup 118" is missing': (f) =>
      f.rules.shift(),
    "route to client 10.1.1.2 is missing": (f) => f.routes.pop(),
    "the ipv4 route that rejects other packets is missing": (f) =>
      f.routes.shift(),
  };
  for (const [message, harm] of Object.entries(cases)) {
    assert.deepEqual(await damage(harm), [message]);
  }
  const elsewhere = (f: FakeServerKernel) =>
    f.routes = [...f.routes.slice(0, 2), routeTo(CLIENT, 9)];
  assert.deepEqual(await damage(elsewhere), [
    "route to client 10.1.1.2 is missing",
  ]);
  for (
    const changes of [
      { metric: 1 },
      { type: "unicast" as const },
      { destination: Prefix.parse("10.0.0.0/8") },
    ]
  ) {
    const other = { ...refusalOf("ipv4"), ...changes };
    assert.deepEqual(await damage((f) => f.routes.splice(0, 1, other)), [
      "the ipv4 route that rejects other packets is missing",
    ]);
  }
});

Deno.test("findServerDamage() takes sysctls for good that will do", async () => {
  const plan = planOf({ addresses: { ipv4: OWN.ipv4 } });
  const { ipv4 } = plan.families;
  assert.ok(ipv4);
  const fake = await readyKernel(plan);
  const name = "kernel/ostype";
  const damage = async (...sysctls: readonly ServerSysctl[]) => {
    const families = { ipv4: { ...ipv4, sysctls } };
    const wanted = { ...plan, families };
    return await findServerDamage(fake.kernel, {
      plan: wanted,
      clients: new Map(),
    });
  };
  assert.deepEqual(await damage({ name, value: "Linux", alsoGood: [] }), []);
  assert.deepEqual(await damage({ name, value: "1", alsoGood: ["Linux"] }), []);
  assert.deepEqual(
    await damage(
      { name: "kernel/none", value: "1", alsoGood: [] },
      { name, value: "1", alsoGood: ["2"] },
    ),
    [`sysctl "${name}" is Linux`],
  );
});

Deno.test("listLimited() has nobody where there are no limits", async () => {
  const plan = planOf();
  const fake = await readyKernel(plan);
  assert.deepEqual(await listLimited(fake.kernel, plan), []);
  fake.sets = { refused4: [CLIENT] };
  assert.deepEqual(await listLimited(fake.kernel, plan), [CLIENT]);
});
