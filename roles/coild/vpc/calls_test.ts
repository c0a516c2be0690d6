import assert from "node:assert/strict";
import {
  AwsError,
  CredentialsError,
  type NetworkInterface,
  NoAnswerError,
} from "../../../lib/aws/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import type { Action } from "../../../lib/vpc/mod.ts";
import { eniOf, outcomeOf, tagsOf } from "./calls.ts";

function refusal(code: string, status = 400): AwsError {
  const reason = "for some reason";
  const of = { call: "X", peer: "EC2", service: "ec2" };
  return new AwsError({ ...of, code, reason, status });
}

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
  assert.equal(textOf(new NoAnswerError("x")), "unknown");
  assert.equal(textOf(refusal("InternalError", 500)), "unknown");
  assert.equal(textOf(refusal("InsufficientCidrBlocks")), "exhausted");
  assert.equal(
    textOf(refusal("InsufficientFreeAddressesInSubnet")),
    "exhausted",
  );
  for (const what of ["Attachment", "NetworkInterface", "PrivateIpAddress"]) {
    assert.equal(textOf(refusal(`${what}LimitExceeded`)), "limit");
  }
  assert.equal(textOf(refusal("RequestLimitExceeded", 503)), "other");
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
