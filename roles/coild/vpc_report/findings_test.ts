import assert from "node:assert/strict";
import {
  BlockTimeoutError,
  OutOfBlocksError,
  PoolNotFoundError,
} from "../../../lib/ipam/mod.ts";
import type { FleetView } from "../vpc/fleet_view.ts";
import type { CallTroubles } from "./calls_record.ts";
import { findingOf } from "./findings.ts";
import { attemptOf, VIEW } from "./testing.ts";

function delayOf(
  view: Partial<FleetView>,
  more: {
    readonly troubles?: Partial<CallTroubles>;
    readonly lastRefusal?: unknown;
  } = {},
): string {
  const finding = findingOf(new BlockTimeoutError("vpc", 10_000), {
    view: { ...VIEW, ...view },
    troubles: { denied: [], throttled: [], ...more.troubles },
    lastRefusal: more.lastRefusal,
  });
  return finding?.text ?? "";
}

const unmet = (why: "limit" | "subnet" | "paused") => ({
  unmet: { addresses: 1, why },
});

Deno.test("findingOf() says that the ENIs are full; in Events without the seconds that addresses rest", () => {
  const error = new OutOfBlocksError("vpc", "2 rest, the first for 7 s more");
  const { text = "", event = "" } = findingOf(error, {
    view: VIEW,
    troubles: { denied: [], throttled: [] },
    lastRefusal: undefined,
  }) ?? {};
  assert.match(
    text,
    /ENIs are full \(2 rest, the first for 7 s more\); delete/,
  );
  assert.match(event, /ENIs are full: t3.small has addresses for 9 pods/);
  assert.doesNotMatch(event, /7 s/);
});

Deno.test("findingOf() says why no address came in time", () => {
  const both = { denied: ["ec2:CreateTags"], throttled: ["CreateTags"] };
  const denied = { troubles: { ...both, last: "denied" as const } };
  assert.match(delayOf(unmet("limit")), /^the node's ENIs are full: t3.small/);
  assert.match(
    delayOf({ ...unmet("limit"), isCordoned: true }),
    /^the node's ENIs are full, and a cordoned node gets no further ENI/,
  );
  assert.match(
    delayOf(unmet("paused"), denied),
    /^EC2 denied calls; allow ec2:CreateTags in/,
  );
  assert.match(
    delayOf(unmet("subnet")),
    /^subnet subnet-1 of the node's ENIs has no free address left/,
  );
  const fragmented = { mode: "prefix", refused: ["prefix"] } as const;
  assert.match(delayOf(fragmented), /^subnet subnet-1 .* is fragmented/);
  // It is asked for single ones.
  assert.match(
    delayOf({ ...fragmented, mode: "address" }),
    /^EC2 has not granted one yet/,
  );
  assert.match(
    delayOf(unmet("paused"), {
      troubles: { ...both, last: "throttled" as const },
    }),
    /^EC2 throttles this account \(CreateTags\)/,
  );
  const { refusal } = attemptOf("CreateTags", "IncorrectState");
  assert.match(
    delayOf(unmet("paused"), { lastRefusal: refusal }),
    /^EC2 rejected a call \(Cannot call CreateTags of EC2: IncorrectState/,
  );
  assert.match(delayOf({}), /^EC2 has not granted one yet/);
  assert.match(delayOf({}, { troubles: both }), /^EC2 has not granted one yet/);
});

Deno.test("findingOf() leaves other errors to say it themselves", () => {
  const facts = {
    view: VIEW,
    troubles: { denied: [], throttled: [] },
    lastRefusal: undefined,
  };
  assert.equal(findingOf(new PoolNotFoundError("x"), facts), undefined);
});
