import assert from "node:assert/strict";
import type { AddressBlock } from "../../../lib/api/mod.ts";
import { editOf, sealed } from "./edited_blocks.ts";

const BLOCK: AddressBlock = {
  apiVersion: "coil.cybozu.com/v2",
  kind: "AddressBlock",
  metadata: {
    name: "default-1-v1",
    labels: {
      "coil.cybozu.com/node": "node1",
      "coil.cybozu.com/pool": "default",
      "coil.cybozu.com/reserved": "true",
    },
  },
  index: 1,
  ipv4: "10.64.0.8/29",
};

function labelled(block: AddressBlock, label: string, value: string) {
  const { metadata } = block;
  const labels = { ...metadata.labels, [`coil.cybozu.com/${label}`]: value };
  return { ...block, metadata: { ...metadata, labels } };
}

Deno.test("editOf() says nothing of a block as it was dumped, with what the cluster adds", () => {
  const block = sealed(BLOCK);
  assert.equal(editOf(block), undefined);
  const { metadata } = labelled(block, "other", "label");
  const added = { uid: "1", resourceVersion: "2", finalizers: ["x"] };
  assert.equal(
    editOf({ ...block, metadata: { ...metadata, ...added } }),
    undefined,
  );
});

Deno.test("editOf() says nothing of a block that is from no dump", () => {
  assert.equal(editOf(BLOCK), undefined);
});

Deno.test("editOf() says what an edited block is", () => {
  const block = sealed(BLOCK);
  const prefix =
    "AddressBlock default-1-v1 is not as coil migrate dump wrote it: ";
  const cases: readonly (readonly [AddressBlock, string])[] = [
    [
      labelled(block, "node", "node2"),
      "index 1, 10.64.0.8/29, pool default, node node2",
    ],
    [
      labelled(block, "pool", "web"),
      "index 1, 10.64.0.8/29, pool web, node node1",
    ],
    [
      labelled(block, "reserved", "false"),
      "index 1, 10.64.0.8/29, pool default, node node1, not reserved",
    ],
    [
      { ...block, ipv4: "10.64.0.8/30" },
      "index 1, 10.64.0.8/30, pool default, node node1",
    ],
    [
      { ...block, index: 2 },
      "index 2, 10.64.0.8/29, pool default, node node1",
    ],
  ];
  for (const [edited, expected] of cases) {
    assert.equal(editOf(edited), prefix + expected);
  }
  const renamed = { ...block.metadata, name: "default-1-v2" };
  assert.match(editOf({ ...block, metadata: renamed }) ?? "", /default-1-v2/);
});
