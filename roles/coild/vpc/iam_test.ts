// deploy/vpc/iam/coild.json against an EC2 that goes by it: it allows all that
// coild does, each part of it is needed, and each condition keeps something out.
import assert from "node:assert/strict";
import {
  CallBudget,
  credentialSourceOf,
  Ec2Client,
  ImdsClient,
} from "../../../lib/aws/mod.ts";
import type { Action, EniOutcome } from "../../../lib/vpc/mod.ts";
import { type Call, Cloud } from "../../../tests/lab/cloud/mod.ts";
import { assertTight } from "../../../tests/lab/cloud/policy_testing.ts";
import {
  byHand,
  callEc2,
  cloudConfig,
  CLUSTER,
  formOf,
  GROUP,
  INSTANCE,
  policyOf,
  ROLE_KEYS,
  SUBNET,
  withPolicy,
} from "../../../tests/lab/cloud/testing.ts";
import { perform } from "../cloud/calls.ts";

const POLICY = await policyOf("coild");
const STRANGER = "i-0000000000000000b";

type Parameters = Readonly<Record<string, string | number>>;

/** A node's role in an account that also has an instance of another cluster. */
class Site implements AsyncDisposable {
  readonly cloud: Cloud;
  readonly ec2: Ec2Client;
  /** Methods of {@linkcode ec2} that were called. */
  readonly used: Set<keyof Ec2Client> = new Set();
  readonly #stack = new AsyncDisposableStack();

  private constructor(cloud: Cloud) {
    this.cloud = this.#stack.use(cloud);
    const region = "eu-test-1";
    const env = new Map([
      ["AWS_ACCESS_KEY_ID", ROLE_KEYS.accessKeyId],
      ["AWS_SECRET_ACCESS_KEY", ROLE_KEYS.secretAccessKey],
      ["AWS_SESSION_TOKEN", ROLE_KEYS.sessionToken],
    ]);
    const imds = this.#stack.use(new ImdsClient({ env }));
    const ec2 = new Ec2Client({
      region,
      endpoint: cloud.endpoints.ec2,
      credentials: credentialSourceOf({ env, region, imds }),
      budget: new CallBudget(),
    });
    this.#stack.use(ec2);
    this.ec2 = new Proxy(ec2, {
      get: (_, name: keyof Ec2Client) => {
        this.used.add(name);
        return ec2[name].bind(ec2);
      },
    });
  }

  static async start(): Promise<Site> {
    const { instances, ...config } = withPolicy(cloudConfig(), POLICY);
    const others = cloudConfig().instances
      .map((instance) => ({ ...instance, id: STRANGER }));
    const all = [...instances, ...others];
    return new Site(await Cloud.start({ ...config, instances: all }));
  }

  /** Makes a call as coild does. */
  async act(action: Action): Promise<EniOutcome & { readonly kind: "done" }> {
    const template = {
      instanceId: INSTANCE,
      clusterName: CLUSTER,
      tags: {},
      hasIpv6: false,
    };
    const outcome = await perform(action, {
      ec2: this.ec2,
      template: { ...template, groups: [GROUP] },
      view: { instanceId: INSTANCE, manageUntagged: true, since: () => 0 },
      signal: new AbortController().signal,
      onError: (error) => {
        throw error;
      },
    });
    assert.ok(outcome.kind === "done");
    return outcome;
  }

  /** Makes a call with coild's keys. */
  async ask(action: string, parameters: Parameters): Promise<string> {
    const form = formOf(action, parameters);
    const credentials = ROLE_KEYS;
    const { ec2 } = this.cloud.endpoints;
    const answer = await callEc2(ec2, form, { credentials });
    return answer.all("Code").join();
  }

  /** Does something as an operator, and returns what the answer has under a name. */
  async byHand(
    action: string,
    parameters: Parameters,
    name: string,
  ): Promise<string> {
    const { all } = await byHand(this.cloud, action, parameters);
    return all(name)[0] ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** All that coild does, once each. */
async function live(site: Site): Promise<readonly Call[]> {
  const place = { subnet: SUBNET, what: "address", count: 1 } as const;
  await site.ec2.describeInstanceType("t3.small");
  await site.ec2.describeNetworkInterfaces({ "vpc-id": ["vpc-1"] });
  const { eni: { id: eni = "" } = {} } = await site
    .act({ kind: "create", ...place });
  const { attachment: { id: attachment = "" } = {} } = await site
    .act({ kind: "attach", eni, device: 1 });
  await site.act({ kind: "endWithInstance", eni, attachment });
  const { blocks = [] } = await site.act({ kind: "assign", eni, ...place });
  await site.act({ kind: "assign", eni, ...place, what: "ipv6" });
  await site.act({ kind: "unassign", eni, blocks });
  await site.act({ kind: "detach", eni, attachment });
  await site.act({ kind: "delete", eni });
  return await site.cloud.ask.calls(0);
}

/** What the keys of a stolen node must not be good for. */
async function trespass(site: Site): Promise<readonly Call[]> {
  const { length } = await site.cloud.ask.calls(0);
  const { eni: { id: own = "" } = {} } = await site
    .act({ kind: "create", subnet: SUBNET, what: "address", count: 1 });
  const what = { SubnetId: SUBNET };
  const foreign = await site
    .byHand("CreateNetworkInterface", what, "networkInterfaceId");
  const ofForeign = { NetworkInterfaceId: foreign };
  const attachment = await site.byHand("AttachNetworkInterface", {
    ...ofForeign,
    InstanceId: STRANGER,
    DeviceIndex: 1,
  }, "attachmentId");
  const count = { SecondaryPrivateIpAddressCount: 1 };
  const tag = { "Tag.1.Key": "a", "Tag.1.Value": "b" };
  const to = { InstanceId: STRANGER, DeviceIndex: 2 };
  const all: readonly (readonly [string, Parameters])[] = [
    ["CreateNetworkInterface", what],
    ["CreateTags", { "ResourceId.1": own, ...tag }],
    ["CreateTags", { "ResourceId.1": foreign, ...tag }],
    ["AttachNetworkInterface", { NetworkInterfaceId: own, ...to }],
    ["AssignPrivateIpAddresses", { ...ofForeign, ...count }],
    ["DetachNetworkInterface", { AttachmentId: attachment }],
    ["DeleteNetworkInterface", ofForeign],
  ];
  for (const [action, parameters] of all) {
    const code = await site.ask(action, parameters);
    assert.equal(code, "UnauthorizedOperation", action);
  }
  return (await site.cloud.ask.calls(length))
    .filter(({ status }) => status === 403);
}

Deno.test("coild's IAM policy allows what coild does, and no more", async () => {
  await using site = await Site.start();
  const made = await live(site);
  assert.deepEqual(made.filter(({ status }) => status !== 200), []);
  assertTight(POLICY, { made, foreign: await trespass(site) });
});

Deno.test("lib/aws can make no call of EC2 that coild does not make", async () => {
  await using site = await Site.start();
  await live(site);
  const methods = Object.getOwnPropertyNames(Ec2Client.prototype)
    .filter((name) => name !== "constructor");
  assert.deepEqual([...site.used].sort(), methods.sort());
});
