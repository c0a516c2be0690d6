import assert from "node:assert/strict";
import { conditionOf, newVpcNode } from "../../../lib/api/mod.ts";
import { Prefix } from "../../../lib/inet/mod.ts";
import type { BlockRecord } from "../../../lib/ipam/mod.ts";
import type { FleetView } from "../vpc/fleet_view.ts";
import type { CallTroubles } from "./calls_record.ts";
import { statusOf } from "./status.ts";
import { RECORDS, VIEW } from "./testing.ts";

const NOW = new Date("2026-06-01T00:00:00Z");
const LATER = new Date("2026-06-01T00:01:00Z");
const CALM: CallTroubles = { denied: [], throttled: [] };

const FULL = RECORDS.slice(0, 2);

function conditionsOf(
  view: Partial<FleetView> | undefined,
  {
    records = RECORDS,
    troubles = {},
  }: {
    readonly records?: readonly BlockRecord[];
    readonly troubles?: Partial<CallTroubles>;
  } = {},
) {
  const { conditions } = statusOf({
    view: view && { ...VIEW, ...view },
    records,
    troubles: { ...CALM, ...troubles },
  }, { before: undefined, now: NOW });
  const textOf = (type: string) => {
    const { status, reason } = conditionOf(conditions, type) ?? {};
    return `${status} ${reason}`;
  };
  return {
    ready: textOf("Ready"),
    subnet: textOf("SubnetExhausted"),
    throttled: textOf("Throttled"),
    permissions: textOf("MissingPermissions"),
    messages: (conditions ?? []).map(({ message }) => message).join("\n"),
  };
}

Deno.test("statusOf() counts the addresses of each ENI, and of all", () => {
  const { conditions: _, ...status } = statusOf(
    { view: VIEW, records: RECORDS, troubles: CALM },
    { before: undefined, now: NOW },
  );
  const subnet = "subnet-1";
  assert.deepEqual(status, {
    instance: "i-1",
    instanceType: "t3.small",
    mode: "address",
    eniCount: 2,
    maxEnis: 3,
    addresses: { used: 2, cooling: 1, free: 15, capacity: 9 },
    enis: [
      {
        id: "eni-1",
        device: 0,
        subnet,
        blocks: ["10.0.1.5/32", "10.0.1.6/32"],
        used: 1,
        cooling: 1,
        free: 0,
      },
      {
        id: "eni-10",
        device: 1,
        subnet,
        blocks: ["10.0.1.16/28"],
        used: 1,
        cooling: 0,
        free: 15,
      },
    ],
  });
});

Deno.test("statusOf() has the IPv6 prefix of an ENI that has one", () => {
  const [eni, ...more] = VIEW.enis;
  assert.ok(eni);
  const block = Prefix.parse("fd10:0:0:1:1::/80");
  const ipv6 = { block, inEc2: true, inImds: false };
  const { enis } = statusOf({
    view: { ...VIEW, enis: [{ ...eni, ipv6 }, ...more] },
    records: RECORDS,
    troubles: CALM,
  }, { before: undefined, now: NOW });
  assert.deepEqual(enis?.map((eni) => eni.ipv6), [
    "fd10:0:0:1:1::/80",
    undefined,
  ]);
});

Deno.test("statusOf() says what keeps pods from getting addresses", () => {
  const unmet = (why: "limit" | "subnet" | "paused") => ({
    unmet: { addresses: 1, why },
  });
  assert.equal(conditionsOf(undefined).ready, "False Starting");
  assert.equal(conditionsOf({ enis: [] }).ready, "False Starting");
  assert.equal(conditionsOf({}).ready, "True AddressesAvailable");
  // A store that is short is no trouble as long as an address is free.
  assert.equal(
    conditionsOf(unmet("subnet")).ready,
    "True AddressesAvailable",
  );
  const records = FULL;
  assert.equal(conditionsOf({}, { records }).ready, "True AddressesAvailable");
  assert.equal(conditionsOf(unmet("limit"), { records }).ready, "True Full");
  const cordoned = { ...unmet("limit"), isCordoned: true };
  assert.equal(conditionsOf(cordoned, { records }).ready, "True Cordoned");
  assert.equal(
    conditionsOf(unmet("subnet"), { records }).ready,
    "False SubnetExhausted",
  );
  const both = { denied: ["ec2:CreateTags"], throttled: ["CreateTags"] };
  const denied = { records, troubles: { ...both, last: "denied" as const } };
  const { ready, messages } = conditionsOf(unmet("paused"), denied);
  assert.equal(ready, "False CallsFail");
  assert.match(messages, /^no address is free.*\(missing: ec2:CreateTags\)$/m);
  const throttled = {
    records,
    troubles: { ...both, last: "throttled" as const },
  };
  assert.match(
    conditionsOf(unmet("paused"), throttled).messages,
    /^no address is free.*\(throttled: CreateTags\)$/m,
  );
});

Deno.test("statusOf() names the right that a start lacks", () => {
  const denied = ["ec2:DescribeInstanceTypes"];
  const { permissions, messages } = conditionsOf(undefined, {
    troubles: { denied, last: "denied" },
  });
  assert.equal(permissions, "True Unauthorized");
  assert.match(messages, /ENIs \(missing: ec2:DescribeInstanceTypes\)$/m);
  assert.match(messages, /^.*; allow ec2:DescribeInstanceTypes in the policy/m);
});

Deno.test("statusOf() tells an empty subnet from a fragmented one", () => {
  assert.equal(conditionsOf({}).subnet, "False NotRefused");
  assert.equal(
    conditionsOf({ refused: ["prefix"] }).subnet,
    "True Fragmented",
  );
  assert.equal(
    conditionsOf({ refused: ["prefix", "address"] }).subnet,
    "True NoAddress",
  );
});

Deno.test("statusOf() names calls that are throttled", () => {
  const { throttled, messages } = conditionsOf({}, {
    troubles: { throttled: ["CreateTags"] },
  });
  assert.equal(throttled, "True RequestLimitExceeded");
  assert.match(messages, /throttles this account: CreateTags;/);
  assert.equal(conditionsOf({}).throttled, "False NotThrottled");
});

Deno.test("statusOf() keeps the times of conditions that stay", () => {
  const facts = { view: VIEW, records: RECORDS, troubles: CALM };
  const node = newVpcNode({ name: "node1", uid: "u" });
  const status = statusOf(facts, { before: node, now: NOW });
  const before = { ...node, status };
  assert.deepEqual(statusOf(facts, { before, now: LATER }), status);
});

Deno.test("statusOf() says which generation of the resource its conditions are of", () => {
  const facts = { view: VIEW, records: RECORDS, troubles: CALM };
  const node = newVpcNode({ name: "node1", uid: "u" });
  const metadata = { ...node.metadata, generation: 7 };
  for (
    const [before, generation] of [
      [undefined, 1],
      [node, 1],
      [{ ...node, metadata }, 7],
    ] as const
  ) {
    const { conditions = [] } = statusOf(facts, { before, now: NOW });
    assert.ok(conditions.length > 0);
    for (const { observedGeneration } of conditions) {
      assert.equal(observedGeneration, generation);
    }
  }
});
