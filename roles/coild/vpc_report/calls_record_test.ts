import assert from "node:assert/strict";
import { CallsRecord } from "./calls_record.ts";
import { attemptOf } from "./testing.ts";

function recording() {
  let now = 0;
  const record = new CallsRecord(() => now);
  return {
    ended: (call: string, result: string) =>
      record.attempted(attemptOf(call, result)),
    pass: (ms: number) => void (now += ms),
    troubles: () => record.troubles,
  };
}

Deno.test("CallsRecord names the right that is missing, until the call is allowed", () => {
  const { ended, troubles } = recording();
  ended("CreateTags", "UnauthorizedOperation");
  ended("AttachNetworkInterface", "UnauthorizedOperation");
  const both = ["ec2:AttachNetworkInterface", "ec2:CreateTags"];
  assert.deepEqual(troubles().denied, both);
  // Neither says whether it would be allowed.
  ended("CreateTags", "none");
  ended("CreateTags", "RequestLimitExceeded");
  assert.deepEqual(troubles().denied, both);
  ended("CreateTags", "success");
  ended("AttachNetworkInterface", "AttachmentLimitExceeded");
  assert.deepEqual(troubles().denied, []);
});

Deno.test("CallsRecord knows what the last refusal was, until its call succeeds", () => {
  const { ended, troubles } = recording();
  assert.equal(troubles().last, undefined);
  ended("CreateTags", "UnauthorizedOperation");
  ended("DescribeSubnets", "success");
  assert.equal(troubles().last, "denied");
  ended("AttachNetworkInterface", "RequestLimitExceeded");
  assert.equal(troubles().last, "throttled");
  ended("CreateTags", "IncorrectState");
  assert.equal(troubles().last, undefined);
  ended("CreateTags", "UnauthorizedOperation");
  ended("CreateTags", "success");
  assert.equal(troubles().last, undefined);
});

Deno.test("CallsRecord forgets a missing right when its call was not made for ten minutes", () => {
  const { ended, pass, troubles } = recording();
  ended("CreateTags", "UnauthorizedOperation");
  pass(500_000);
  ended("CreateTags", "UnauthorizedOperation");
  pass(599_999);
  assert.deepEqual(troubles().denied, ["ec2:CreateTags"]);
  pass(1);
  assert.deepEqual(troubles().denied, []);
});

Deno.test("CallsRecord knows for five minutes that a call was throttled", () => {
  const { ended, pass, troubles } = recording();
  ended("CreateTags", "RequestLimitExceeded");
  ended("CreateTags", "success");
  pass(299_999);
  assert.deepEqual(troubles().throttled, ["CreateTags"]);
  pass(1);
  assert.deepEqual(troubles().throttled, []);
});
