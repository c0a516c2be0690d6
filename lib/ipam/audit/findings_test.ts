import assert from "node:assert/strict";
import type { BlockRequest } from "../../api/mod.ts";
import { type Books, type Finding, findingsOf } from "./findings.ts";
import { lastingFindings } from "./look_twice.ts";
import { AGO, block, NOW, pod, pool } from "./testing.ts";

/** All that fits. */
const GOOD: Books = {
  pools: [
    pool("default", [{ ipv4: "10.2.0.0/24", ipv6: "fd02::/120" }]),
    pool("small", [{ ipv4: "10.3.0.0/27" }]),
  ],
  blocks: [
    block(["default", 0, "n1"], { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
    block(["default", 1, "n2"], { ipv4: "10.2.0.32/27", ipv6: "fd02::20/123" }),
  ],
  pods: [
    pod("web-1", "n1", { ipv4: "10.2.0.9", ipv6: "fd02::9" }),
    pod("web-2", "n2", { ipv4: "10.2.0.40", ipv6: "fd02::28" }),
    pod("other-cni", "n2", { ipv4: "192.0.2.7" }),
  ],
  requests: [],
  nodes: ["n1", "n2"],
  egresses: [{ namespace: "internet", name: "nat" }],
  poolNames: [{ from: "Namespace apps", next: "look", to: "small" }],
  egressNames: [{ from: "Pod apps/web-1", next: "look", to: "internet/nat" }],
};

function request(ageHours: number): BlockRequest {
  return {
    apiVersion: "coil.cybozu.com/v2",
    kind: "BlockRequest",
    metadata: { name: "req-1", creationTimestamp: AGO(ageHours) },
    spec: { nodeName: "n1", poolName: "default" },
  };
}

/** What is found when these books replace good ones. */
function found(changed: Partial<Books>): string[] {
  return findingsOf({ ...GOOD, ...changed }, NOW).map(textOf);
}

function textOf({ code, object, message }: Finding): string {
  return `${code} ${object}: ${message}`;
}

const { pods = [], blocks = [], pools = [] } = GOOD;

Deno.test("findingsOf() finds nothing where all fits", () => {
  assert.deepEqual(found({}), []);
});

Deno.test("findingsOf() names each pod of a doubled address, and the others", () => {
  const twin = pod("twin", "n2", { ipv4: "10.2.0.9" });
  assert.deepEqual(found({ pods: [...pods, twin] }), [
    "duplicate-address Pod apps/twin: has 10.2.0.9 on Node n2, and so has apps/web-1 on Node n1",
    "duplicate-address Pod apps/web-1: has 10.2.0.9 on Node n1, and so has apps/twin on Node n2",
  ]);
});

Deno.test("findingsOf() finds pods outside of their node's blocks", () => {
  const lost = pod("lost", "n2", { ipv4: "10.2.0.200", ipv6: "fd02::c8" });
  const moved = pod("moved", "n1", { ipv4: "10.2.0.41", ipv6: "fd02::29" });
  assert.deepEqual(found({ pods: [lost, moved] }), [
    "address-of-another-node Pod apps/moved: has 10.2.0.41 and fd02::29 on Node n1, but AddressBlock default-1 belongs to another node",
    "address-outside-of-blocks Pod apps/lost: has 10.2.0.200 and fd02::c8 on Node n2, in no AddressBlock: another pod may get it",
  ]);
});

Deno.test("findingsOf() finds blocks without a pool, without a node, and unreadable ones", () => {
  const odd = block(["gone", 0, "n9"], { ipv4: "10.9.0.0/27" });
  const edited = block(["default", 2, "n1"], { ipv4: "10.2.0.64" });
  const left = block(["lost", 0, "n1"], { ipv4: "10.8.0.0/27" });
  assert.deepEqual(found({ blocks: [...blocks, left] }), [
    'block-without-pool AddressBlock lost-0: its AddressPool "lost" does not exist',
  ]);
  assert.deepEqual(found({ blocks: [...blocks, odd, edited] }), [
    "block-unreadable AddressBlock default-2: it was edited and is not a valid block",
    'block-without-pool AddressBlock gone-0: its AddressPool "gone" does not exist',
    'block-without-node AddressBlock gone-0: its Node "n9" does not exist; coil-controller returns such blocks',
  ]);
});

Deno.test("findingsOf() finds pools that overlap", () => {
  const twin = pool("twin", [{ ipv4: "10.3.0.0/27" }]);
  const [first = "", second = ""] = found({ pools: [...pools, twin] });
  assert.match(first, /^pools-overlap AddressPool small: .*"twin"/);
  assert.match(second, /^pools-overlap AddressPool twin: .*"small"/);
});

Deno.test("findingsOf() finds requests that wait for long, not new ones", () => {
  assert.deepEqual(found({ requests: [request(0)] }), []);
  assert.deepEqual(found({ requests: [request(2)] }), [
    "request-unanswered BlockRequest req-1: Node n1 asks for a block of AddressPool default, without an answer for 120m",
  ]);
});

Deno.test("findingsOf() finds annotations that name nothing", () => {
  const [namespace] = GOOD.poolNames ?? [];
  const [client] = GOOD.egressNames ?? [];
  assert.ok(namespace !== undefined && client !== undefined);
  assert.deepEqual(
    found({
      poolNames: [{ ...namespace, to: "smal" }],
      egressNames: [{ ...client, to: "internet/net" }],
    }),
    [
      'unknown-pool Namespace apps: its annotation names AddressPool "smal", which does not exist',
      'unknown-egress Pod apps/web-1: its annotation names Egress "internet/net", which does not exist',
    ],
  );
});

Deno.test("findingsOf() finds nothing about what was not read", () => {
  const lost = pod("lost", "n2", { ipv4: "10.2.0.200" });
  const odd = block(["gone", 0, "n9"], { ipv4: "10.9.0.0/27" });
  assert.deepEqual(found({ pods: [lost], blocks: undefined }), []);
  assert.deepEqual(found({ pods: [lost], pools: undefined }), []);
  const unread = { pools: undefined, nodes: undefined, egresses: undefined };
  assert.deepEqual(found({ blocks: [...blocks, odd], ...unread }), []);
});

Deno.test("lastingFindings() keeps what both looks have, as the second tells it", () => {
  const next = "look";
  const finding = (
    code: Finding["code"],
    object: string,
    message: string,
  ): Finding => ({ code, object, message, next });
  const early = finding("block-without-node", "AddressBlock a", "first");
  const late = finding("block-without-node", "AddressBlock a", "second");
  const over = finding("block-without-node", "AddressBlock b", "over");
  const begun = finding("block-without-pool", "AddressBlock a", "begun");
  assert.deepEqual(lastingFindings([early, over], [late, begun]), [late]);
});
