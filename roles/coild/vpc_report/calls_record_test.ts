import assert from "node:assert/strict";
import { AwsError } from "../../../lib/aws/mod.ts";
import { CallsRecord } from "./calls_record.ts";

function recording() {
  let now = 0;
  const record = new CallsRecord(() => now);
  return {
    /** A request that ended with success, without an answer, or with EC2's code. */
    ended(call: string, result: string) {
      const isCode = !["success", "none"].includes(result);
      const refusal = isCode
        ? new AwsError({
          ...{ call, code: result, peer: "EC2", service: "ec2" },
          ...{ reason: "", status: 400 },
        })
        : undefined;
      record.attempted({ call, result, refusal, durationMs: 1 });
    },
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

Deno.test("CallsRecord knows for five minutes that a call was throttled", () => {
  const { ended, pass, troubles } = recording();
  ended("CreateTags", "RequestLimitExceeded");
  ended("CreateTags", "success");
  pass(299_999);
  assert.deepEqual(troubles().throttled, ["CreateTags"]);
  pass(1);
  assert.deepEqual(troubles().throttled, []);
});
