import assert from "node:assert/strict";
import fc from "fast-check";
import { blockOf, blockPrefixes, poolOf } from "../../../lib/api/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { type AddressedPod, convert } from "./conversion.ts";
import type { V1State } from "../v1/state.ts";

/** `pool bits subnet…`, `pool node block`, `address`. */
function state(
  pools: readonly string[],
  blocks: readonly string[],
  addresses: readonly string[] = [],
): V1State {
  return {
    pools: pools.map((line) => {
      const [name = "", bits = "", ...subnets] = line.split(" ");
      return {
        name,
        blockSizeBits: Number(bits),
        subnets: subnets.map(Prefix.parse),
      };
    }),
    blocks: blocks.map((line) => {
      const [pool = "", node = "", prefix = ""] = line.split(" ");
      return { pool, node, prefix: Prefix.parse(prefix) };
    }),
    addresses: addresses.map((text) => ({
      address: Address.parse(text),
      pod: undefined,
    })),
  };
}

function pod(line: string): AddressedPod {
  const [key = "", node = "", ...addresses] = line.split(" ");
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name, node, addresses: addresses.map(Address.parse) };
}

function run(
  v1: V1State,
  facts: {
    nodes?: readonly string[];
    pods?: readonly string[];
    namespaces?: readonly object[];
  } = {},
) {
  const result = convert(v1, {
    nodes: new Set(facts.nodes ?? ["n1", "n2", "n3"]),
    namespaces: (facts.namespaces ?? []).map((metadata) => ({ metadata })),
    pods: (facts.pods ?? []).map(pod),
  });
  return {
    ...result,
    lines: result.blocks.map((b) =>
      `${b.metadata.name} ${b.index} ${b.ipv4} ${
        b.metadata.labels?.["coil.cybozu.com/node"]
      }`
    ),
    told: result.findings.map((f) => `${f.severity} ${f.kind} ${f.subject}`),
  };
}

Deno.test("convert() numbers blocks through the subnets of their pool", () => {
  const { pools, blocks, lines, told } = run(
    state(
      ["default 5 10.1.0.0/26 10.9.0.0/24", "web 0 10.2.0.0/30"],
      [
        "default n1 10.1.0.0/27",
        "default n2 10.1.0.32/27",
        "default n1 10.9.0.32/27",
        "web n3 10.2.0.2/32",
      ],
    ),
    { namespaces: [{ name: "web" }] },
  );
  assert.deepEqual(lines, [
    "default-0-v1 0 10.1.0.0/27 n1",
    "default-1-v1 1 10.1.0.32/27 n2",
    "default-3-v1 3 10.9.0.32/27 n1",
    "web-2-v1 2 10.2.0.2/32 n3",
  ]);
  assert.deepEqual(pools.map((p) => p.spec), [
    {
      blockSizeBits: 5,
      subnets: [{ ipv4: "10.1.0.0/26" }, { ipv4: "10.9.0.0/24" }],
    },
    { blockSizeBits: 0, subnets: [{ ipv4: "10.2.0.0/30" }] },
  ]);
  assert.deepEqual(blocks[0]?.metadata, {
    annotations: { "coil.cybozu.com/dumped": "376062b4e0889a0b" },
    name: "default-0-v1",
    labels: {
      "coil.cybozu.com/node": "n1",
      "coil.cybozu.com/pool": "default",
      "coil.cybozu.com/reserved": "true",
    },
  });
  assert.deepEqual(told, []);
});

Deno.test("convert() annotates the namespace of a pool's name, and keeps what kubectl applied", () => {
  const { namespaces, told } = run(
    state([
      "default 5 10.1.0.0/24",
      "a 5 10.2.0.0/24",
      "b 5 10.3.0.0/24",
      "c 5 10.4.0.0/24",
    ], []),
    {
      namespaces: [
        { name: "default" },
        {
          name: "a",
          labels: { x: "1", "kubernetes.io/metadata.name": "a" },
          annotations: {
            n: "2",
            other: "3",
            "kubectl.kubernetes.io/last-applied-configuration":
              '{"metadata":{"labels":{"x":"0"},"annotations":{"n":"2","gone":"1"}}}',
          },
        },
        { name: "b", annotations: { "coil.cybozu.com/pool": "special" } },
      ],
    },
  );
  assert.deepEqual(namespaces, [{
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name: "a",
      annotations: { "coil.cybozu.com/pool": "a", n: "2" },
      labels: { x: "1" },
    },
  }]);
  assert.deepEqual(told, [
    "warning pool-annotation-differs namespace b",
    "note pool-without-namespace pool c",
  ]);
});

Deno.test("convert() leaves out what v2 cannot have, and says so", () => {
  const many = Array.from({ length: 65 }, (_, i) => `10.9.${i}.0/27`).join(" ");
  const { pools, lines, told } = run(state(
    [
      "a_b 5 10.1.0.0/24",
      "empty 5",
      `many 5 ${many}`,
      "narrow 5 10.2.0.0/28 10.3.0.0/24",
      "inner 5 10.4.0.64/26 10.4.0.0/24 10.4.0.0/24",
    ],
    [
      "a_b n1 10.1.0.0/27",
      "gone n1 10.8.0.0/27",
      "narrow n1 10.2.0.0/28",
      "inner n1 10.4.0.64/27",
      "inner n9 10.4.0.96/27",
    ],
  ));
  assert.deepEqual(pools.map((p) => p.metadata.name), ["narrow", "inner"]);
  assert.deepEqual(pools[1]?.spec.subnets, [{ ipv4: "10.4.0.0/24" }]);
  assert.deepEqual(lines, ["inner-2-v1 2 10.4.0.64/27 n1"]);
  assert.deepEqual(told, [
    "loss block-outside-pool block 10.2.0.0/28 of pool narrow on node n1",
    "loss pool-empty pool empty",
    "loss pool-name pool a_b",
    "loss pool-too-many-subnets pool many",
    "loss subnet-too-narrow pool narrow",
    "loss unknown-pool block 10.1.0.0/27 of pool a_b on node n1",
    "loss unknown-pool block 10.8.0.0/27 of pool gone on node n1",
    "warning node-gone node n9",
    "warning subnet-overlap pool inner",
    "warning subnet-overlap pool inner",
    "note pool-without-namespace pool inner",
    "note pool-without-namespace pool narrow",
  ]);
});

Deno.test("convert() reserves blocks of other sizes as they are, and both of two holders", () => {
  const { lines, told } = run(state(
    ["default 5 10.1.0.0/24", "over 4 10.1.0.128/25"],
    [
      "default n1 10.1.0.0/26",
      "default n2 10.1.0.64/28",
      "default n3 10.1.0.80/28",
      "default n1 10.1.0.96/27",
      "default n2 10.1.0.96/27",
      "over n3 10.1.0.128/28",
      "default n1 10.1.0.128/27",
    ],
  ));
  assert.deepEqual(lines, [
    "default-0-v1-10.1.0.0-26 0 10.1.0.0/26 n1",
    "default-2-v1-10.1.0.64-28 2 10.1.0.64/28 n2",
    "default-2-v1-10.1.0.80-28 2 10.1.0.80/28 n3",
    "default-3-v1 3 10.1.0.96/27 n1",
    "default-3-v1-n2 3 10.1.0.96/27 n2",
    "default-4-v1 4 10.1.0.128/27 n1",
    "over-0-v1 0 10.1.0.128/28 n3",
  ]);
  assert.deepEqual(told, [
    "warning block-held-twice block 10.1.0.128/28 of pool over on node n3",
    "warning block-held-twice block 10.1.0.96/27 of pool default on node n2",
    "warning block-of-other-size block 10.1.0.0/26 of pool default on node n1",
    "warning block-of-other-size block 10.1.0.64/28 of pool default on node n2",
    "warning block-of-other-size block 10.1.0.80/28 of pool default on node n3",
    "warning pool-overlap pool default",
    "note pool-without-namespace pool over",
  ]);
});

Deno.test("convert() reserves the addresses of pods that no block of v1 has", () => {
  const { lines, told } = run(
    state(["default 5 10.1.0.0/24"], ["default n1 10.1.0.0/27"], [
      "10.1.0.5",
      "10.1.0.70",
    ]),
    {
      pods: [
        "a/held n1 10.1.0.5",
        "a/other n2 10.1.0.6",
        "a/lost n2 10.1.0.40 fd01::1",
        "a/strange n2 192.0.2.1",
        "b/lost n3 10.1.0.40",
        "b/nowhere n8 10.1.0.41",
      ],
    },
  );
  assert.deepEqual(lines, [
    "default-0-v1 0 10.1.0.0/27 n1",
    "default-1-v1-10.1.0.40-32 1 10.1.0.40/32 n2",
    "default-1-v1-10.1.0.40-32-n3 1 10.1.0.40/32 n3",
  ]);
  assert.deepEqual(told, [
    "warning address-without-block pod a/lost",
    "warning address-without-block pod b/lost",
    "warning pod-on-other-node pod a/other",
    "note address-without-block addresses on record",
    "note address-without-block pod a/lost",
    "note address-without-block pod a/strange",
    "note address-without-block pod b/nowhere",
  ]);
});

Deno.test("convert() tells of pools that have no room for the pods that come", () => {
  const blocks = ["p n1 10.1.0.0/27", "p n1 10.1.0.32/27", "p n2 10.1.0.64/27"];
  const full = run(state(["p 5 10.1.0.0/25"], blocks));
  assert.deepEqual(full.told, [
    "warning pool-nearly-full pool p",
    "note pool-without-namespace pool p",
  ]);
  assert.match(
    full.findings[0]?.message ?? "",
    /^1 of 4 blocks are free, and 2/,
  );
  const roomy = run(state(["p 5 10.1.0.0/25 10.2.0.0/27"], blocks));
  assert.deepEqual(roomy.told, ["note pool-without-namespace pool p"]);
});

/** A pool with blocks of its size on nodes, as v1 makes them. */
const regularPool = fc.record({
  bits: fc.integer({ min: 0, max: 6 }),
  subnets: fc.uniqueArray(fc.integer({ min: 0, max: 255 }), {
    minLength: 1,
    maxLength: 5,
  }),
  picks: fc.array(
    fc.record({
      subnet: fc.nat(),
      block: fc.nat(),
      node: fc.constantFrom("n1", "n2", "n3"),
    }),
    { maxLength: 30 },
  ),
});

Deno.test("convert() gives each block of v1 the index under which v2 has the same addresses", () => {
  fc.assert(fc.property(
    fc.array(regularPool, { minLength: 1, maxLength: 3 }),
    (specs) => {
      const held = new Map<string, V1State["blocks"][number]>();
      const pools = specs.map(({ bits, subnets, picks }, p) => {
        const prefixes = subnets.map((n) => Prefix.parse(`10.${p}.${n}.0/24`));
        for (const { subnet, block, node } of picks) {
          const chosen = prefixes[subnet % prefixes.length];
          if (chosen === undefined) continue;
          const count = 2 ** (8 - bits);
          const prefix = chosen.subnet(32 - bits, BigInt(block % count));
          const key = prefix.toString();
          if (!held.has(key)) held.set(key, { pool: `p${p}`, node, prefix });
        }
        return { name: `p${p}`, blockSizeBits: bits, subnets: prefixes };
      });
      const v1 = { pools, blocks: [...held.values()], addresses: [] };
      const result = run(v1);
      assert.equal(result.blocks.length, held.size);
      const layouts = new Map(
        result.pools.map((object) => [object.metadata.name, poolOf(object)]),
      );
      const names = new Set<string>();
      for (const object of result.blocks) {
        const block = blockOf(object);
        const pool = layouts.get(block.pool);
        assert.ok(pool);
        assert.ok(block.reserved);
        assert.equal(block.name, `${block.pool}-${block.index}-v1`);
        names.add(block.name);
        const v1Block = held.get(`${block.prefixes.ipv4}`);
        assert.equal(v1Block?.node, block.node);
        assert.equal(
          String(blockPrefixes(pool, block.index)?.ipv4),
          String(block.prefixes.ipv4),
        );
      }
      assert.equal(names.size, held.size);
    },
  ));
});

Deno.test("convert() covers every block and pod of any state, and does not repeat a name", () => {
  const prefix = fc.tuple(
    fc.nat({ max: 1023 }),
    fc.integer({ min: 24, max: 32 }),
  )
    .map(([n, length]) =>
      Prefix.of(Address.parse("10.0.0.0").offset(BigInt(n)), length)
    );
  const node = fc.constantFrom("n1", "n2", "n3", "gone");
  const anyState = fc.record({
    pools: fc.uniqueArray(
      fc.record({
        name: fc.constantFrom("a", "b", "c"),
        blockSizeBits: fc.integer({ min: 0, max: 6 }),
        subnets: fc.array(prefix, { maxLength: 4 }),
      }),
      { selector: ({ name }) => name, maxLength: 3 },
    ),
    blocks: fc.uniqueArray(
      fc.record({ pool: fc.constantFrom("a", "b", "c"), node, prefix }),
      { selector: (b) => `${b.pool} ${b.node} ${b.prefix}`, maxLength: 20 },
    ),
    pods: fc.uniqueArray(
      fc.record({
        name: fc.constantFrom("x", "y", "z"),
        node,
        n: fc.nat(1023),
      }),
      { selector: ({ name }) => name, maxLength: 3 },
    ),
  });
  fc.assert(fc.property(anyState, ({ pools, blocks, pods }) => {
    const nodes = new Set(["n1", "n2", "n3"]);
    const facts = {
      nodes,
      namespaces: [],
      pods: pods.map(({ name, node, n }) => ({
        namespace: "ns",
        name,
        node,
        addresses: [Address.parse("10.0.0.0").offset(BigInt(n))],
      })),
    };
    const result = convert({ pools, blocks, addresses: [] }, facts);
    const parsed = result.blocks.map(blockOf);
    assert.equal(new Set(parsed.map((b) => b.name)).size, parsed.length);
    const lost = result.findings.filter((f) => f.severity === "loss");
    for (
      const { node, prefix, pool } of blocks.filter((b) => nodes.has(b.node))
    ) {
      const subject = `block ${prefix} of pool ${pool} on node ${node}`;
      const isKept = parsed.some((b) =>
        b.node === node && b.pool === pool && b.prefixes.ipv4?.equals(prefix)
      );
      assert.ok(isKept !== lost.some((f) => f.subject === subject), subject);
    }
    // No index that v2's controller could allocate has a pod's address without being reserved.
    for (const { addresses: [address], node } of facts.pods) {
      const isPooled = result.pools.some((p) =>
        poolOf(p).subnets.some((s) => address && s.ipv4?.contains(address))
      );
      if (!isPooled || !nodes.has(node) || address === undefined) continue;
      assert.ok(parsed.some((b) => b.prefixes.ipv4?.contains(address)));
    }
    const state = { pools, blocks, addresses: [] };
    const reversed = { ...facts, pods: facts.pods.toReversed() };
    assert.deepEqual(
      JSON.stringify(convert(state, reversed)),
      JSON.stringify(result),
    );
  }));
});
