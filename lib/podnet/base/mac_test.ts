import assert from "node:assert/strict";
import { isMarkedFor, markedMac, randomMac } from "./mac.ts";

Deno.test("randomMac() is of one interface that nobody registered, and random otherwise", () => {
  assert.equal(randomMac((bytes) => bytes.fill(0)), "02:00:00:00:00:00");
  assert.equal(randomMac((bytes) => bytes.fill(0xff)), "fe:ff:ff:ff:ff:ff");
});

Deno.test("markedMac() names a pod, as an address of one interface that nobody registered", () => {
  const pod = { namespace: "default", name: "web-0" };
  const mac = markedMac(pod);
  assert.match(mac, /^c2:0c(:[0-9a-f]{2}){4}$/);
  assert.equal(parseInt(mac.slice(0, 2), 16) & 3, 2);
  assert.equal(isMarkedFor(mac, pod), true);
  assert.equal(isMarkedFor(mac, { ...pod, name: "web-1" }), false);
  assert.equal(isMarkedFor("02:00:00:00:00:01", pod), undefined);
  assert.equal(isMarkedFor(undefined, pod), undefined);
});
