import assert from "node:assert/strict";
import {
  parseReserved,
  parseSubnet,
  type SubnetSpec,
} from "../../lib/api/mod.ts";
import { ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";
import { assertRefused, columnsOf, installCrds, refusals } from "./crds.ts";

const PATH = "/addresspools";

const BAD_V4 = "invalid IPv4 subnet: it must be a CIDR such as 10.2.0.0/16";
const BAD_V6 = "invalid IPv6 subnet: it must be a CIDR such as fd02::/112";
const NARROW = "too narrow subnet: a subnet must have at least as many";
const narrow = (subnet: string, bits: number): string =>
  `too narrow subnet: ${subnet} has fewer addresses than a block of this pool, 2^${bits}`;
const OVERLAP = "overlapping subnets: an address must be in one subnet";
const MIXED = "mixed families: all subnets of a pool must be";
const FIXED = "unchangeable: subnets that a pool has can be neither edited";
const fixed = (subnet: string): string =>
  `spec.subnets: Forbidden: ${FIXED} nor moved; append new ones; edited or moved: ${subnet}`;

interface Case {
  readonly name: string;
  readonly bits?: number;
  readonly subnets?: readonly SubnetSpec[];
  readonly reserved?: readonly string[];
  /** Part of each line expected, `field: message`; none: accepted. */
  readonly refused?: readonly string[];
}

const v4 = (...cidrs: string[]): SubnetSpec[] =>
  cidrs.map((ipv4) => ({ ipv4 }));
const v6 = (...cidrs: string[]): SubnetSpec[] =>
  cidrs.map((ipv6) => ({ ipv6 }));

function many(count: number): SubnetSpec[] {
  return Array.from({ length: count }, (_, i) => ({
    ipv4: `10.2.${i}.0/24`,
    ipv6: `fd02::${i.toString(16)}00/120`,
  }));
}

const CREATED: readonly Case[] = [
  { name: "WH-2: blockSizeBits 0", bits: 0, subnets: v4("10.2.0.0/24") },
  { name: "WH-3: one IPv4 subnet", bits: 2, subnets: v4("10.2.0.0/24") },
  {
    name: "WH-4: text that is no CIDR",
    subnets: v4("10.2.0.0"),
    refused: [`spec.subnets[0].ipv4: Invalid value: "10.2.0.0": ${BAD_V4}`],
  },
  {
    name: "IPv6 text that is no CIDR, in the second entry",
    subnets: v6("fd02::/112", "fd02::zz/112"),
    refused: [`spec.subnets[1].ipv6: Invalid value: "fd02::zz/112": ${BAD_V6}`],
  },
  {
    name: "a leading zero in an octet",
    subnets: v4("10.2.00.0/24"),
    refused: [BAD_V4],
  },
  {
    name: "an IPv6 network as ipv4",
    subnets: v4("fd02::/112"),
    refused: [BAD_V4],
  },
  {
    name: "an IPv4 network as ipv6",
    subnets: v6("10.2.0.0/16"),
    refused: [BAD_V6],
  },
  {
    name: "WH-5: negative blockSizeBits",
    bits: -1,
    subnets: v4("10.2.0.0/24"),
    refused: ["spec.blockSizeBits: Invalid value: -1"],
  },
  {
    name: "WH-6: no subnets",
    subnets: [],
    refused: ["spec.subnets: Invalid value: 0"],
  },
  {
    name: "WH-6: subnets absent",
    refused: ["spec.subnets: Required value"],
  },
  {
    name: "WH-7: an IPv4 subnet smaller than a block",
    bits: 8,
    subnets: v4("10.2.0.0/30"),
    refused: [`spec.subnets: Invalid value: ${narrow("10.2.0.0/30", 8)}`],
  },
  {
    name: "a subnet smaller than a block of the default size",
    subnets: v4("10.2.0.0/28"),
    refused: [narrow("10.2.0.0/28", 5)],
  },
  { name: "a subnet of one block", subnets: v4("10.2.0.0/27") },
  {
    name: "an IPv6 subnet smaller than a block",
    subnets: v6("fd02::/124"),
    refused: [narrow("fd02::/124", 5)],
  },
  {
    name: "the second of two dual-stack subnets smaller than a block",
    bits: 8,
    subnets: [
      { ipv4: "10.2.0.0/24", ipv6: "fd02::/120" },
      { ipv4: "10.3.0.0/28", ipv6: "fd03::/124" },
    ],
    refused: [narrow("10.3.0.0/28 and fd03::/124", 8)],
  },
  {
    name: "a subnet smaller than a block of 2^64",
    bits: 64,
    subnets: v6("fd02::/65"),
    refused: [narrow("fd02::/65", 64)],
  },
  {
    name: "a subnet smaller than a block of 2^65",
    bits: 65,
    subnets: v6("fd02::/64"),
    refused: [NARROW],
  },
  {
    name: "an entry without a family",
    subnets: [{}],
    refused: ["spec.subnets[0]: Invalid value: invalid subnet: ipv4, ipv6 or"],
  },
  {
    name: "dual stack of equal size",
    subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }],
  },
  {
    name: "dual stack of different sizes",
    subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/112" }],
    refused: [
      "spec.subnets[0]: Invalid value: dual stack subnet must be the same size: 10.2.0.0/24 and fd02::/112",
    ],
  },
  {
    name: "reserved addresses, ranges and CIDRs",
    subnets: v4("10.2.0.0/24"),
    reserved: [
      "10.2.0.1",
      "10.2.0.10-10.2.0.20",
      "10.2.0.40-10.2.0.30",
      "10.2.0.129/25",
      "fd02::1",
      "fd02::a-fd02:0:0:0:0:0:0:f",
      "fd02::/64",
    ],
  },
  {
    name: "128 reserved ranges",
    subnets: v6("fd02::/112"),
    reserved: Array.from(
      { length: 128 },
      (_, n) => `fd02::${n + 1}:1-fd02::${n + 1}:f`,
    ),
  },
  ...["", "10.2.0", "10.2.0.1-", "10.2.0.1-10.2.0.2-10.2.0.3"]
    .concat("10.2.0.1-fd02::1", "10.2.0.01", "10.2.0.0/24-10.2.1.0/24")
    .concat("::ffff:10.2.0.1", "10.2.0.1 - 10.2.0.2", "10.2.0.0/33")
    .map((entry): Case => ({
      name: `reserved addresses "${entry}"`,
      subnets: v4("10.2.0.0/24"),
      reserved: ["10.2.0.9", entry],
      refused: [
        `spec.reserved[1]: Invalid value: "${entry}": invalid reserved addr`,
      ],
    })),
  {
    name: "a reserved address twice",
    subnets: v4("10.2.0.0/24"),
    reserved: ["10.2.0.9", "10.2.0.9"],
    refused: ['spec.reserved[1]: Duplicate value: "10.2.0.9"'],
  },
  {
    name: "129 reserved addresses",
    subnets: v4("10.2.0.0/24"),
    reserved: Array.from({ length: 129 }, (_, n) => `10.2.0.${n}`),
    refused: ["spec.reserved: Too many: 129: must have at most 128"],
  },
  { name: "an IPv6 /48", subnets: v6("fd02::/48") },
  {
    name: "all of IPv4 in two blocks",
    bits: 31,
    subnets: v4("0.0.0.0/0"),
  },
  { name: "all of IPv4 in one block", bits: 32, subnets: v4("0.0.0.0/0") },
  { name: "blocks of 2^64", bits: 64, subnets: v6("fd02::/48") },
  {
    name: "blocks that no subnet can hold",
    bits: 2 ** 31 - 1,
    subnets: v6("::/0"),
    refused: [NARROW],
  },
  { name: "upper case", subnets: v6("FD02::AB00/112") },
  { name: "a dotted tail", subnets: v6("64:ff9b::10.2.0.0/112") },
  {
    name: "an IPv6 network as ipv4 beside another",
    subnets: [{ ipv4: "fd02::/112", ipv6: "fd03::/112" }],
    refused: [BAD_V4],
  },
  {
    name: "IPv4-mapped IPv6 as ipv6",
    subnets: v6("::ffff:10.2.0.0/112"),
    refused: [BAD_V6],
  },
  {
    name: "IPv4-mapped IPv6 as ipv4",
    subnets: v4("::ffff:10.2.0.0/112"),
    refused: [BAD_V4],
  },
  {
    name: "a zone",
    subnets: v6("fe80::%eth0/64"),
    refused: [BAD_V6],
  },
  {
    name: "a length with a leading zero",
    subnets: v4("10.0.0.0/08"),
    refused: [BAD_V4],
  },
  {
    name: "an empty text beside the other family",
    subnets: [{ ipv4: "", ipv6: "fd02::/112" }],
    refused: [BAD_V4],
  },
  {
    name: "the same subnet in another spelling",
    subnets: v6("FD02::/112", "fd02:0::1/112"),
    refused: [OVERLAP],
  },
  { name: "host bits, as API-10", bits: 0, subnets: v4("10.2.0.1/32") },
  { name: "host bits in a wide subnet", subnets: v4("10.2.0.1/24") },
  { name: "subnets side by side", subnets: v4("10.2.0.0/25", "10.2.0.128/25") },
  {
    name: "a subnet in another",
    subnets: v4("10.2.0.0/24", "10.2.0.128/25"),
    refused: [
      `spec.subnets: Invalid value: ${OVERLAP} of the pool only; shared are addresses of 10.2.0.0/24`,
    ],
  },
  {
    name: "a subnet around an earlier one, hidden by host bits",
    subnets: v4("10.2.1.0/24", "10.3.0.0/24", "10.2.255.255/16"),
    refused: [OVERLAP],
  },
  {
    name: "the same subnet twice",
    subnets: v6("fd02::/112", "fd02::/112"),
    refused: [OVERLAP],
  },
  {
    name: "dual stack whose IPv6 overlaps alone",
    subnets: [
      { ipv4: "10.2.0.0/24", ipv6: "fd02::/120" },
      { ipv4: "10.3.0.0/24", ipv6: "fd02::0:0/120" },
    ],
    refused: [OVERLAP],
  },
  {
    name: "IPv4 beside IPv6 entries",
    subnets: [{ ipv4: "10.2.0.0/24" }, { ipv6: "fd02::/120" }],
    refused: [
      `spec.subnets: Invalid value: ${MIXED} IPv4, or all IPv6, or all dual stack, as the first one is; not so fd02::/120`,
    ],
  },
  {
    name: "dual stack beside an IPv4 entry",
    subnets: [
      { ipv4: "10.2.0.0/24", ipv6: "fd02::/120" },
      { ipv4: "10.3.0.0/24" },
    ],
    refused: [MIXED],
  },
  { name: "64 dual-stack subnets", subnets: many(64) },
  {
    name: "65 subnets",
    subnets: many(65),
    refused: ["spec.subnets: Too many: 65: must have at most 64 items"],
  },
];

function pool(name: string, spec: object): object {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name },
    spec,
  };
}

function specOf({ bits, subnets, reserved }: Case): object {
  return {
    ...(reserved === undefined ? {} : { reserved }),
    ...(bits === undefined ? {} : { blockSizeBits: bits }),
    ...(subnets === undefined ? {} : { subnets }),
  };
}

/** What `lib/api` thinks of a case; overlap and families are rules of the pool, not of an entry. */
function parses({ bits = 5, subnets = [], reserved }: Case): boolean {
  try {
    parseReserved(reserved);
    for (const subnet of subnets) parseSubnet(subnet, { blockSizeBits: bits });
    return true;
  } catch {
    return false;
  }
}

Deno.test("the API server refuses what an AddressPool must not be", async (t) => {
  await using plane = await startCoilPlane({ name: "crdpool" });
  const post = (name: string, spec: object) =>
    refusals(plane, { method: "POST", path: PATH, body: pool(name, spec) });
  const patch = (name: string, body: unknown) =>
    refusals(plane, { method: "PATCH", path: `${PATH}/${name}`, body });

  await t.step("WH-1: blockSizeBits defaults to 5", async () => {
    assert.deepEqual(
      await post("defaults", { subnets: v4("10.9.0.0/24") }),
      [],
    );
    const columns = await plane.kubectl(
      "get",
      "addresspool/defaults",
      "-o=jsonpath={.spec.blockSizeBits}",
    );
    assert.equal(columns, "5");
  });

  for (const [i, testCase] of CREATED.entries()) {
    const verb = testCase.refused === undefined ? "accepted" : "refused";
    await t.step(`create, ${testCase.name}: ${verb}`, async () => {
      const lines = await post(`created-${i}`, specOf(testCase));
      assertRefused(lines, testCase.refused);
      // All that the API server stores, the controller can read.
      if (lines.length === 0) assert.ok(parses(testCase));
    });
  }

  await t.step(
    "a name of 63 characters: accepted; of 64: refused",
    async () => {
      const spec = { subnets: v4("10.2.0.0/24") };
      assertRefused(await post("a".repeat(63), spec));
      assertRefused(await post("a".repeat(64), spec), [
        "the name of a pool must have at most 63 characters",
      ]);
    },
  );

  await t.step("WH-8: appending to an IPv6 pool: accepted", async () => {
    await post("grow6", { blockSizeBits: 0, subnets: v6("fd02::/112") });
    const subnets = v6("fd02::/112", "fd03::/112");
    assertRefused(await patch("grow6", { spec: { subnets } }));
  });

  await t.step(
    "appending up to 64 subnets: accepted; 65: refused",
    async () => {
      await post("grow64", { subnets: many(63) });
      const grow = (count: number) =>
        patch("grow64", { spec: { subnets: many(count) } });
      assertRefused(await grow(64));
      assertRefused(await grow(65), ["spec.subnets: Too many: 65"]);
    },
  );

  const first = ["10.2.0.0/24", "10.3.0.0/24", "10.4.0.0/24"];
  const updates: readonly Case[] = [
    {
      name: "WH-9: appending a subnet smaller than a block",
      subnets: v4(...first, "10.5.0.0/30"),
      refused: [narrow("10.5.0.0/30", 5)],
    },
    {
      name: "WH-10: changing blockSizeBits",
      bits: 4,
      subnets: v4(...first),
      refused: [
        "spec.blockSizeBits: Forbidden: unchangeable: the block size of a pool is fixed when it is created; blocks of this one have 2^5 addresses",
      ],
    },
    {
      name: "WH-11: dropping the last subnet",
      subnets: v4("10.2.0.0/24", "10.3.0.0/24"),
      refused: [
        "spec.subnets: Forbidden: unshrinkable: a subnet cannot be taken out of a pool; missing: 10.4.0.0/24",
      ],
    },
    {
      name: "WH-12: editing the second subnet",
      subnets: v4("10.2.0.0/24", "10.33.0.0/24", "10.4.0.0/24"),
      refused: [fixed("10.3.0.0/24")],
    },
    {
      name: "another spelling of a subnet",
      subnets: v4("10.2.0.1/24", "10.3.0.0/24", "10.4.0.0/24"),
      refused: [fixed("10.2.0.0/24")],
    },
    {
      name: "giving a subnet a second family",
      subnets: [
        { ipv4: "10.2.0.0/24", ipv6: "fd02::/120" },
        ...v4("10.3.0.0/24", "10.4.0.0/24"),
      ],
      refused: [fixed("10.2.0.0/24")],
    },
    {
      name: "swapping two subnets",
      subnets: v4("10.3.0.0/24", "10.2.0.0/24", "10.4.0.0/24"),
      refused: [fixed("10.2.0.0/24")],
    },
    {
      name: "putting a subnet in front",
      subnets: v4("10.1.0.0/24", ...first),
      refused: [fixed("10.2.0.0/24")],
    },
    {
      name: "appending a subnet that overlaps",
      subnets: v4(...first, "10.2.0.128/25"),
      refused: [
        `${OVERLAP} of the pool only; shared are addresses of 10.2.0.0/24`,
      ],
    },
    {
      name: "appending a subnet again",
      subnets: v4(...first, "10.2.0.0/24"),
      refused: [OVERLAP],
    },
    {
      name: "appending another family",
      subnets: [...v4(...first), { ipv6: "fd02::/120" }],
      refused: [MIXED],
    },
    {
      name: "appending text that is no CIDR",
      subnets: v4(...first, "a.b.c.d/16"),
      refused: [BAD_V4],
    },
    {
      name: "appending two subnets",
      subnets: v4(...first, "10.5.0.0/24", "10.6.0.0/24"),
    },
  ];
  await post("grow4", { subnets: v4(...first) });
  for (const testCase of updates) {
    const verb = testCase.refused === undefined ? "accepted" : "refused";
    await t.step(`update, ${testCase.name}: ${verb}`, async () => {
      const lines = await patch("grow4", { spec: specOf(testCase) });
      assertRefused(lines, testCase.refused);
    });
  }

  await t.step("the status is a subresource and shows in kubectl", async () => {
    const condition = {
      status: "True",
      reason: "Test",
      message: "",
      lastTransitionTime: "2026-01-02T03:04:05Z",
    };
    const counts = { total: "256", allocated: "32", free: "192", used: "6" };
    const status = {
      observedGeneration: 1,
      blockSize: "32",
      blocks: { total: 8, allocated: 1, free: 6, unavailable: 1 },
      ipv4: counts,
      ipv6: { ...counts, total: (1n << 91n).toString() },
      usage: "6/256 (2%)",
      conditions: ["Ready", "CapacityLow"].map((type) => ({
        type,
        ...condition,
      })),
    };
    const body = { status };
    assertRefused(await patch("defaults", body));
    const wide = ["get", "addresspool/defaults", "-o=wide", "--no-headers"];
    assert.doesNotMatch(await plane.kubectl(...wide), /True/);
    const path = `${PATH}/defaults/status`;
    assertRefused(await refusals(plane, { method: "PATCH", path, body }));
    assert.match(
      await plane.kubectl(...wide),
      /^defaults +32 +8 +6 +6\/256 \(2%\) +True +Test +True +192 +192 +\[\{"ipv4":"10\.9\.0\.0\/24"\}\] +\d/,
    );
    assert.deepEqual(await columnsOf(plane, "apool"), [
      ...["NAME", "BLOCK SIZE", "BLOCKS", "FREE", "USED", "READY", "REASON"],
      ...["LOW", "IPV4 FREE", "IPV6 FREE", "SUBNETS", "AGE"],
    ]);
    for (const field of ["total", "used"]) {
      assertRefused(
        await refusals(plane, {
          method: "PATCH",
          path,
          body: { status: { ipv4: { [field]: "many" } } },
        }),
        [`status.ipv4.${field}: Invalid value: "many"`],
      );
    }
  });
});

Deno.test("an AddressPool older than the rules stays usable", async (t) => {
  await using plane = await ControlPlane.start({ name: "crdold" });
  await installCrds(plane, { withoutRules: true });
  const name = `old-${"x".repeat(64)}`;
  const subnets: SubnetSpec[] = [
    ...v4("10.2.0.0/24", "10.2.0.0/25", "10.3.0.0/30", "10.2.0.0/25"),
    { ipv6: "fd02::/120" },
  ];
  const body = {
    ...pool(name, { subnets }),
    metadata: { name, finalizers: ["coil.cybozu.com"] },
  };
  assertRefused(await refusals(plane, { method: "POST", path: PATH, body }));
  const large = pool("large", { subnets: many(200) });
  assertRefused(
    await refusals(plane, { method: "POST", path: PATH, body: large }),
  );
  await installCrds(plane);
  const patch = (body: unknown) =>
    refusals(plane, { method: "PATCH", path: `${PATH}/${name}`, body });
  // The API server goes by a changed definition a moment after it has it.
  await eventually("the rules", async () => {
    const path = `${PATH}?dryRun=All`;
    const body = pool(`${name}x`, { subnets });
    return (await refusals(plane, { method: "POST", path, body })).length > 0;
  });
  const append = (...entries: SubnetSpec[]) =>
    patch({ spec: { subnets: [...subnets, ...entries] } });

  await t.step("one with more than 64 subnets can be written", async () => {
    const path = `${PATH}/large`;
    const label = { metadata: { labels: { a: "b" } } };
    const body = label;
    assertRefused(await refusals(plane, { method: "PATCH", path, body }));
    const status = { status: { observedGeneration: 1 } };
    assertRefused(
      await refusals(plane, {
        method: "PATCH",
        path: `${path}/status`,
        body: status,
      }),
    );
    const spec = { subnets: many(201) };
    assertRefused(
      await refusals(plane, { method: "PATCH", path, body: { spec } }),
      ["spec.subnets: Too many: 201"],
    );
  });
  await t.step("the rules are there: such a pool is refused now", async () => {
    const body = pool(`${name}x`, { subnets });
    const lines = await refusals(plane, { method: "POST", path: PATH, body });
    assert.equal(lines.length, 4, lines.join("\n"));
  });
  await t.step("a label can be set", async () => {
    assertRefused(await patch({ metadata: { labels: { a: "b" } } }));
  });
  await t.step("the status can be written", async () => {
    const body = { status: { observedGeneration: 1 } };
    const path = `${PATH}/${name}/status`;
    assertRefused(await refusals(plane, { method: "PATCH", path, body }));
  });
  await t.step("one of two equal subnets cannot be edited", async () => {
    const edited = subnets.with(3, { ipv4: "10.4.0.0/24" });
    assertRefused(await patch({ spec: { subnets: edited } }), [FIXED]);
  });
  await t.step("a bad subnet cannot be appended", async () => {
    assertRefused(await append({ ipv4: "10.4.0.0/30" }), [
      narrow("10.4.0.0/30", 5),
    ]);
    assertRefused(await append({ ipv4: "10.2.0.64/26" }), [OVERLAP]);
    assertRefused(await append({ ipv6: "fd03::/120" }), [MIXED]);
  });
  await t.step("a good subnet can be appended", async () => {
    assertRefused(await append({ ipv4: "10.4.0.0/24" }));
  });
  await t.step(
    "it can be deleted: its finalizer can be taken off",
    async () => {
      const path = `${PATH}/${name}`;
      await refusals(plane, { method: "DELETE", path });
      assertRefused(await patch({ metadata: { finalizers: [] } }));
      await assert.rejects(
        plane.kubectl("get", "addresspool", name),
        /NotFound/,
      );
    },
  );
});
