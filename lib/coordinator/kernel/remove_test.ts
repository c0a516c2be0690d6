import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import { NetlinkError, type Route, routeDelete } from "../../netlink/mod.ts";
import { bytesOf } from "../../netlink/testing.ts";
import { remove, routeRemoval, throwRefusal } from "./remove.ts";

const [EPERM, ESRCH, EEXIST] = [1, 3, 17].map((errno) =>
  new NetlinkError("delete it", { errno })
);

Deno.test("throwRefusal() throws the first refusal, and nothing for what is gone", () => {
  throwRefusal([undefined, ESRCH]);
  throwRefusal([EEXIST], { allowed: ["EEXIST"] });
  assert.throws(() => throwRefusal([EEXIST]), EEXIST);
  const allowed = ["EEXIST"];
  const errors = [ESRCH, EEXIST, EPERM];
  assert.throws(() => throwRefusal(errors, { allowed }), EPERM);
});

Deno.test("remove() sends all, and fails for what is refused", async () => {
  const request = routeRemoval(ROUTE);
  const socket = (error: NetlinkError | undefined) => ({
    tryExecute: (requests: readonly unknown[]) =>
      Promise.resolve(requests.map(() => error)),
  });
  await remove(socket(undefined), [request]);
  await remove(socket(ESRCH), [request]);
  await assert.rejects(remove(socket(EPERM), [request]), EPERM);
});

const ROUTE: Route = {
  family: "ipv4",
  destination: Prefix.parse("10.6.0.0/24"),
  index: 7,
  table: 101,
  protocol: 32,
  scope: "link",
  type: "unicast",
};

Deno.test("routeRemoval() removes a route by all its ways", () => {
  const gateway = Address.parse("10.6.0.1");
  const multipath: Route = { ...ROUTE, hops: [{ index: 7, gateway }] };
  assert.equal(
    bytesOf(routeRemoval(multipath)),
    bytesOf(routeDelete({ ...ROUTE, type: "unicast" })),
  );
});
