import assert from "node:assert/strict";
import {
  AwsError,
  AwsNoAnswerError,
  CallBudget,
  CredentialsError,
  credentialSourceOf,
  Ec2Client,
  ImdsClient,
  type NetworkInterface,
} from "../../../lib/aws/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { Action, EniOutcome } from "../../../lib/vpc/mod.ts";
import { Cloud } from "../../../tests/lab/cloud/mod.ts";
import {
  cloudConfig,
  GROUP,
  INSTANCE,
  SUBNET,
} from "../../../tests/lab/cloud/testing.ts";
import { eniOf, outcomeOf, perform, tagsOf } from "./calls.ts";

function refusal(code: string, status = 400): AwsError {
  const reason = "for some reason";
  const of = { call: "X", peer: "EC2", service: "ec2" };
  return new AwsError({ ...of, code, reason, status });
}

const { signal } = new AbortController();

const DELETE: Action = { kind: "delete", eni: "eni-1" };
const CREATE: Action = {
  kind: "create",
  subnet: "subnet-1",
  what: "address",
  count: 1,
};

Deno.test("outcomeOf() tells what EC2 refused from what it may have done", () => {
  const textOf = (error: unknown, action: Action = CREATE) => {
    const outcome = outcomeOf(error, action);
    return outcome.kind === "refused" ? outcome.why : outcome.kind;
  };
  assert.equal(textOf(new AwsNoAnswerError("x")), "unknown");
  assert.equal(textOf(refusal("InternalError", 500)), "unknown");
  assert.equal(textOf(refusal("InsufficientCidrBlocks")), "exhausted");
  assert.equal(
    textOf(refusal("InsufficientFreeAddressesInSubnet")),
    "exhausted",
  );
  for (const what of ["Attachment", "NetworkInterface", "PrivateIpAddress"]) {
    assert.equal(textOf(refusal(`${what}LimitExceeded`)), "limit");
  }
  assert.equal(textOf(refusal("RequestLimitExceeded", 503)), "throttled");
  assert.equal(textOf(refusal("UnauthorizedOperation", 403)), "other");
  assert.equal(textOf(new CredentialsError("x")), "other");
  const gone = refusal("InvalidNetworkInterfaceID.NotFound");
  assert.equal(textOf(gone, DELETE), "done");
  assert.equal(textOf(gone), "other");
});

function network(changes: Partial<NetworkInterface> = {}): NetworkInterface {
  return {
    networkInterfaceId: "eni-1",
    subnetId: "subnet-1",
    vpcId: "vpc-1",
    availabilityZone: "a",
    macAddress: "02:00:00:00:00:01",
    status: "in-use",
    description: "",
    primaryAddress: Address.parse("10.0.1.4"),
    secondaryAddresses: [Address.parse("10.0.1.5")],
    ipv4Prefixes: [Prefix.parse("10.0.1.16/28")],
    ipv6Addresses: [],
    ipv6Prefixes: [],
    groups: [],
    tags: {},
    attachment: {
      attachmentId: "attach-1",
      instanceId: "i-1",
      deviceIndex: 1,
      networkCardIndex: 0,
      status: "attached",
      deleteOnTermination: true,
    },
    ...changes,
  };
}

function seen(changes: Partial<NetworkInterface>, manageUntagged = true) {
  return eniOf(network(changes), {
    instanceId: "i-1",
    manageUntagged,
    since: () => 7,
  });
}

Deno.test("eniOf() has addresses and prefixes as blocks", () => {
  const { blocks, attachment } = seen({});
  assert.equal(String(blocks), "10.0.1.5/32,10.0.1.16/28");
  assert.deepEqual(attachment, {
    id: "attach-1",
    device: 1,
    state: "attached",
    since: 7,
    endsWithInstance: true,
  });
});

Deno.test("eniOf() knows whose an ENI is", () => {
  const { attachment } = network();
  assert.ok(attachment);
  const own = { "node.k8s.amazonaws.com/instance_id": "i-1" };
  const other = { "node.k8s.amazonaws.com/instance_id": "i-2" };
  const kept = { "node.k8s.amazonaws.com/no_manage": "true" };
  const primary = { attachment: { ...attachment, deviceIndex: 0 } };
  const card = { attachment: { ...attachment, networkCardIndex: 1 } };
  const of = (changes: Partial<NetworkInterface>, manageUntagged?: boolean) =>
    seen(changes, manageUntagged).ownership;
  assert.equal(of({ ...primary, tags: kept }), "primary");
  assert.equal(of({ tags: own }), "owned");
  assert.equal(of({ tags: other }), "adopted");
  assert.equal(of({}), "adopted");
  assert.equal(of({}, false), "foreign");
  assert.equal(of({ tags: own }, false), "owned");
  assert.equal(of({ tags: { ...own, ...kept } }), "foreign");
  assert.equal(of({ ...card, tags: own }), "foreign");
  assert.equal(of({ primaryAddress: undefined }), "foreign");
});

Deno.test("eniOf() takes no attachment that has ended", () => {
  const { attachment } = network();
  assert.ok(attachment);
  const stateOf = (status: string) =>
    seen({ attachment: { ...attachment, status } }).attachment?.state;
  assert.equal(stateOf("detached"), undefined);
  assert.equal(stateOf("detaching"), "detaching");
  assert.equal(stateOf("busy"), "attaching");
  assert.equal(seen({ attachment: undefined }).attachment, undefined);
});

Deno.test("tagsOf() says whose an ENI is, since when, and of which cluster", () => {
  const now = new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678));
  const template = { instanceId: "i-1", clusterName: "", tags: {} };
  const tags = {
    "node.k8s.amazonaws.com/instance_id": "i-1",
    "node.k8s.amazonaws.com/createdAt": "2026-01-02T03:04:05Z",
  };
  assert.deepEqual(tagsOf(template, now), tags);
  assert.deepEqual(tagsOf({ ...template, clusterName: "c" }, now), {
    ...tags,
    "cluster.k8s.amazonaws.com/name": "c",
  });
  const own = { team: "net", "node.k8s.amazonaws.com/instance_id": "i-2" };
  assert.deepEqual(tagsOf({ ...template, tags: own }, now), {
    team: "net",
    ...tags,
  });
});

/** Makes calls of a cloud with one t3.small. What EC2 refuses is noted. */
async function caller() {
  const stack = new AsyncDisposableStack();
  const cloud = stack.use(await Cloud.start(cloudConfig()));
  const region = "eu-test-1";
  const metadata = cloud.endpoints.imds[INSTANCE] ?? "";
  const env = new Map([["AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata]]);
  const imds = stack.use(new ImdsClient({ env }));
  const ec2 = stack.use(
    new Ec2Client({
      region,
      endpoint: cloud.endpoints.ec2,
      credentials: credentialSourceOf({ env, region, imds }),
      budget: new CallBudget({}),
    }),
  );
  const errors: string[] = [];
  return {
    errors,
    perform: (action: Action, until: AbortSignal = signal) =>
      perform(action, {
        ec2,
        signal: until,
        template: {
          instanceId: INSTANCE,
          groups: [GROUP],
          clusterName: "",
          tags: {},
          hasIpv6: false,
        },
        view: { instanceId: INSTANCE, manageUntagged: false, since: () => 7 },
        onError: (error) => void errors.push(`${error}`),
      }),
    /** The attached ENI of that device, as EC2 has it. */
    async eniAt(device: number) {
      const list = await ec2.describeNetworkInterfaces({
        "attachment.instance-id": [INSTANCE],
      }, {});
      return list.find(({ attachment }) => attachment?.deviceIndex === device);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

Deno.test("perform() does at EC2 what each action says, and says what came of it", async () => {
  await using cloud = await caller();
  const done = async (action: Action) => {
    const outcome: EniOutcome = await cloud.perform(action);
    assert.equal(outcome.kind, "done", action.kind);
    return outcome as EniOutcome & { readonly kind: "done" };
  };
  const subnet = SUBNET;
  const { eni } = await done({
    kind: "create",
    subnet,
    what: "address",
    count: 2,
  });
  assert.ok(eni !== undefined);
  assert.deepEqual(eni.blocks.map(({ hostBits }) => hostBits), [0, 0]);
  assert.equal(eni.ownership, "owned");
  const { id } = eni;
  const { attachment } = await done({ kind: "attach", eni: id, device: 1 });
  assert.equal(attachment?.since, 7);
  const to = { kind: "assign", eni: id, subnet, count: 1 } as const;
  const { blocks: [address] = [] } = await done({ ...to, what: "address" });
  assert.equal(address?.hostBits, 0);
  await done({ kind: "unassign", eni: id, blocks: eni.blocks });
  const { blocks: [prefix] = [] } = await done({ ...to, what: "prefix" });
  assert.equal(prefix?.hostBits, 4);
  const { blocks: [ipv6] = [] } = await done({ ...to, what: "ipv6" });
  assert.equal(ipv6?.length, 80);
  const held = await cloud.eniAt(1);
  assert.deepEqual(held?.secondaryAddresses.map(String), [
    `${address?.address}`,
  ]);
  assert.deepEqual(held?.ipv4Prefixes.map(String), [String(prefix)]);
  assert.equal(held?.attachment?.deleteOnTermination, false);
  const { id: attached } = attachment ?? { id: "" };
  await done({ kind: "endWithInstance", eni: id, attachment: attached });
  assert.equal(
    (await cloud.eniAt(1))?.attachment?.deleteOnTermination,
    true,
  );
  assert.ok(prefix !== undefined);
  await done({ kind: "unassign", eni: id, blocks: [prefix] });
  assert.deepEqual((await cloud.eniAt(1))?.ipv4Prefixes, []);
  await done({ kind: "detach", eni: id, attachment: attached });
  assert.equal(await cloud.eniAt(1), undefined);
  await done({ kind: "delete", eni: id });
  assert.deepEqual(cloud.errors, []);
  // It is gone.
  await done({ kind: "delete", eni: id });
  const refused = await cloud.perform({ kind: "attach", eni: id, device: 1 });
  assert.equal(refused.kind, "refused");
  assert.match(cloud.errors.join(), /^AwsError: .*NotFound[^,]*$/s);
});

Deno.test("perform() creates an ENI with prefixes where the plan asks for them", async () => {
  await using cloud = await caller();
  const outcome = await cloud.perform({
    kind: "create",
    subnet: SUBNET,
    what: "prefix",
    count: 1,
  });
  assert.ok(outcome.kind === "done");
  assert.deepEqual(outcome.eni?.blocks.map(({ hostBits }) => hostBits), [4]);
});

Deno.test("perform() sends nothing after its signal, and reports no error of EC2", async () => {
  await using cloud = await caller();
  const { networkInterfaceId: eni = "" } = await cloud.eniAt(0) ?? {};
  const { kind } = await cloud.perform(
    { kind: "assign", eni, subnet: SUBNET, what: "address", count: 1 },
    AbortSignal.abort(),
  );
  assert.equal(kind, "refused");
  assert.deepEqual(cloud.errors, []);
  assert.deepEqual((await cloud.eniAt(0))?.secondaryAddresses, []);
});
