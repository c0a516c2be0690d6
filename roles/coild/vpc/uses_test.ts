import assert from "node:assert/strict";
import { Address, type Family, Prefix } from "../../../lib/inet/mod.ts";
import type { BlockRecord } from "../../../lib/ipam/mod.ts";
import { type Eni, mergeEnis } from "../../../lib/vpc/mod.ts";
import { type Addresses, BlockUses } from "./uses.ts";

const NAME = "eni-0/10.0.1.64/28";
const BLOCK = "10.0.1.64/28";

function record(changes: Partial<BlockRecord> = {}): BlockRecord {
  return {
    name: NAME,
    pool: "vpc",
    uid: `${NAME}#1`,
    index: 0,
    prefixes: { ipv4: Prefix.parse(BLOCK) },
    holds: [],
    size: 16,
    held: 0,
    cooling: 0,
    free: 16,
    ...changes,
  };
}

/** What is known of addresses; each part is replaced as a test goes. */
class Known implements Addresses {
  records: readonly BlockRecord[] | undefined = [];
  routed: readonly string[] = [];
  rested: readonly string[] = [];

  blocks(): readonly BlockRecord[] | undefined {
    return this.records;
  }

  waiting(): number {
    return 0;
  }

  routedWithin(prefixes: readonly Prefix[]): Promise<readonly Address[]> {
    const all = this.routed.map((text) => Address.parse(text));
    return Promise.resolve(
      all.filter((one) => prefixes.some((prefix) => prefix.contains(one))),
    );
  }

  resting(): Promise<readonly Address[]> {
    return Promise.resolve(this.rested.map((text) => Address.parse(text)));
  }
}

const IPV4: readonly Family[] = ["ipv4"];

async function read(
  uses: BlockUses,
  { now = 0, released = [], enis = [] }: {
    readonly now?: number;
    readonly released?: readonly string[];
    readonly enis?: readonly Eni[];
  } = {},
): Promise<Record<string, object>> {
  const found = await uses.read(enis, { now, released: new Set(released) });
  return Object.fromEntries(
    [...found].map(([text, { block, ...use }]) => {
      assert.equal(String(block), text);
      return [text, use];
    }),
  );
}

Deno.test("BlockUses says how pods use a block, and since when none does", async () => {
  const known = new Known();
  const uses = new BlockUses(known, { families: IPV4 });
  const seen = async (changes: Partial<BlockRecord>, now: number) => {
    known.records = [record(changes)];
    return (await read(uses, { now }))[BLOCK];
  };
  const base = { used: 0, cooling: 0, emptySince: undefined, retired: false };
  assert.deepEqual(await seen({}, 1), { ...base, emptySince: 1 });
  assert.deepEqual(await seen({}, 2), { ...base, emptySince: 1 });
  const used = { ...base, used: 2 };
  assert.deepEqual(await seen({ held: 2 }, 3), used);
  assert.deepEqual(await seen({}, 4), { ...base, emptySince: 4 });
  assert.deepEqual(await seen({ cooling: 1 }, 5), { ...base, cooling: 1 });
  const both = { ...base, used: 1, cooling: 1 };
  assert.deepEqual(await seen({ held: 1, cooling: 1 }, 6), both);
  assert.deepEqual(await seen({}, 7), { ...base, emptySince: 7 });
  // It went and came again.
  known.records = [];
  assert.deepEqual(await read(uses), {});
  assert.deepEqual(await seen({}, 8), { ...base, emptySince: 8 });
});

Deno.test("BlockUses keeps a block that goes back until the kernel was asked whether it is in use", async () => {
  const known = new Known();
  const uses = new BlockUses(known, { families: IPV4 });
  const returning = { holds: ["returning"] } as const;
  known.records = [record(returning)];
  const kept = { used: 0, cooling: 1, emptySince: 0, retired: true };
  assert.deepEqual(await read(uses), { [BLOCK]: kept });
  assert.deepEqual(await read(uses, { released: ["eni-1/10.0.1.64/28"] }), {
    [BLOCK]: kept,
  });
  assert.deepEqual(await read(uses, { released: [NAME] }), {
    [BLOCK]: { ...kept, cooling: 0 },
  });
  known.records = [record({ ...returning, cooling: 3 })];
  assert.deepEqual(await read(uses), {
    [BLOCK]: { ...kept, cooling: 3, emptySince: undefined },
  });
});

Deno.test("BlockUses asks the kernel before address management has started", async () => {
  const known = new Known();
  known.records = undefined;
  known.routed = ["10.0.1.65", "fd10:0:0:1::a00:141", "10.0.9.9"];
  known.rested = ["10.0.1.66", "10.0.1.81"];
  const blocks = [BLOCK, "10.0.1.81/32", "10.0.1.82/32"]
    .map((text) => Prefix.parse(text));
  const ipv6 = Prefix.parse("fd10:0:0:1::/80");
  const eni = { id: "eni-0", device: 0, blocks, ipv6 };
  for (const families of [IPV4, ["ipv4", "ipv6"]] as const) {
    const enis = mergeEnis([], [eni], families);
    const uses = new BlockUses(known, { families });
    assert.deepEqual(await read(uses, { enis }), {
      // A pod has an address of each family.
      [BLOCK]: { used: 1, cooling: 1, retired: false },
      "10.0.1.81/32": { used: 0, cooling: 1, retired: false },
    }, String(families));
  }
});
