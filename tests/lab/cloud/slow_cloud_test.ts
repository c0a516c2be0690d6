// A cloud that shows changes late, is slow to attach, or fails.
import assert from "node:assert/strict";
import { TestCloud } from "./endpoint_testing.ts";
import { KEYS, SUBNET } from "./testing.ts";

const DESCRIBE = "DescribeNetworkInterfaces";

function seen(cloud: TestCloud): number {
  return cloud.do(DESCRIBE).all("macAddress").length;
}

Deno.test("EC2: Describe shows a past moment when it lags, and changes do not", async () => {
  const cloud = new TestCloud();
  const lag = { describeLagMs: 2_000 };
  cloud.account.pace = { ...cloud.account.pace, ...lag };
  await cloud.clock.advance(2_000);
  const id = cloud.create();
  assert.equal(seen(cloud), 1);
  const asked = { "NetworkInterfaceId.1": id };
  assert.equal(
    cloud.refusal(DESCRIBE, asked),
    "InvalidNetworkInterfaceID.NotFound",
  );
  await cloud.clock.advance(1_000);
  cloud.do("CreateTags", {
    "ResourceId.1": id,
    "Tag.1.Key": "a",
    "Tag.1.Value": "b",
  });
  await cloud.clock.advance(999);
  assert.equal(seen(cloud), 1, "before both changes");
  await cloud.clock.advance(1);
  assert.equal(seen(cloud), 2);
  assert.deepEqual(cloud.do(DESCRIBE).all("key"), [], "between the changes");
  await cloud.clock.advance(1_000);
  assert.deepEqual(cloud.do(DESCRIBE).all("key"), ["a"]);
  cloud.do("DeleteNetworkInterface", { NetworkInterfaceId: id });
  assert.equal(seen(cloud), 2, "still listed");
  await cloud.clock.advance(2_000);
  assert.equal(seen(cloud), 1);
});

Deno.test("EC2: attaching and detaching take their time", async () => {
  const cloud = new TestCloud();
  const pace = { attachMs: 1_000, detachMs: 60_000 };
  cloud.account.pace = { ...cloud.account.pace, ...pace };
  const id = cloud.create();
  const attachment = cloud.attach(id, 1);
  const status = () =>
    cloud.do(DESCRIBE, { "NetworkInterfaceId.1": id }).all("status").join();
  assert.equal(status(), "in-use,attaching");
  await cloud.clock.advance(1_000);
  assert.equal(status(), "in-use,attached");
  cloud.do("DetachNetworkInterface", { AttachmentId: attachment });
  assert.equal(status(), "in-use,detaching");
  assert.equal(
    cloud.refusal("DetachNetworkInterface", { AttachmentId: attachment }),
    "IncorrectState",
  );
  assert.equal(
    cloud.refusal("DeleteNetworkInterface", { NetworkInterfaceId: id }),
    "InvalidParameterValue",
  );
  await cloud.clock.advance(60_000);
  assert.equal(status(), "available");
});

Deno.test("EC2: an ENI that is detached while it attaches goes", async () => {
  const cloud = new TestCloud();
  const pace = { attachMs: 1_000, detachMs: 2_000 };
  cloud.account.pace = { ...cloud.account.pace, ...pace };
  const id = cloud.create();
  cloud.do("DetachNetworkInterface", { AttachmentId: cloud.attach(id, 1) });
  const status = () =>
    cloud.do(DESCRIBE, { "NetworkInterfaceId.1": id }).all("status").join();
  await cloud.clock.advance(1_000);
  assert.equal(status(), "in-use,detaching");
  await cloud.clock.advance(1_000);
  assert.equal(status(), "available");
});

Deno.test("EC2: a fault fails its call so often, with the status that EC2 uses", () => {
  const cloud = new TestCloud();
  const create = () => {
    const { status, all } = cloud.ask("CreateNetworkInterface", {
      SubnetId: SUBNET,
    });
    return `${status} ${all("Code")}`;
  };
  const call = "CreateNetworkInterface";
  const cases = [
    ["RequestLimitExceeded", 503],
    ["InternalError", 500],
    ["UnauthorizedOperation", 403],
    ["InsufficientFreeAddressesInSubnet", 400],
    ["InsufficientCidrBlocks", 400],
  ] as const;
  for (const [code, status] of cases) {
    cloud.faults.add({ call, times: 2, kind: "error", code });
    assert.equal(create(), `${status} ${code}`);
    assert.equal(seen(cloud), 1, "other calls go on");
    assert.equal(create(), `${status} ${code}`);
  }
  assert.equal(seen(cloud), 1, "no change");
  assert.equal(create(), "200 ");
});

Deno.test("EC2: a fault of all calls holds until it is cleared", () => {
  const cloud = new TestCloud();
  cloud.faults.add({ call: "Describe*", kind: "error", code: "Unavailable" });
  for (let i = 0; i < 3; i++) {
    assert.equal(cloud.refusal("DescribeSubnets"), "Unavailable");
  }
  cloud.create();
  cloud.faults.clear();
  assert.equal(cloud.refusal("DescribeSubnets"), "");
});

Deno.test("EC2: calls beyond an account's rate are throttled, all callers together", async () => {
  const cloud = new TestCloud();
  const rate = { burst: 2, perSecond: 5 };
  cloud.faults.add({ call: "Describe*", kind: "throttle", ...rate });
  const codes = () =>
    ["DescribeSubnets", DESCRIBE, "DescribeSubnets"].map((call) =>
      cloud.refusal(call)
    );
  assert.deepEqual(codes(), ["", "", "RequestLimitExceeded"]);
  cloud.create();
  await cloud.clock.advance(200);
  const limited = "RequestLimitExceeded";
  assert.deepEqual(codes(), ["", limited, limited]);
});

Deno.test("EC2: an account has so many ENIs, and an ENI so many tags", () => {
  const cloud = new TestCloud({ maxEnis: 2 });
  const id = cloud.create();
  assert.equal(
    cloud.refusal("CreateNetworkInterface", { SubnetId: SUBNET }),
    "NetworkInterfaceLimitExceeded",
  );
  const tags = (first: number, count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [
        `Tag.${i + 1}.Key`,
        `key-${first + i}`,
      ]),
    );
  const tag = (first: number, count: number) =>
    cloud.refusal("CreateTags", { "ResourceId.1": id, ...tags(first, count) });
  assert.equal(tag(0, 50), "");
  assert.equal(tag(49, 1), "", "there already");
  assert.equal(tag(50, 1), "TagLimitExceeded");
});

Deno.test("EC2: calls are recorded with their parameters, caller and error", async () => {
  const cloud = new TestCloud();
  await cloud.clock.advance(7);
  cloud.refusal("DescribeSubnets", { "SubnetId.1": "x" });
  cloud.ask("DescribeSubnets", {}, { unsigned: true });
  const [first, second] = cloud.calls.from(0);
  assert.deepEqual(first, {
    atMs: 7,
    call: "DescribeSubnets",
    parameters: {
      Action: "DescribeSubnets",
      Version: "2016-11-15",
      "SubnetId.1": "x",
    },
    caller: KEYS.accessKeyId,
    status: 400,
    code: "InvalidSubnetID.NotFound",
    fault: undefined,
    needs: undefined,
  });
  assert.equal(second?.caller, undefined);
});
