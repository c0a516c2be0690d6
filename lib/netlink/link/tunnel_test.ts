import assert from "node:assert/strict";
import fc from "fast-check";
import { Address } from "../../inet/mod.ts";
import { Attributes, Payload } from "../message/message_reader.ts";
import { MessageWriter } from "../message/message_writer.ts";
import {
  linkAddTunnel,
  linkChangeTunnel,
  type Request,
  type TunnelSpec,
} from "../mod.ts";
import { linkAddDummy } from "../../../tests/lab/netlink_requests.ts";
import { hex, unhex } from "../testing.ts";
import { parseTunnel, sameTunnel, writeTunnel } from "./tunnel.ts";

const LOCAL4 = Address.parse("10.1.1.2");
const LOCAL6 = Address.parse("fd01::2");
const PORT = 5555;
const AUTO = {
  sourcePort: "auto",
  destinationPort: PORT,
  checksum: true,
} as const;
const FIXED = {
  sourcePort: PORT,
  destinationPort: PORT,
  checksum: false,
} as const;

/**
 * What is in IFLA_INFO_DATA: as ip of iproute2 6.1.0 sends it, and as Linux
 * 6.12 tells it afterwards. Recorded with
 * `strace -e trace=sendmsg,recvmsg -xx -s 40000 ip link add name t type …` and
 * `… ip -d link show t`.
 */
interface Recording {
  readonly tunnel: TunnelSpec;
  /** The arguments after `type`. */
  readonly args: string;
  readonly sent: string;
  readonly told: string;
}

const RECORDINGS: readonly Recording[] = [
  {
    tunnel: {
      kind: "ipip",
      local: LOCAL4,
      remote: Address.parse("10.96.0.10"),
      ttl: 225,
      encap: { ...AUTO, sourcePort: PORT },
    },
    args:
      "ipip mode ipip local 10.1.1.2 remote 10.96.0.10 ttl 225 encap fou encap-sport 5555 encap-dport 5555 encap-csum",
    sent:
      "05 00 09 00 04 00 00 00 08 00 02 00 0a 01 01 02 08 00 03 00 0a 60 00 0a 05 00 0a 00 01 00 00 00 05 00 05 00 00 00 00 00 05 00 04 00 e1 00 00 00 08 00 01 00 00 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 10 00 01 00 00 00 06 00 11 00 15 b3 00 00 06 00 12 00 15 b3 00 00",
    told:
      "08 00 01 00 00 00 00 00 08 00 02 00 0a 01 01 02 08 00 03 00 0a 60 00 0a 05 00 04 00 e1 00 00 00 05 00 05 00 00 00 00 00 05 00 09 00 04 00 00 00 05 00 0a 00 01 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 11 00 15 b3 00 00 06 00 12 00 15 b3 00 00 06 00 10 00 01 00 00 00",
  },
  {
    tunnel: {
      kind: "ipip",
      local: LOCAL4,
      remote: Address.parse("10.96.0.12"),
      ttl: undefined,
      encap: undefined,
    },
    args: "ipip mode ipip local 10.1.1.2 remote 10.96.0.12",
    sent:
      "05 00 09 00 04 00 00 00 08 00 02 00 0a 01 01 02 08 00 03 00 0a 60 00 0c 05 00 0a 00 01 00 00 00 05 00 05 00 00 00 00 00 05 00 04 00 00 00 00 00 08 00 01 00 00 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 00 00 00 00 06 00 10 00 00 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 00 00 00 00",
    told:
      "08 00 01 00 00 00 00 00 08 00 02 00 0a 01 01 02 08 00 03 00 0a 60 00 0c 05 00 04 00 00 00 00 00 05 00 05 00 00 00 00 00 05 00 09 00 04 00 00 00 05 00 0a 00 01 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 00 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 00 00 00 00 06 00 10 00 00 00 00 00",
  },
  {
    tunnel: { kind: "ipip", collectMetadata: true },
    args: "ipip mode ipip external",
    sent: "05 00 09 00 04 00 00 00 04 00 13 00",
    told:
      "08 00 01 00 00 00 00 00 08 00 02 00 00 00 00 00 08 00 03 00 00 00 00 00 05 00 04 00 00 00 00 00 05 00 05 00 00 00 00 00 05 00 09 00 04 00 00 00 05 00 0a 00 01 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 00 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 00 00 00 00 06 00 10 00 00 00 00 00 04 00 13 00",
  },
  {
    tunnel: {
      kind: "ip6tnl",
      local: LOCAL6,
      remote: Address.parse("fd96::10"),
      ttl: 225,
      encap: AUTO,
    },
    args:
      "ip6tnl mode ip6ip6 local fd01::2 remote fd96::10 encaplimit none hoplimit 225 encap fou encap-sport auto encap-dport 5555 encap-csum",
    sent:
      "05 00 09 00 29 00 00 00 14 00 02 00 fd 01 00 00 00 00 00 00 00 00 00 00 00 00 00 02 14 00 03 00 fd 96 00 00 00 00 00 00 00 00 00 00 00 00 00 10 05 00 04 00 e1 00 00 00 05 00 06 00 04 00 00 00 08 00 07 00 00 00 00 00 08 00 08 00 01 00 00 00 08 00 01 00 00 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 10 00 03 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 15 b3 00 00",
    told:
      "08 00 01 00 00 00 00 00 14 00 02 00 fd 01 00 00 00 00 00 00 00 00 00 00 00 00 00 02 14 00 03 00 fd 96 00 00 00 00 00 00 00 00 00 00 00 00 00 10 05 00 04 00 e1 00 00 00 05 00 06 00 04 00 00 00 08 00 07 00 00 00 00 00 08 00 08 00 01 00 03 00 05 00 09 00 29 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 15 b3 00 00 06 00 10 00 03 00 00 00",
  },
  {
    tunnel: {
      kind: "ip6tnl",
      local: LOCAL6,
      remote: Address.parse("fd96::11"),
      ttl: 225,
      encap: FIXED,
    },
    args:
      "ip6tnl mode ip6ip6 local fd01::2 remote fd96::11 encaplimit none hoplimit 225 encap fou encap-sport 5555 encap-dport 5555 noencap-csum noencap-udp6-csum",
    sent:
      "05 00 09 00 29 00 00 00 14 00 02 00 fd 01 00 00 00 00 00 00 00 00 00 00 00 00 00 02 14 00 03 00 fd 96 00 00 00 00 00 00 00 00 00 00 00 00 00 11 05 00 04 00 e1 00 00 00 05 00 06 00 04 00 00 00 08 00 07 00 00 00 00 00 08 00 08 00 01 00 00 00 08 00 01 00 00 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 10 00 00 00 00 00 06 00 11 00 15 b3 00 00 06 00 12 00 15 b3 00 00",
    told:
      "08 00 01 00 00 00 00 00 14 00 02 00 fd 01 00 00 00 00 00 00 00 00 00 00 00 00 00 02 14 00 03 00 fd 96 00 00 00 00 00 00 00 00 00 00 00 00 00 11 05 00 04 00 e1 00 00 00 05 00 06 00 04 00 00 00 08 00 07 00 00 00 00 00 08 00 08 00 01 00 03 00 05 00 09 00 29 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 01 00 00 00 06 00 11 00 15 b3 00 00 06 00 12 00 15 b3 00 00 06 00 10 00 00 00 00 00",
  },
  {
    tunnel: { kind: "ip6tnl", collectMetadata: true },
    args: "ip6tnl mode ip6ip6 external",
    sent: "05 00 09 00 29 00 00 00 04 00 13 00",
    told:
      "08 00 01 00 00 00 00 00 14 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 14 00 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00 04 00 00 00 00 00 05 00 06 00 00 00 00 00 08 00 07 00 00 00 00 00 08 00 08 00 00 00 04 00 05 00 09 00 29 00 00 00 08 00 14 00 00 00 00 00 06 00 0f 00 00 00 00 00 06 00 11 00 00 00 00 00 06 00 12 00 00 00 00 00 06 00 10 00 00 00 00 00 04 00 13 00",
  },
];

/** IFLA_IPTUN_ENCAP_LIMIT: `ip` sends its default 4 even where the flags say that there is none. */
const ENCAP_LIMIT = 6;

function written(tunnel: TunnelSpec): Attributes {
  const writer = new MessageWriter();
  writeTunnel(writer, tunnel);
  return new Attributes(writer.bytes().slice());
}

for (const { tunnel, args, sent, told } of RECORDINGS) {
  Deno.test(`writeTunnel() writes what ip does for "${args}"`, () => {
    const ours = written(tunnel);
    const theirs = new Attributes(unhex(sent));
    for (const type of ours.types()) {
      assert.equal(
        hex(ours.bytes(type) ?? new Uint8Array()),
        hex(theirs.bytes(type) ?? new Uint8Array()),
        `attribute ${type}`,
      );
    }
    // What we leave out is zero there, which is what the kernel takes then.
    const left = theirs.types().filter((type) => !ours.flag(type));
    for (const type of left.filter((type) => type !== ENCAP_LIMIT)) {
      assert.match(hex(theirs.bytes(type) ?? new Uint8Array()), /^(00 ?)+$/);
    }
  });

  Deno.test(`parseTunnel() reads what the kernel tells of "${args}"`, () => {
    assert.deepEqual(
      parseTunnel(tunnel.kind, new Attributes(unhex(told))),
      tunnel,
    );
  });
}

const PORTS = fc.integer({ min: 1, max: 0xffff });
const ENCAPS = fc.record({
  sourcePort: fc.oneof(PORTS, fc.constant("auto" as const)),
  destinationPort: PORTS,
  checksum: fc.boolean(),
}, { noNullPrototype: true });

function arbitraryTunnel(kind: TunnelSpec["kind"]): fc.Arbitrary<TunnelSpec> {
  const [family, bits] = kind === "ipip"
    ? ["ipv4", 32] as const
    : ["ipv6", 128] as const;
  const address = fc.bigInt({ min: 1n, max: (1n << BigInt(bits)) - 1n })
    .map((value) => Address.of(family, value));
  const maybe = <T>(arbitrary: fc.Arbitrary<T>) =>
    fc.option(arbitrary, { nil: undefined });
  return fc.oneof(
    fc.constant({ kind, collectMetadata: true }),
    fc.record({
      kind: fc.constant(kind),
      local: maybe(address),
      remote: maybe(address),
      ttl: maybe(fc.integer({ min: 1, max: 255 })),
      encap: maybe(ENCAPS),
    }, { noNullPrototype: true }),
  );
}

Deno.test("parseTunnel() reads back all that writeTunnel() wrote", () => {
  fc.assert(
    fc.property(
      fc.oneof(arbitraryTunnel("ipip"), arbitraryTunnel("ip6tnl")),
      (tunnel) => {
        assert.deepEqual(parseTunnel(tunnel.kind, written(tunnel)), tunnel);
      },
    ),
  );
});

Deno.test("parseTunnel() either reads hostile bytes or throws a SyntaxError", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          fc.integer({ min: 0, max: 21 }),
          fc.uint8Array({ maxLength: 20 }),
        ),
      ),
      fc.constantFrom("ipip", "ip6tnl"),
      (parts, kind) => {
        const writer = new MessageWriter();
        for (const [type, bytes] of parts) writer.attributeBytes(type, bytes);
        try {
          parseTunnel(kind, new Attributes(writer.bytes()));
        } catch (error) {
          assert(error instanceof SyntaxError, String(error));
        }
      },
    ),
  );
});

Deno.test("sameTunnel() sees a difference in any field, and none in what is left out", () => {
  const tunnel: TunnelSpec = {
    kind: "ipip",
    local: LOCAL4,
    remote: Address.parse("10.1.1.3"),
    ttl: 64,
    encap: AUTO,
  };
  assert(sameTunnel({ ...tunnel, collectMetadata: false }, tunnel));
  assert(!sameTunnel(undefined, tunnel));
  const others: Partial<TunnelSpec>[] = [
    { kind: "ip6tnl" },
    { local: undefined },
    { local: tunnel.remote, remote: tunnel.local },
    { remote: Address.parse("10.1.1.4") },
    { ttl: 63 },
    { encap: undefined },
    { encap: { ...AUTO, sourcePort: PORT } },
    { encap: { ...AUTO, destinationPort: PORT + 1 } },
    { encap: { ...AUTO, checksum: false } },
    { collectMetadata: true },
  ];
  for (const other of others) {
    assert(!sameTunnel({ ...tunnel, ...other }, tunnel), JSON.stringify(other));
  }
});

Deno.test("tunnels that the kernel would not take are refused when asked for", () => {
  const encap = AUTO;
  const refused: readonly [TunnelSpec, typeof TypeError | typeof RangeError][] =
    [
      [{ kind: "ipip", local: LOCAL6 }, TypeError],
      [{ kind: "ipip", remote: LOCAL6 }, TypeError],
      [{ kind: "ip6tnl", local: LOCAL4 }, TypeError],
      [{ kind: "ipip", collectMetadata: true, local: LOCAL4 }, TypeError],
      [{ kind: "ip6tnl", collectMetadata: true, encap }, TypeError],
      [{ kind: "ipip", ttl: 0 }, RangeError],
      [{ kind: "ipip", ttl: 256 }, RangeError],
      [{ kind: "ipip", encap: { ...encap, destinationPort: 0 } }, RangeError],
      [{ kind: "ipip", encap: { ...encap, sourcePort: 0 } }, RangeError],
      [{ kind: "ipip", encap: { ...encap, sourcePort: 65536 } }, RangeError],
    ];
  for (const [tunnel, type] of refused) {
    assert.throws(() => linkAddTunnel({ name: "t", tunnel }), type);
    assert.throws(() => linkChangeTunnel({ name: "t" }, tunnel), type);
  }
  const tunnel: TunnelSpec = { kind: "ipip", collectMetadata: true };
  assert.throws(() => linkAddTunnel({ name: "a/b", tunnel }), SyntaxError);
  assert.throws(() => linkAddDummy({ name: "a/b" }), SyntaxError);
});

function payloadOf(request: Request): Payload {
  const writer = new MessageWriter();
  request.write(writer);
  return new Payload(writer.bytes().slice());
}

Deno.test("tunnel requests have the flags that ip gives them", () => {
  const tunnel: TunnelSpec = { kind: "ipip", collectMetadata: true };
  const up = linkAddTunnel({ name: "t", mtu: 1400, tunnel, up: true });
  // RTM_NEWLINK; NLM_F_CREATE | NLM_F_EXCL.
  assert.deepEqual([up.type, up.flags], [16, 0x600]);
  assert.equal(up.describe(), 'create ipip "t"');
  const bytes = payloadOf(up);
  assert.deepEqual([bytes.u32(8), bytes.u32(12)], [1, 1]); // IFF_UP, changed
  assert.equal(bytes.attributes(16).u32(4), 1400);
  const down = payloadOf(linkAddTunnel({ name: "t", tunnel }));
  assert.deepEqual([down.u32(8), down.u32(12)], [0, 0]);

  const change = linkChangeTunnel({ index: 7 }, tunnel, { mtu: 1400 });
  assert.deepEqual([change.type, change.flags], [16, 0]);
  assert.equal(change.describe(), "change ipip 7");
  assert.equal(payloadOf(change).u32(4), 7);
  assert.equal(payloadOf(change).attributes(16).u32(4), 1400);
});
