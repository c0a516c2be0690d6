import assert from "node:assert/strict";
import type { Policy, Statement } from "./config.ts";
import { TestCloud } from "./endpoint_testing.ts";
import { isAllowed } from "./iam.ts";
import { cloudConfig, KEYS } from "./testing.ts";

function policyOf(...statements: readonly Partial<Statement>[]): Policy {
  const all = { Sid: "", Effect: "Allow", Action: "*", Resource: "*" };
  return { Statement: statements.map((it) => ({ ...all, ...it })) };
}

/** A cloud whose caller has this policy. */
function cloudWith(policy: Policy): TestCloud {
  const { credentials } = cloudConfig();
  const [, ...others] = credentials;
  return new TestCloud({ credentials: [{ ...KEYS, policy }, ...others] });
}

Deno.test("IAM: each statement has actions, resources and conditions, all of which must fit", () => {
  const policy = policyOf(
    { Action: ["ec2:A*"], Resource: "arn:*/eni-1" },
    { Action: "ec2:B", Condition: { StringEquals: { k: ["x", "y"] } } },
  );
  const is = (action: string, resource: string, k?: string) =>
    isAllowed(policy, [{
      action: `ec2:${action}`,
      resource,
      context: k === undefined ? {} : { k },
    }]);
  assert.ok(is("Attach", "arn:aws:eni/eni-1"));
  assert.ok(!is("Attach", "arn:aws:eni/eni-10"));
  assert.ok(!is("Detach", "arn:aws:eni/eni-1"));
  assert.ok(is("B", "any", "y"));
  assert.ok(!is("B", "any", "z"));
  assert.ok(!is("B", "any"));
  assert.throws(() =>
    isAllowed(policyOf({ Effect: "Deny" }), [{
      action: "ec2:A",
      resource: "*",
      context: {},
    }]), /Cannot judge Deny/);
});

Deno.test("EC2: what a policy does not allow is refused, and changes nothing", () => {
  const subnets = cloudConfig().subnets.map(({ id }) => `arn:*:subnet/${id}`);
  const eni = "arn:*:network-interface/*";
  const cloud = cloudWith(policyOf(
    { Action: "ec2:DescribeNetworkInterfaces" },
    { Action: "ec2:CreateNetworkInterface", Resource: [eni, ...subnets] },
  ));
  const count = () =>
    cloud.do("DescribeNetworkInterfaces").all("networkInterfaceId").length;
  const before = count();
  assert.ok(cloud.create());
  const [SubnetId = ""] = cloudConfig().subnets.map(({ id }) => id);
  const tags = {
    "TagSpecification.1.ResourceType": "network-interface",
    "TagSpecification.1.Tag.1.Key": "a",
    "TagSpecification.1.Tag.1.Value": "b",
  };
  for (const more of [tags, { "SecurityGroupId.1": "sg-nodes" }]) {
    const code = cloud.refusal("CreateNetworkInterface", { SubnetId, ...more });
    assert.equal(code, "UnauthorizedOperation");
  }
  assert.equal(count(), before + 1);
  assert.deepEqual(cloud.calls.from(0).at(-2)?.needs?.map((it) => it.action), [
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterface",
  ]);
});
