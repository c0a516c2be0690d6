import assert from "node:assert/strict";
import { saysMissing } from "./network.ts";

Deno.test("a link that goes by itself while it is deleted is not there", () => {
  const missing = [
    'Cannot find device "eth0"',
    "RTNETLINK answers: No such device",
    'Cannot open network namespace "coil-lab-node1": No such file or directory',
  ];
  const others = [
    "RTNETLINK answers: Device or resource busy",
    "RTNETLINK answers: Operation not permitted",
  ];
  assert.deepEqual(missing.filter((text) => !saysMissing(text)), []);
  assert.deepEqual(others.filter(saysMissing), []);
});
