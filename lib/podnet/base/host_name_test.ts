import assert from "node:assert/strict";
import { calicoVethName, hostVethName } from "./host_name.ts";
import { linkLocalOf, randomMac } from "./mac.ts";

Deno.test("hostVethName() is fixed for a key and differs by salt", () => {
  const key = { containerId: "cid0", ifname: "eth0" };
  // printf %s cid0:eth0 | sha1sum
  assert.equal(hostVethName(key), "veth433a5723");
  assert.equal(hostVethName({ ...key }), hostVethName(key));
  const names = [0, 1, 2, 3].map((salt) => hostVethName(key, salt));
  assert.equal(new Set(names).size, 4);
  for (const name of names) assert.match(name, /^veth[0-9a-f]{8}$/);
});

Deno.test("calicoVethName() is the name that Calico looks for", () => {
  assert.equal(
    calicoVethName({ namespace: "podns", name: "podname" }),
    "veth4a7140b0163",
  );
});

Deno.test("randomMac() is unicast and locally administered, from any bytes", () => {
  for (const byte of [0x00, 0x01, 0x03, 0xfd, 0xff]) {
    const mac = randomMac((bytes) => bytes.fill(byte));
    const first = Number.parseInt(mac.slice(0, 2), 16);
    assert.equal(first & 0b11, 0b10, mac);
    assert.equal(mac.slice(3, 5), byte.toString(16).padStart(2, "0"));
  }
});

Deno.test("linkLocalOf() flips the universal bit and fills in ff:fe", () => {
  // The example of RFC 2464, section 4.
  assert.equal(
    linkLocalOf("34:56:78:9a:bc:de").toString(),
    "fe80::3656:78ff:fe9a:bcde",
  );
  assert.equal(linkLocalOf("02:00:00:00:00:01").toString(), "fe80::ff:fe00:1");
  assert.throws(() => linkLocalOf("02:00:00:00:00"), SyntaxError);
  assert.throws(() => linkLocalOf("2:0:0:0:0:1"), SyntaxError);
});
