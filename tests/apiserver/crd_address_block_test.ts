import assert from "node:assert/strict";
import {
  blockOf,
  blockRequestResult,
  completedStatus,
  failedStatus,
  newAddressBlock,
  newBlockRequest,
  poolOf,
} from "../../lib/api/mod.ts";
import { startCoilPlane } from "../lab/mod.ts";
import { COIL_API, columnsOf, refusals } from "./crds.ts";

const BLOCKS = "/addressblocks";
const REQUESTS = "/blockrequests";

const FIXED = "unchangeable: the index and the addresses of a block are fixed";

Deno.test("AddressBlocks and BlockRequests", async (t) => {
  await using plane = await startCoilPlane({ name: "crdblock" });
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { subnets: [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }] },
  });
  const pool = poolOf(
    JSON.parse(await plane.kubectl("get", "addresspool/default", "-o=json")),
  );
  const block = newAddressBlock(pool, {
    index: 3,
    node: "node1",
    requestUid: "uid",
  });
  assert.ok(block);
  const post = (body: unknown) =>
    refusals(plane, { method: "POST", path: BLOCKS, body });
  const change = (body: unknown) =>
    refusals(plane, { method: "PATCH", path: `${BLOCKS}/default-3`, body });

  await t.step("a block is stored as lib/api makes it", async () => {
    assert.deepEqual(await post(block), []);
    const stored = await plane.request("GET", `${COIL_API}${BLOCKS}/default-3`);
    const { metadata, ...rest } = stored as typeof block;
    const { metadata: made, ...wanted } = block;
    assert.deepEqual(rest, wanted);
    assert.deepEqual(metadata.labels, made.labels);
    assert.deepEqual(metadata.ownerReferences, made.ownerReferences);
    assert.equal(blockOf(stored as typeof block).finalized, true);
    assert.match(
      await plane.kubectl("get", "addressblocks", "--no-headers"),
      /^default-3 +node1 +default +10\.2\.0\.96\/27 +fd02::60\/123 +\d+[sm]/,
    );
    assert.deepEqual(await columnsOf(plane, "ablock"), [
      ...["NAME", "NODE", "POOL", "IPV4", "IPV6", "RESERVED", "DELETED", "AGE"],
    ]);
  });

  const metadata = { name: "other-0" };
  const bad: readonly { name: string; change: object; refused: string }[] = [
    {
      name: "no family",
      change: { ipv4: undefined, ipv6: undefined },
      refused: "invalid block: ipv4, ipv6 or both must be given",
    },
    {
      name: "ipv4 without a length",
      change: { ipv4: "10.2.0.0" },
      refused: 'ipv4: Invalid value: "10.2.0.0": invalid IPv4 block',
    },
    {
      name: "an IPv4 network as ipv6",
      change: { ipv6: "10.2.0.0/27" },
      refused: 'ipv6: Invalid value: "10.2.0.0/27": invalid IPv6 block',
    },
    {
      name: "a negative index",
      change: { index: -1 },
      refused: "index: Invalid value: -1",
    },
    {
      name: "an index beyond 31 bits",
      change: { index: 2 ** 31 },
      refused: "index: Invalid value: 2147483648",
    },
    {
      name: "families of different sizes, which nobody could read",
      change: { ipv6: "fd02::/64" },
      refused: "dual stack block must be the same size",
    },
    {
      name: "an IPv6 network as ipv4",
      change: { ipv4: "fd02::/123" },
      refused: 'ipv4: Invalid value: "fd02::/123": invalid IPv4 block',
    },
    {
      name: "no index",
      change: { index: undefined },
      refused: "index: Required value",
    },
  ];
  for (const { name, change, refused } of bad) {
    await t.step(`a block with ${name}: refused`, async () => {
      const lines = await post({ ...block, metadata, ...change });
      assert.equal(lines.length, 1, lines.join("\n"));
      assert.ok(lines[0]?.includes(refused), lines.join());
    });
  }

  await t.step("a block with the last index: accepted", async () => {
    const last = { name: "default-last" };
    const index = 2 ** 31 - 1;
    assert.deepEqual(await post({ ...block, metadata: last, index }), []);
  });

  await t.step("a block of one family, as of Coil v1: accepted", async () => {
    const { ipv6: _, ...ipv4Only } = block;
    assert.deepEqual(await post({ ...ipv4Only, metadata }), []);
  });

  for (
    const edit of [
      { index: 4 },
      { ipv4: "10.2.0.64/27" },
      { ipv6: null },
      { ipv4: null },
    ]
  ) {
    await t.step(
      `editing a block, ${JSON.stringify(edit)}: refused`,
      async () => {
        const lines = await change(edit);
        assert.equal(lines.length, 1, lines.join("\n"));
        assert.ok(lines[0]?.includes(FIXED), lines.join());
      },
    );
  }

  await t.step("labels and finalizers of a block: accepted", async () => {
    const labels = { "coil.cybozu.com/reserved": "true" };
    assert.deepEqual(await change({ metadata: { labels } }), []);
    assert.deepEqual(await change({ metadata: { finalizers: null } }), []);
  });

  const request = newBlockRequest("default", { name: "node1", uid: "uid" });
  const path = `${REQUESTS}/req-default-node1`;
  const seen = async () => {
    return await plane.request("GET", COIL_API + path) as typeof request;
  };

  await t.step("a request is stored as lib/api makes it", async () => {
    const body = { method: "POST", path: REQUESTS, body: request } as const;
    assert.deepEqual(await refusals(plane, body), []);
    assert.deepEqual(blockRequestResult(await seen()), { state: "pending" });
  });

  await t.step("a request without a pool or a node: refused", async () => {
    for (const spec of [{ nodeName: "node1" }, { poolName: "default" }]) {
      const body = { ...request, metadata: { name: "other" }, spec };
      const lines = await refusals(plane, {
        method: "POST",
        path: REQUESTS,
        body,
      });
      assert.match(lines.join("\n"), /^spec\.(pool|node)Name: Required value$/);
    }
  });

  await t.step("a request of nobody, or for no pool: refused", async () => {
    for (const key of ["nodeName", "poolName"]) {
      const spec = { ...request.spec, [key]: "" };
      const body = { ...request, metadata: { name: "other" }, spec };
      const lines = await refusals(plane, {
        method: "POST",
        path: REQUESTS,
        body,
      });
      assert.match(
        lines.join("\n"),
        new RegExp(`^spec\\.${key}: Invalid value`),
      );
    }
  });

  await t.step("editing a request: refused", async () => {
    const body = { spec: { poolName: "other" } };
    const lines = await refusals(plane, { method: "PATCH", path, body });
    assert.match(lines.join("\n"), /^spec: Forbidden: unchangeable: delete/);
  });

  await t.step("its status is a subresource and shows in kubectl", async () => {
    const write = (status: unknown) =>
      refusals(plane, {
        method: "PATCH",
        path: `${path}/status`,
        body: { status },
      });
    const now = new Date("2026-01-02T03:04:05Z");
    assert.deepEqual(await write(completedStatus("default-3", now)), []);
    assert.deepEqual(blockRequestResult(await seen()), {
      state: "complete",
      block: "default-3",
    });
    const get = ["get", "blockrequests", "--no-headers"];
    assert.match(
      await plane.kubectl(...get),
      /^req-default-node1 +node1 +default +default-3 +True +\d+[sm]/,
    );
    const failure = { reason: "out of blocks", message: "none left" };
    assert.deepEqual(await write(failedStatus(failure, now)), []);
    assert.deepEqual(blockRequestResult(await seen()), {
      state: "failed",
      ...failure,
    });
    assert.match(await plane.kubectl(...get), /True +out of blocks +\d+[sm]/);
    assert.deepEqual(await columnsOf(plane, "breq"), [
      ...["NAME", "NODE", "POOL", "BLOCK", "COMPLETE", "FAILURE", "AGE"],
    ]);
    assert.deepEqual(
      (await plane.kubectl("get", "coil", "-o=name")).trim().split("\n"),
      [
        ...["default-3", "default-last", "other-0"].map((name) =>
          `addressblock.coil.cybozu.com/${name}`
        ),
        "addresspool.coil.cybozu.com/default",
        "blockrequest.coil.cybozu.com/req-default-node1",
      ],
    );
    const conditions = [{ type: "Odd", status: "True" }];
    const lines = await write({ conditions });
    assert.match(lines.join("\n"), /conditions\[0\]\.type: Unsupported value/);
  });
});
