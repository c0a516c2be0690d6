import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "../../inet/mod.ts";
import {
  type BlockOptions,
  blocksOf,
  ipv6Of,
  NO_GRANTS,
  numberGrants,
} from "./blocks.ts";
import { type Ec2Eni, type ImdsEni, mergeEnis } from "./eni.ts";

const SUBNET = Prefix.parse("10.0.96.0/20");
const PREFIX6 = Prefix.parse("2001:db8:0:1:2::/80");

const ENI: Ec2Eni = {
  id: "eni-1",
  subnet: "subnet-1",
  ownership: "owned",
  address: Address.parse("10.0.96.9"),
  attachment: {
    id: "attach-1",
    device: 2,
    state: "attached",
    since: 0,
    endsWithInstance: true,
  },
  blocks: ["10.0.97.16/28", "10.0.96.20/32"].map((text) => Prefix.parse(text)),
  ipv6: PREFIX6,
};
const SHOWN: ImdsEni = {
  id: "eni-1",
  device: 2,
  blocks: [Prefix.parse("10.0.96.9/32"), ...ENI.blocks],
  ipv6: PREFIX6,
};

function blocks(
  ec2: readonly Ec2Eni[],
  imds: readonly ImdsEni[],
  options: Partial<BlockOptions> = {},
): string[] {
  const enis = mergeEnis(ec2, imds, options.families);
  return enis.flatMap((eni) =>
    blocksOf(eni, {
      numbers: numberGrants(NO_GRANTS, enis),
      subnets: new Map([["eni-1", SUBNET]]),
      doubtful: new Set(),
      families: ["ipv4"],
      ...options,
    })
  ).map(({ uid, index, prefixes, usable }) =>
    [
      uid,
      index,
      ...Object.values(prefixes),
      usable ? "usable" : "held",
    ].join(" ")
  );
}

Deno.test("blocksOf() orders blocks by device and place in the subnet", () => {
  assert.deepEqual(blocks([ENI], [SHOWN]), [
    "eni-1/10.0.96.20/32#1 131092 10.0.96.20/32 usable",
    "eni-1/10.0.97.16/28#2 131344 10.0.97.16/28 usable",
  ]);
});

Deno.test("blocksOf() pairs a block with the IPv6 addresses that end with its own", () => {
  assert.deepEqual(blocks([ENI], [SHOWN], { families: ["ipv4", "ipv6"] }), [
    "eni-1/10.0.96.20/32#1 131092 10.0.96.20/32 2001:db8:0:1:2:0:a00:6014/128 usable",
    "eni-1/10.0.97.16/28#2 131344 10.0.97.16/28 2001:db8:0:1:2:0:a00:6110/124 usable",
  ]);
});

Deno.test("blocksOf() has one block of an ENI's /80 where pods have IPv6 alone, which needs no IPv4 addresses", () => {
  const families = ["ipv6"] as const;
  const name = "eni-1/2001:db8:0:1:2::1000/116";
  const block = `${name}#1 131072 2001:db8:0:1:2::1000/116`;
  const none = { ...ENI, blocks: [] };
  for (const eni of [ENI, none]) {
    assert.deepEqual(blocks([eni], [SHOWN], { families }), [`${block} usable`]);
  }
  const unseen = { ...SHOWN, ipv6: undefined };
  assert.deepEqual(blocks([ENI], [unseen], { families }), [`${block} held`]);
  const without = { ...ENI, ipv6: undefined };
  assert.deepEqual(blocks([without], [unseen], { families }), []);
});

Deno.test("blocksOf() gives only what EC2 and the metadata show, and holds what one of them does", () => {
  const [address, prefix] = [ENI.blocks.slice(1), ENI.blocks.slice(0, 1)];
  const held = "eni-1/10.0.97.16/28#2 131344 10.0.97.16/28 held";
  assert.equal(blocks([ENI], [{ ...SHOWN, blocks: address }])[1], held);
  const enis = mergeEnis([{ ...ENI, blocks: address }], [SHOWN]);
  const [eni] = enis;
  assert.ok(eni);
  const numbers = numberGrants(NO_GRANTS, mergeEnis([ENI], [SHOWN]));
  const gone = blocksOf(eni, {
    numbers: numberGrants(numbers, enis),
    subnets: new Map(),
    doubtful: new Set(),
    families: ["ipv4"],
  });
  assert.deepEqual(gone.map(({ usable }) => usable), [true, false]);
  assert.equal(prefix.length, 1);
  const noIpv6 = { ...SHOWN, ipv6: undefined };
  assert.match(
    blocks([ENI], [noIpv6], { families: ["ipv4", "ipv6"] })[0] ?? "",
    /held$/,
  );
});

Deno.test("blocksOf() holds blocks of ENIs that are foreign, on their way or in doubt", () => {
  const foreign = { ...ENI, ownership: "foreign" } as const;
  assert.match(blocks([foreign], [SHOWN])[0] ?? "", /held$/);
  const { attachment } = ENI;
  assert.ok(attachment);
  const leaving = {
    ...ENI,
    attachment: { ...attachment, state: "detaching" },
  } as const;
  assert.match(blocks([leaving], [SHOWN])[0] ?? "", /held$/);
  const doubtful = new Set(["10.0.96.20/32"]);
  assert.match(blocks([ENI], [SHOWN], { doubtful })[0] ?? "", /held$/);
  assert.deepEqual(blocks([{ ...ENI, attachment: undefined }], []), []);
});

Deno.test("mergeEnis() takes no ENI's own address for a block", () => {
  const own = { ...ENI, blocks: [Prefix.parse("10.0.96.9/32")] };
  const [eni] = mergeEnis([own], [{ ...SHOWN, blocks: own.blocks }]);
  assert.deepEqual(eni?.grants, []);
});

Deno.test("mergeEnis() keeps an ENI that only one of both shows, lowest device first", () => {
  const first = { ...SHOWN, id: "eni-0", device: 0 };
  const loose = { ...ENI, id: "eni-2", attachment: undefined };
  assert.deepEqual(
    mergeEnis([loose, ENI], [first]).map((
      { id, ec2, inImds },
    ) => [id, ec2 !== undefined, inImds]),
    [["eni-0", false, true], ["eni-1", true, false], ["eni-2", true, false]],
  );
});

Deno.test("numberGrants() gives another number to what comes back", () => {
  const here = mergeEnis([ENI], [SHOWN]);
  const none = mergeEnis([{ ...ENI, blocks: [] }], []);
  const name = "eni-1/10.0.97.16/28";
  const first = numberGrants(NO_GRANTS, here);
  const again = numberGrants(first, here);
  assert.equal(again.numbers.get(name), first.numbers.get(name));
  const gone = numberGrants(again, none);
  assert.equal(gone.numbers.size, 0);
  const back = numberGrants(gone, here).numbers.get(name);
  assert.notEqual(back, first.numbers.get(name));
});

Deno.test("numberGrants() gives another number to the blocks of an ENI that was detached", () => {
  const here = mergeEnis([ENI], [SHOWN]);
  const loose = mergeEnis([{ ...ENI, attachment: undefined }], []);
  const first = numberGrants(NO_GRANTS, here);
  const detached = numberGrants(first, loose);
  assert.equal(detached.numbers.size, 0);
  const name = "eni-1/10.0.97.16/28";
  assert.notEqual(
    numberGrants(detached, here).numbers.get(name),
    first.numbers.get(name),
  );
});

Deno.test("numberGrants() gives another number when the ENI has another /80", () => {
  const ipv6 = Prefix.parse("2001:db8:0:1:3::/80");
  const name = "eni-1/10.0.97.16/28";
  const first = numberGrants(NO_GRANTS, mergeEnis([ENI], [SHOWN]));
  const other = mergeEnis([{ ...ENI, ipv6 }], [{ ...SHOWN, ipv6 }]);
  const second = numberGrants(first, other);
  assert.notEqual(second.numbers.get(name), first.numbers.get(name));
  const again = numberGrants(second, other);
  assert.equal(again.numbers.get(name), second.numbers.get(name));
  // Where pods have IPv4 alone, it does not matter.
  const alone = (ec2: Ec2Eni) => mergeEnis([ec2], [SHOWN], ["ipv4"]);
  const before = numberGrants(NO_GRANTS, alone(ENI));
  const after = numberGrants(before, alone({ ...ENI, ipv6 }));
  assert.equal(after.numbers.get(name), before.numbers.get(name));
});

Deno.test("numberGrants() forgets what was given back, also while the metadata go on showing it", () => {
  const name = "eni-1/10.0.97.16/28";
  const first = numberGrants(NO_GRANTS, mergeEnis([ENI], [SHOWN]));
  const stale = mergeEnis([{ ...ENI, blocks: [] }], [SHOWN]);
  assert.ok(numberGrants(first, stale).numbers.has(name));
  const returned = numberGrants(first, stale, new Set([name]));
  assert.ok(!returned.numbers.has(name));
  const back = numberGrants(returned, mergeEnis([ENI], [SHOWN]));
  assert.notEqual(back.numbers.get(name), first.numbers.get(name));
});

Deno.test("ipv6Of() gives each address of an ENI its own IPv6 address", () => {
  const address = fc.nat(2 ** 32 - 1)
    .map((n) => Prefix.host(Address.of("ipv4", BigInt(n))));
  fc.assert(fc.property(address, (one) => {
    const ipv6 = ipv6Of(PREFIX6, one);
    assert.equal(ipv6.length, 128);
    assert.ok(PREFIX6.contains(ipv6));
    assert.equal(ipv6.address.value & 0xffff_ffffn, one.address.value);
    const block = Prefix.of(one.address, 28);
    assert.ok(ipv6Of(PREFIX6, block).contains(ipv6));
    assert.equal(ipv6Of(PREFIX6, block).length, 124);
  }));
});

Deno.test("ipv6Of() refuses a prefix that is no ENI's", () => {
  const block = Prefix.parse("10.0.97.16/28");
  assert.throws(() => ipv6Of(Prefix.parse("2001:db8::/64"), block), {
    name: "RangeError",
    message:
      'Cannot take IPv6 addresses of "2001:db8::/64": an ENI\'s prefix is a /80',
  });
});

Deno.test("mergeEnis() takes no block for pods that EC2 cannot have assigned, from any source", () => {
  const own = Prefix.parse("10.0.97.0/24").nth(20n);
  const subnet = Prefix.parse("10.0.97.0/24");
  const right = ["10.0.97.30/32", "10.0.97.32/28"];
  const wrong = [
    ...["0.0.0.0/0", "10.0.97.64/27", "10.0.97.128/29"],
    ...["8.8.8.8/32", "127.0.0.5/32", "169.254.169.254/32", "10.0.98.0/28"],
    // It has the ENI's own address.
    "10.0.97.16/28",
  ];
  const blocks = [...right, ...wrong].map(Prefix.parse);
  const grantsOf = (ec2: Ec2Eni, imds: ImdsEni) =>
    mergeEnis([ec2], [imds]).flatMap(({ grants }) =>
      grants.map(({ block }) => String(block))
    );
  const [ec2, shown] = [{ ...ENI, address: own, blocks }, { ...SHOWN, subnet }];
  assert.deepEqual(grantsOf(ec2, { ...shown, blocks }), right);
  assert.deepEqual(grantsOf(ec2, { ...shown, blocks: [] }), right);
});
