import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { NodeBlocks, TooManyBlocksError } from "./node_blocks.ts";

const signal = new AbortController().signal;

/** Blocks by name; all that is asked for is counted. */
function fixture(
  blocks: Record<string, { node?: string; reserved?: boolean }>,
) {
  let nowMs = 0;
  const transport = new FakeTransport(({ path }) => {
    const name = path.split("/").at(-1) ?? "";
    const block = blocks[name];
    if (block === undefined) {
      return { status: 404, body: { kind: "Status", reason: "NotFound" } };
    }
    return {
      body: {
        metadata: {
          name,
          labels: {
            "coil.cybozu.com/pool": "default",
            "coil.cybozu.com/node": block.node,
            ...(block.reserved && { "coil.cybozu.com/reserved": "true" }),
          },
        },
        index: 3,
        ipv4: "10.1.1.0/27",
        ipv6: "fd01::100/123",
      },
    };
  });
  const known = new NodeBlocks(new KubeClient(transport), {
    nowMs: () => nowMs,
  });
  return {
    blocks,
    gets: transport.requests,
    pass: (ms: number) => nowMs += ms,
    problemOf: (
      block: string | undefined,
      addresses: readonly string[],
      node = "node1",
    ) =>
      known.problemOf({
        node,
        block,
        addresses: addresses.map((text) => Address.parse(text)),
      }, { signal }),
  };
}

Deno.test("NodeBlocks believes addresses of the node's own block, and asks once a minute", async () => {
  const { problemOf, gets, pass } = fixture({ "default-3": { node: "node1" } });
  for (let i = 0; i < 3; i++) {
    assert.equal(
      await problemOf("default-3", ["10.1.1.31", "fd01::11f"]),
      undefined,
    );
    pass(25_000);
  }
  assert.equal(gets.length, 1);
  assert.equal(await problemOf("default-3", ["10.1.1.2"]), undefined);
  assert.equal(gets.length, 2);
});

for (
  const [what, block, addresses, problem] of [
    ["another node's block", "default-4", ["10.1.1.2"], /not of node "node1"/],
    [
      "a block that is not there",
      "no-1",
      ["10.1.1.2"],
      /AddressBlock ".*" does not exist/,
    ],
    ["no block", undefined, ["10.1.1.2"], /does not name the AddressBlock/],
    ["a reserved block", "default-5", ["10.1.1.2"], /reserved/],
    ["an address beside the block", "default-3", ["10.1.1.32"], /10\.1\.1\.32/],
    ["an address of the Internet", "default-3", ["8.8.8.8"], /8\.8\.8\.8/],
    ["one good and one bad address", "default-3", [
      "10.1.1.2",
      "fd01::120",
    ], /fd01::120/],
  ] as const
) {
  Deno.test(`NodeBlocks does not believe ${what}`, async () => {
    const { problemOf } = fixture({
      "default-3": { node: "node1" },
      "default-4": { node: "node2" },
      "default-5": { node: "node1", reserved: true },
    });
    assert.match(await problemOf(block, addresses) ?? "", problem);
  });
}

Deno.test("NodeBlocks looks again before it refuses: a block may have changed hands", async () => {
  const { blocks, problemOf, gets, pass } = fixture({
    "default-3": { node: "node1" },
  });
  assert.equal(await problemOf("default-3", ["10.1.1.2"]), undefined);
  blocks["default-3"] = { node: "node2" };
  pass(1_000);
  assert.equal(await problemOf("default-3", ["10.1.1.2"], "node2"), undefined);
  assert.match(await problemOf("default-3", ["10.1.1.2"]) ?? "", /not of node/);
  assert.equal(gets.length, 2, "but not more often than once a second");
});

Deno.test("NodeBlocks bounds what one node costs the API server, and leaves the others alone", async () => {
  const { problemOf, gets, pass } = fixture({ "default-3": { node: "node2" } });
  for (let i = 0; i < 128; i++) await problemOf(`no-${i}`, ["10.1.1.2"]);
  await assert.rejects(problemOf("no-128", ["10.1.1.2"]), TooManyBlocksError);
  assert.equal(gets.length, 128);
  assert.equal(await problemOf("default-3", ["10.1.1.2"], "node2"), undefined);
  pass(1_000);
  for (let i = 0; i < 10; i++) await problemOf(`no-${200 + i}`, ["10.1.1.2"]);
  await assert.rejects(problemOf("no-300", ["10.1.1.2"]), TooManyBlocksError);
});
