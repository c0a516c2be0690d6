import assert from "node:assert/strict";
import { CommandError } from "../../../lib/command/mod.ts";
import { parseV1State } from "./state.ts";

const PREFIX = "/coil/";

function parse(entries: Readonly<Record<string, string>>) {
  return parseV1State(
    Object.entries(entries).map(([key, value]) => ({
      key: PREFIX + key,
      value,
    })),
    { prefix: PREFIX },
  );
}

Deno.test("parseV1State() reads pools, blocks and addresses as v1 writes them", () => {
  const state = parse({
    "block/default/10.1.0.0":
      '{"free":["10.1.0.64/27"],"nodes":{"n2":["10.1.0.32/27"],"n1":["10.1.0.0/27"]}}',
    "ip/10.1.0.0/3":
      '{"container_id":"c","namespace":"a","pod":"p","created_at":"2020-01-01T00:00:00Z"}',
    "ip/10.1.0.32/0": "b/q",
    "ip/10.1.0.32/1": "0123456789abcdef",
    "pool/default": '{"subnets":["10.1.0.0/24"],"block_size":5}',
    "pool/a_b": '{"subnets":["10.2.0.0/24","10.3.0.0/24"],"block_size":0}',
    "subnet/10.1.0.0": "",
    "leader/1": "x",
  });
  assert.deepEqual(JSON.parse(JSON.stringify(state)), {
    pools: [
      {
        name: "a_b",
        blockSizeBits: 0,
        subnets: ["10.2.0.0/24", "10.3.0.0/24"],
      },
      { name: "default", blockSizeBits: 5, subnets: ["10.1.0.0/24"] },
    ],
    blocks: [
      { pool: "default", node: "n1", prefix: "10.1.0.0/27" },
      { pool: "default", node: "n2", prefix: "10.1.0.32/27" },
    ],
    addresses: [
      { address: "10.1.0.3", pod: "a/p" },
      { address: "10.1.0.32", pod: "b/q" },
      { address: "10.1.0.33" },
    ],
  });
});

Deno.test("parseV1State() takes null for an empty list, as Go writes it", () => {
  const state = parse({
    "block/p/10.1.0.0": '{"free":null,"nodes":{"n":null}}',
    "block/p/10.2.0.0": '{"free":null,"nodes":null}',
    "pool/p": '{"subnets":null,"block_size":1}',
  });
  assert.deepEqual(state.blocks, []);
  assert.deepEqual(state.pools[0]?.subnets, []);
});

Deno.test("parseV1State() refuses what it does not understand, and names the key", () => {
  const bad: readonly (readonly [string, string])[] = [
    ["pool/p", "{"],
    ["pool/p", "[]"],
    ["pool/", '{"subnets":[],"block_size":1}'],
    ["pool/p", '{"subnets":["10.1.0.0/24"]}'],
    ["pool/p", '{"subnets":["10.1.0.0/24"],"block_size":33}'],
    ["pool/p", '{"subnets":["10.1.0.0/24"],"block_size":"5"}'],
    ["pool/p", '{"subnets":["10.1.0/24"],"block_size":5}'],
    ["pool/p", '{"subnets":["fd01::/64"],"block_size":5}'],
    ["pool/p", '{"subnets":"10.1.0.0/24","block_size":5}'],
    ["block/p/10.1.0.0", '{"nodes":[]}'],
    ["block/p/10.1.0.0", '{"nodes":{"n":["10.1.0.0"]}}'],
    ["block/p/10.1.0.0", '{"nodes":{"n":[5]}}'],
    ["block/p/10.1.0.0", ""],
    ["ip/10.1.0.0/x", "a/b"],
    ["ip/10.1.0.0", "a/b"],
    ["ip/10.1.0/1", "a/b"],
    ["ip/255.255.255.255/1", "a/b"],
  ];
  for (const [key, value] of bad) {
    assert.throws(() => parse({ [key]: value }), (error) => {
      assert.ok(error instanceof CommandError, `${key} ${value}`);
      assert.ok(error.message.includes(`"${PREFIX}${key}"`), error.message);
      return true;
    }, `${key}: ${value}`);
  }
});
