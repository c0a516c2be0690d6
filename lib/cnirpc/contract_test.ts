import assert from "node:assert/strict";
import { CNI, CNIArgsSchema, ErrorCode } from "./mod.ts";
import { ErrorCode as CniErrorCode } from "../cni/mod.ts";

Deno.test("the contract keeps upstream's names and field numbers", () => {
  assert.equal(CNI.typeName, "pkg.cnirpc.CNI");
  assert.deepEqual(
    CNIArgsSchema.fields.map(({ name, number }) => [number, name]),
    [
      [1, "container_id"],
      [2, "netns"],
      [3, "ifname"],
      [4, "args"],
      [5, "path"],
      [6, "stdin_data"],
      [7, "ips"],
      [8, "interfaces"],
      [9, "valid_attachments"],
    ],
  );
});

Deno.test("the contract's error codes are those of CNI", () => {
  assert.deepEqual({ ...ErrorCode }, { ...CniErrorCode });
});
