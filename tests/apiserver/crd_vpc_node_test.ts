import assert from "node:assert/strict";
import {
  newVpcNode,
  type VpcNode,
  type VpcNodeStatus,
} from "../../lib/api/mod.ts";
import { startCoilPlane } from "../lab/mod.ts";
import { assertRefused, COIL_API, refusals } from "./crds.ts";

const NODES = "/vpcnodes";
const COUNTS = { used: 2, cooling: 1, free: 13 };
const ENI = {
  id: "eni-0123456789abcdef0",
  device: 1,
  subnet: "subnet-a",
  blocks: ["10.0.1.16/28"],
  ipv6: "fd10:0:0:1:1::/80",
  ...COUNTS,
};

const STATUS: VpcNodeStatus = {
  instance: "i-0123456789abcdef0",
  instanceType: "m6i.large",
  mode: "prefix",
  eniCount: 1,
  maxEnis: 3,
  addresses: { ...COUNTS, capacity: 432 },
  enis: [ENI],
  conditions: [{
    type: "Ready",
    status: "True",
    observedGeneration: 1,
    lastTransitionTime: "2026-01-02T03:04:05Z",
    reason: "AddressesAvailable",
    message: "pods get addresses",
  }],
};

Deno.test("VPCNodes", async (t) => {
  await using plane = await startCoilPlane({ name: "crdvpc" });
  const body = newVpcNode({ name: "node1", uid: "uid-of-node1" });
  const path = `${NODES}/node1`;
  const write = (status: object) =>
    refusals(plane, {
      method: "PATCH",
      path: `${path}/status`,
      body: { status },
    });

  await t.step("one is stored as lib/api makes it", async () => {
    const post = { method: "POST", path: NODES, body } as const;
    assert.deepEqual(await refusals(plane, post), []);
    assert.deepEqual(await write(STATUS), []);
    const stored = await plane.request("GET", COIL_API + path) as VpcNode;
    assert.deepEqual(stored.status, STATUS);
    assert.equal(stored.metadata.ownerReferences?.[0]?.uid, "uid-of-node1");
    assert.equal(stored.metadata.generation, 1);
  });

  await t.step("its status is a subresource", async () => {
    const change = { method: "PATCH", path, body: { status: { eniCount: 9 } } };
    assert.deepEqual(await refusals(plane, { ...change, method: "PATCH" }), []);
    const { status } = await plane.request("GET", COIL_API + path) as VpcNode;
    assert.equal(status?.eniCount, 1);
  });

  await t.step("it is among all of Coil's", async () => {
    // So that kubectl knows of it.
    await plane.kubectl("get", "vpcnodes");
    const names = await plane.kubectl("get", "coil", "-o=name");
    assert.match(names, /^vpcnode\.coil\.cybozu\.com\/node1$/m);
  });

  for (
    const [what, status, refused] of [
      ["another mode", { mode: "trunk" }, 'mode: Unsupported value: "trunk"'],
      ["less than no ENI", { eniCount: -1 }, "eniCount: Invalid value: -1"],
      [
        "an ENI without an ID",
        { enis: [{ ...ENI, id: null }] },
        "enis[0].id: Required value",
      ],
      [
        "an ENI with more than any has",
        { enis: [{ ...ENI, blocks: Array(257).fill("10.0.1.1/32") }] },
        "enis[0].blocks: Too many: 257",
      ],
      [
        "half of the counts",
        { addresses: { used: 1, cooling: null } },
        "addresses.cooling: Required value",
      ],
    ] as const
  ) {
    await t.step(`${what}: refused`, async () => {
      assertRefused(await write(status), [refused]);
    });
  }
});
