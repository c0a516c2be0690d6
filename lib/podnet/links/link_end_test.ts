import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import { ERRNO } from "../../linux/mod.ts";
import { PROTOCOL_BOOT, RouteSocket } from "../../netlink/mod.ts";
import { acknowledge, AnsweringTransport } from "../../netlink/testing.ts";
import type { RouteStep, Step } from "../plan/plan.ts";
import { applySteps } from "./link_end.ts";

const { EACCES, EBUSY, EINVAL, ENETUNREACH, ENOBUFS } = ERRNO;

const ROUTE: RouteStep = {
  kind: "route",
  destination: Prefix.parse("10.1.2.1/32"),
  protocol: PROTOCOL_BOOT,
};
const WITH_SOURCE = { ...ROUTE, source: Address.parse("192.0.2.1") };
const ADDRESS: Step = {
  kind: "address",
  address: Address.parse("10.1.2.1"),
  length: 32,
  scope: "global",
};
const IPV6_ADDRESS: Step = {
  ...ADDRESS,
  address: Address.parse("fd02::1"),
  length: 128,
};
const NEIGHBOUR: Step = {
  kind: "neighbour",
  address: Address.parse("fe80::1"),
  mac: "02:00:00:00:00:01",
};
const OPTIONAL: Step = {
  kind: "link",
  addressGeneration: "none",
  optional: true,
};

/** Applies the steps in a kernel that answers with these error numbers, one after the other, then with none. */
async function apply(steps: readonly Step[], ...errnos: number[]) {
  const transport = new AnsweringTransport((request) => [
    acknowledge(request, errnos.shift() ?? 0),
  ]);
  using socket = RouteSocket.over(transport);
  await applySteps({ socket, index: 7, name: "veth7" }, steps);
  return transport.requests.map(({ payload }) => payload.bytes.byteLength);
}

Deno.test("applySteps() sends a route again without a source that the node lacks", async () => {
  const [first, second, ...more] = await apply([WITH_SOURCE], EINVAL);
  assert.ok(first !== undefined && second !== undefined);
  // RTA_PREFSRC with an IPv4 address is of 8 bytes.
  assert.equal(first - second, 8);
  assert.deepEqual(more, []);
});

Deno.test("applySteps() sends again only what was refused", async () => {
  const sent = await apply([ADDRESS, WITH_SOURCE, ROUTE], 0, EINVAL);
  assert.equal(sent.length, 4);
});

Deno.test("applySteps() sends what else was refused again, too", async () => {
  const sent = await apply([ADDRESS, WITH_SOURCE], EBUSY, EINVAL);
  assert.equal(sent.length, 4);
  assert.equal(sent[0], sent[2]);
});

const REFUSED: Readonly<Record<string, readonly [Step, number, string]>> = {
  "a source has another reason": [WITH_SOURCE, ENETUNREACH, "ENETUNREACH"],
  "a route has no source": [ROUTE, EINVAL, "EINVAL"],
  "it is no route": [ADDRESS, EINVAL, "EINVAL"],
  "an IPv4 address, where IPv6 is off": [ADDRESS, EACCES, "EACCES"],
  "an IPv6 address, where it is on": [IPV6_ADDRESS, EINVAL, "EINVAL"],
  "a route is forbidden": [ROUTE, EACCES, "EACCES"],
  "a neighbour is refused": [NEIGHBOUR, EINVAL, "EINVAL"],
  "the kernel has no room for a route": [ROUTE, ENOBUFS, "ENOBUFS"],
};

for (const [why, [step, errno, code]] of Object.entries(REFUSED)) {
  Deno.test(`applySteps() throws what has no remedy: ${why}`, async () => {
    await assert.rejects(apply([step], errno), { code });
  });
}

Deno.test("applySteps() goes on without a neighbour where the machine's table is full, as pods together can fill it", async () => {
  assert.equal((await apply([NEIGHBOUR], ENOBUFS)).length, 1);
});

Deno.test("applySteps() goes on without what is optional, and with nothing else", async () => {
  assert.equal((await apply([OPTIONAL], EINVAL)).length, 1);
  const must: Step = { kind: "link", up: true };
  await assert.rejects(apply([OPTIONAL, must], 0, EINVAL), { code: "EINVAL" });
});
