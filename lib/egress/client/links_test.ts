import assert from "node:assert/strict";
import {
  type Link,
  linkAddTunnel,
  linkChangeTunnel,
  linkSet,
  type Request,
  type TunnelSpec,
} from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import {
  addLink,
  diffLinks,
  renameFallbacks,
  type WantedLink,
  wantedLinks,
} from "./links.ts";
import { planClient } from "../plan/plan.ts";
import { gatewayFor, requestFor } from "../testing.ts";

const GATEWAY = gatewayFor("a/a", ["0.0.0.0/0", "::/0"]);
const WANTED = wantedLinks(planClient(requestFor([GATEWAY])), 1500);
const KERNEL = { addrGen: true };

/** As the kernel lists what it was asked for. */
function listed(want: WantedLink, index: number): Link {
  return {
    index,
    name: want.name,
    mtu: want.mtu ?? 1480,
    kind: want.tunnel.kind,
    tunnel: want.tunnel,
    up: true,
    lowerUp: true,
    group: 0,
    ipv6AddrGenMode: "none",
    flags: 0,
  };
}

const PRESENT = WANTED.map((want, i) => listed(want, 5 + i));

function textsOf(present: readonly Link[], wanted = WANTED): string[] {
  return diffLinks(wanted, present, KERNEL).requests.map((request) =>
    request.describe()
  );
}

Deno.test("diffLinks() finds nothing to do where all is there", () => {
  const changes = diffLinks(WANTED, PRESENT, KERNEL);
  assert.deepEqual(changes, {
    requests: [],
    conflicting: [],
    present: PRESENT,
    changed: [],
    created: [],
    surplus: [],
  });
});

Deno.test("diffLinks() makes receivers before tunnels", () => {
  const { created } = diffLinks(WANTED, [], KERNEL);
  assert.deepEqual(created, [
    "coil_ipip4",
    "coil_ipip6",
    "fou4_0a440c31",
    "fou6_0a3cb378",
  ]);
});

Deno.test("diffLinks() needs one request for a link where the kernel has no IPv6", () => {
  const ipv4 = WANTED.filter(({ family }) => family === "ipv4");
  assert.equal(diffLinks(ipv4, [], { addrGen: false }).requests.length, 2);
});

/** The tunnels changed, and what is done about it. */
const CHANGES: readonly (readonly [
  string,
  (link: Link) => Partial<Link>,
  readonly string[],
])[] = [
  ["a fixed source port", encapWith({ sourcePort: 5555 }), [
    "change ipip 7",
    "change ip6tnl 8",
  ]],
  ["another port", encapWith({ destinationPort: 5556 }), [
    "change ipip 7",
    "change ip6tnl 8",
  ]],
  ["an outer checksum", encapWith({ checksum: true }), [
    "change ipip 7",
    "change ip6tnl 8",
  ]],
  ["another MTU", () => ({ mtu: 1400 }), ["set link 7", "set link 8"]],
  ["been set down", () => ({ up: false }), ["set link 7", "set link 8"]],
];
for (const [name, change, expected] of CHANGES) {
  Deno.test(`diffLinks() mends tunnels that have ${name} in place`, () => {
    const present = PRESENT.map((link) =>
      link.index >= 7 ? { ...link, ...change(link) } : link
    );
    assert.deepEqual(textsOf(present), expected);
  });
}

function encapWith(
  changes: Partial<NonNullable<TunnelSpec["encap"]>>,
): (link: Link) => Partial<Link> {
  return ({ tunnel }) => {
    assert.ok(tunnel?.encap !== undefined);
    return { tunnel: { ...tunnel, encap: { ...tunnel.encap, ...changes } } };
  };
}

/** Whether both ask the kernel for the same. */
function assertSame(actual: readonly Request[], wanted: readonly Request[]) {
  assert.deepEqual(actual.map(bytesOf), wanted.map(bytesOf));
}

Deno.test("wantedLinks() gives a tunnel what its packets need, and a receiver no more than it takes", () => {
  const [receiver, , tunnel] = WANTED;
  assert.deepEqual(receiver, {
    name: "coil_ipip4",
    family: "ipv4",
    tunnel: { kind: "ipip", collectMetadata: true },
  });
  const { local, remote, ...rest } = tunnel?.tunnel ?? {};
  assert.equal(`${local} ${remote}`, "10.1.2.3 10.68.12.49");
  assert.deepEqual(rest, {
    kind: "ipip",
    ttl: 225,
    encap: { sourcePort: "auto", destinationPort: 5555, checksum: false },
  });
  assert.equal(tunnel?.mtu, 1500 - 28);
});

Deno.test("diffLinks() makes links that send nothing of their own", () => {
  for (const want of WANTED) {
    const { name, tunnel, mtu } = want;
    const link = { name, tunnel, ...(mtu !== undefined && { mtu }) };
    assertSame(diffLinks([want], [], KERNEL).requests, [
      linkAddTunnel(link),
      linkSet({ name }, { ipv6AddrGenMode: "none" }),
      linkSet({ name }, { up: true }),
    ]);
    assertSame(addLink(want, { addrGen: true, index: 9 }), [
      linkAddTunnel({ ...link, index: 9 }),
      linkSet({ index: 9 }, { ipv6AddrGenMode: "none" }),
      linkSet({ index: 9 }, { up: true }),
    ]);
    assertSame(diffLinks([want], [], { addrGen: false }).requests, [
      linkAddTunnel({ ...link, up: true }),
    ]);
  }
});

Deno.test("diffLinks() asks for just what a link lacks", () => {
  const [receiver, , tunnel] = PRESENT;
  const want = WANTED[2];
  assert.ok(receiver && tunnel?.tunnel && want);
  const { index } = tunnel;
  const mtu = want.mtu ?? 0;
  const cases: readonly (readonly [Link, ...Request[]])[] = [
    [{ ...receiver, mtu: 1400 }],
    [
      { ...receiver, up: false, ipv6AddrGenMode: "eui64" },
      linkSet({ index: 5 }, { ipv6AddrGenMode: "none" }),
      linkSet({ index: 5 }, { up: true }),
    ],
    [{ ...tunnel, mtu: 1400 }, linkSet({ index }, { mtu })],
    [
      { ...tunnel, mtu: 1400, tunnel: { ...tunnel.tunnel, ttl: 1 } },
      linkChangeTunnel({ index }, want.tunnel, { mtu }),
    ],
  ];
  for (const [link, ...wanted] of cases) {
    const present = PRESENT.map((one) => one.index === link.index ? link : one);
    const changes = diffLinks(WANTED, present, KERNEL);
    assertSame(changes.requests, wanted);
    assert.deepEqual(changes.changed, wanted.length === 0 ? [] : [link]);
    assert.deepEqual(changes.present, present);
  }
  const other = { ...receiver, ipv6AddrGenMode: "eui64" as const };
  const ipv4 = WANTED.slice(0, 1);
  assertSame(diffLinks(ipv4, [other], { addrGen: false }).requests, []);
});

Deno.test("diffLinks() recreates what cannot be changed", () => {
  const [receiver, , tunnel] = PRESENT;
  assert.ok(receiver !== undefined && tunnel !== undefined);
  const wrong: readonly Link[] = [
    { ...receiver, tunnel: { kind: "ipip" } },
    { ...tunnel, kind: "dummy", tunnel: undefined },
    { ...tunnel, tunnel: undefined },
    { ...tunnel, tunnel: { kind: "ipip", collectMetadata: true } },
  ];
  for (const link of wrong) {
    const others = PRESENT.filter(({ name }) => name !== link.name);
    const changes = diffLinks(WANTED, [...others, link], KERNEL);
    assert.deepEqual(changes.conflicting, [link]);
    assert.deepEqual(changes.created, [link.name]);
  }
});

Deno.test("diffLinks() finds what nobody wants", () => {
  const { surplus } = diffLinks([], PRESENT, KERNEL);
  assert.deepEqual(surplus, PRESENT);
});

const FALLBACK: Link = {
  index: 2,
  name: "tunl0",
  mtu: 1480,
  kind: "ipip",
  up: false,
  lowerUp: false,
  group: 0,
  flags: 0,
};

Deno.test("renameFallbacks() renames the kernel's own link, there and back", () => {
  const renamed = { ...FALLBACK, name: "coil_tunl" };
  assert.equal(renameFallbacks([FALLBACK], ["ipv4"]).length, 1);
  assert.equal(renameFallbacks([renamed], []).length, 1);
  for (
    const links of [[renamed], [{ ...FALLBACK, up: true }], [FALLBACK, renamed]]
  ) assert.deepEqual(renameFallbacks(links, ["ipv4"]), []);
  assert.deepEqual(renameFallbacks([FALLBACK], ["ipv6"]), []);
  assert.deepEqual(
    renameFallbacks([{ ...FALLBACK, kind: "dummy" }], ["ipv4"]),
    [],
  );
  assertSame(renameFallbacks([FALLBACK], ["ipv4"]), [
    linkSet({ index: 2 }, { rename: "coil_tunl" }),
  ]);
  const six = { ...FALLBACK, name: "ip6tnl0", kind: "ip6tnl" };
  assertSame(renameFallbacks([six], ["ipv6"]), [
    linkSet({ index: 2 }, { rename: "coil_ip6tnl" }),
  ]);
});
