import assert from "node:assert/strict";
import { Prefix } from "../../../lib/inet/mod.ts";
import {
  type Ec2Eni,
  type ImdsEni,
  mergeEnis,
  type Ownership,
  type Situation,
} from "../../../lib/vpc/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import type { Sight } from "../cloud/sight.ts";
import { GrantedBlocks } from "./granted_blocks.ts";

function ec2Eni(
  device: number,
  ownership: Ownership,
  { blocks, subnet = "subnet-1" }: {
    readonly blocks: readonly string[];
    readonly subnet?: string;
  },
): Ec2Eni {
  return {
    id: `eni-${device}`,
    subnet,
    ownership,
    address: Address.parse(`10.0.1.${device + 4}`),
    blocks: blocks.map((text) => Prefix.parse(text)),
    attachment: {
      id: `eni-attach-${device}`,
      device,
      state: "attached",
      since: 0,
      endsWithInstance: true,
    },
  };
}

const SUBNETS: Readonly<Record<string, string>> = {
  "subnet-1": "10.0.1.0/24",
  "subnet-2": "10.0.2.0/24",
};

/** What EC2 shows; the metadata service shows the same, but for the subnets, which it has of `seen` alone. */
function show(
  granted: GrantedBlocks,
  ec2: readonly Ec2Eni[],
  { ready = ec2, seen = ec2, imds = ec2 }: {
    readonly ready?: readonly Ec2Eni[];
    readonly seen?: readonly Ec2Eni[];
    readonly imds?: readonly Ec2Eni[];
  } = {},
): Record<string, string> {
  const enis = imds.map(({ id, attachment, blocks }): ImdsEni => (
    { id, device: attachment?.device ?? 0, blocks }
  ));
  const facts = seen.map(({ id, attachment, address, subnet }) => ({
    id,
    device: attachment?.device ?? 0,
    mac: "02:00:00:00:00:01",
    addresses: { ipv4: address },
    subnets: { ipv4: Prefix.parse(SUBNETS[subnet] ?? "") },
  }));
  const sight: Sight = {
    enis,
    facts: new Map(facts.map((one) => [one.id, one])),
    vpcCidrs: [],
  };
  const situation = {
    enis: mergeEnis(ec2, enis, ["ipv4"]),
    calls: [],
    uses: new Map(),
  } as unknown as Situation; // all that is looked at
  granted.publish(situation, {
    ready: new Set(ready.map(({ id }) => id)),
    sight,
  });
  return Object.fromEntries(
    granted.all.map(({ uid, index, usable }) => [
      uid,
      `${index} ${usable ? "usable" : "not usable"}`,
    ]),
  );
}

const PRIMARY = ec2Eni(0, "primary", { blocks: ["10.0.1.64/32"] });
const SECOND = ec2Eni(1, "owned", { blocks: ["10.0.1.65/32"] });

Deno.test("GrantedBlocks calls back when blocks come, change or go, and not otherwise", () => {
  const granted = new GrantedBlocks({ families: ["ipv4"] });
  let calls = 0;
  const listening = granted.subscribe(() => calls++);
  const steps: [Ec2Eni[], Ec2Eni[], number][] = [
    [[PRIMARY], [PRIMARY], 1],
    [[PRIMARY], [PRIMARY], 1],
    [[PRIMARY, SECOND], [PRIMARY], 2],
    [[PRIMARY, SECOND], [PRIMARY, SECOND], 3],
    [[PRIMARY], [PRIMARY], 4],
  ];
  for (const [ec2, ready, expected] of steps) {
    show(granted, ec2, { ready });
    assert.equal(calls, expected);
  }
  listening[Symbol.dispose]();
  show(granted, []);
  assert.equal(calls, 4);
});

Deno.test("GrantedBlocks are usable where the kernel has their ENI, in the order of their subnet", () => {
  const granted = new GrantedBlocks({ families: ["ipv4"] });
  const elsewhere = ec2Eni(2, "owned", {
    blocks: ["10.0.2.7/32"],
    subnet: "subnet-2",
  });
  const all = [PRIMARY, SECOND, elsewhere];
  assert.deepEqual(show(granted, all, { ready: [SECOND], seen: [PRIMARY] }), {
    "eni-0/10.0.1.64/32#1": "64 not usable",
    // The metadata service does not show its subnet yet: it is the primary's.
    "eni-1/10.0.1.65/32#2": `${65_536 + 65} usable`,
    // Of another subnet nothing is known.
    "eni-2/10.0.2.7/32#3": `${2 * 65_536} not usable`,
  });
  const known = show(granted, all, { seen: [PRIMARY, elsewhere] });
  assert.equal(known["eni-2/10.0.2.7/32#3"], `${2 * 65_536 + 7} usable`);
});

Deno.test("GrantedBlocks calls back when others are to go back", () => {
  const granted = new GrantedBlocks({ families: ["ipv4"] });
  let calls = 0;
  granted.subscribe(() => calls++);
  const [one, other] = [...PRIMARY.blocks, ...SECOND.blocks];
  assert.ok(one && other);
  const isRetiring = () =>
    ["eni-0/10.0.1.64/32", "eni-1/10.0.1.65/32"].map((name) =>
      granted.isRetiring(name)
    );
  granted.retire([one]);
  assert.deepEqual([calls, isRetiring()], [1, [true, false]]);
  granted.retire([one]);
  assert.equal(calls, 1);
  granted.retire([one, other]);
  assert.deepEqual([calls, isRetiring()], [2, [true, true]]);
  granted.retire([other]);
  assert.deepEqual([calls, isRetiring()], [2, [false, true]]);
  granted.retire([one]);
  assert.deepEqual([calls, isRetiring()], [3, [true, false]]);
});

Deno.test("GrantedBlocks know a block that was given back until EC2 has it no longer, and one that comes again as another", () => {
  const granted = new GrantedBlocks({ families: ["ipv4"] });
  const name = "eni-0/10.0.1.64/32";
  show(granted, [PRIMARY]);
  granted.release([name]);
  assert.deepEqual([...granted.released], [name]);
  assert.deepEqual(Object.keys(show(granted, [PRIMARY])), [`${name}#1`]);
  assert.deepEqual([...granted.released], [name], "EC2 still has it");
  const none = ec2Eni(0, "primary", { blocks: [] });
  // The metadata service goes on showing it.
  assert.deepEqual(show(granted, [none], { imds: [PRIMARY] }), {});
  assert.deepEqual([...granted.released], []);
  assert.deepEqual(Object.keys(show(granted, [PRIMARY])), [`${name}#2`]);
});
