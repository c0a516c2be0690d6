import assert from "node:assert/strict";
import { readIdentity } from "./identity.ts";

const ENV: Readonly<Record<string, string>> = {
  COIL_POD_NAMESPACE: "nat",
  COIL_EGRESS_NAME: "internet",
  COIL_POD_ADDRESSES: "10.1.9.8, fd01::9,10.1.9.9",
  HOSTNAME: "internet-0",
};

function read(change: Readonly<Record<string, string>> = {}) {
  const env = new Map(Object.entries({ ...ENV, ...change }));
  return readIdentity(env);
}

Deno.test("readIdentity() takes the last address of each family", () => {
  const { addresses, ...rest } = read({ COIL_NODE_NAME: "node1" });
  assert.equal(`${addresses.ipv4} ${addresses.ipv6}`, "10.1.9.9 fd01::9");
  assert.deepEqual(rest, {
    namespace: "nat",
    egress: "internet",
    pod: "internet-0",
    node: "node1",
  });
});

Deno.test("readIdentity() prefers the pod's whole name to the host's", () => {
  const { pod } = read({ COIL_POD_NAME: "internet-0-with-a-long-name" });
  assert.equal(pod, "internet-0-with-a-long-name");
});

Deno.test("readIdentity() names the variable that is missing or wrong", () => {
  for (const name of Object.keys(ENV)) {
    assert.throws(() => read({ [name]: "" }), {
      name: "Error",
      message: `Cannot start: environment variable ${name} is not set`,
    });
  }
  for (const wrong of ["10.1.9.9,", "10.1.9", "10.1.9.9/32", "gateway"]) {
    assert.throws(() => read({ COIL_POD_ADDRESSES: wrong }), {
      name: "Error",
      message: /COIL_POD_ADDRESSES has ".*", which is not a valid IP address/,
    });
  }
});
