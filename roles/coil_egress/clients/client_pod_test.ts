import assert from "node:assert/strict";
import { clientPodOf, isSameClient } from "./client_pod.ts";

const CLIENT = {
  namespace: "team",
  name: "client",
  uid: "u1",
  nodeName: "node1",
};

Deno.test("clientPodOf() takes a client without addresses, and leaves out what is not an address", () => {
  assert.deepEqual(clientPodOf(CLIENT), { ...CLIENT, addresses: [] });
  const odd = clientPodOf({
    ...CLIENT,
    addresses: ["", "10.1.1.2", "10.1.1", "fd01:0::2"],
  });
  assert.deepEqual(odd.addresses.map(String), ["10.1.1.2", "fd01::2"]);
});

Deno.test("isSameClient() sees each change of a client", () => {
  const client = { ...CLIENT, addresses: ["10.1.1.2"] };
  const pod = clientPodOf(client);
  assert.ok(isSameClient(pod, clientPodOf(client)));
  assert.ok(!isSameClient(pod, undefined));
  for (
    const change of [
      { namespace: "other" },
      { name: "other" },
      { uid: "u2" },
      { nodeName: "node2" },
      { addresses: [] },
      { addresses: ["10.1.1.3"] },
      { addresses: ["10.1.1.2", "fd01::2"] },
    ]
  ) assert.ok(!isSameClient(pod, clientPodOf({ ...client, ...change })));
});
