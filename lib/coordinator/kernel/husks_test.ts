import assert from "node:assert/strict";
import { Prefix } from "../../inet/mod.ts";
import { linkSet, NetlinkError, type Route } from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import { FakeNetwork, linkOf } from "../testing.ts";
import { cutOff, deleteHusk, discardHusks, huskOf } from "./husks.ts";

const KEY = { containerId: "cid", ifname: "eth0" };
const [EPERM, ESRCH, ENODEV] = [1, 3, 19].map((errno) =>
  new NetlinkError("do it", { errno })
);
const ROUTE: Route = {
  family: "ipv4",
  destination: Prefix.parse("10.6.0.100/32"),
  index: 7,
  table: 500,
  protocol: 32,
  scope: "link",
  type: "unicast",
};
const PAIR = linkOf(7, { alias: "COIL-COORD:cid:eth0" });
const HUSK = linkOf(8, { alias: "COIL-COORD-HUSK:cid:eth0" });

Deno.test("huskOf() knows the links that are cut off", () => {
  assert.deepEqual(huskOf(HUSK), { ...KEY, index: 8 });
  assert.equal(huskOf(PAIR), undefined);
  assert.equal(huskOf(linkOf(9)), undefined);
});

Deno.test("cutOff() marks a pair and takes its routes, but not those of others", async () => {
  const host = new FakeNetwork({
    routes: [ROUTE, { ...ROUTE, index: 9 }, { ...ROUTE, protocol: 3 }],
  });
  assert.deepEqual(await cutOff(host, PAIR), { ...KEY, index: 7 });
  assert.deepEqual(host.sent.slice(1), [
    'delete route "10.6.0.100/32" from table 500',
  ]);
  const mark = linkSet({ index: 7 }, { alias: "COIL-COORD-HUSK:cid:eth0" });
  assert.equal(host.bytes[0], bytesOf(mark));
  const other = new FakeNetwork({});
  assert.equal(await cutOff(other, linkOf(9)), undefined);
  assert.deepEqual(other.sent, []);
});

Deno.test("cutOff() takes a link that went for gone, as a route; a refusal is an error", async () => {
  const cut = (link?: NetlinkError, route?: NetlinkError) => {
    const host = new FakeNetwork({ routes: [ROUTE] });
    host.answer = (request) => request.includes("route") ? route : link;
    return cutOff(host, PAIR);
  };
  assert.equal(await cut(ENODEV), undefined);
  assert.equal((await cut(undefined, ESRCH))?.index, 7);
  await assert.rejects(cut(EPERM), EPERM);
  await assert.rejects(cut(undefined, EPERM), EPERM);
});

Deno.test("deleteHusk() deletes a husk, and no other link that has its index", async () => {
  const sentFor = async (...links: readonly ReturnType<typeof linkOf>[]) => {
    const host = new FakeNetwork({ links: [...links] });
    await deleteHusk(host, { ...KEY, index: 8 });
    return host.sent;
  };
  assert.deepEqual(await sentFor(HUSK), ["delete link 8"]);
  assert.deepEqual(await sentFor(), []);
  assert.deepEqual(await sentFor({ ...PAIR, index: 8 }), []);
});

Deno.test("discardHusks() has each husk deleted, and waits for that", async () => {
  const indexes: number[] = [];
  const discard = ({ index }: { readonly index: number }) =>
    Promise.resolve().then(() => void indexes.push(index));
  await discardHusks({ discard }, [PAIR, HUSK, { ...HUSK, index: 9 }]);
  assert.deepEqual(indexes, [8, 9]);
});
