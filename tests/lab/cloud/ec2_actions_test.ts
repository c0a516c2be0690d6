import assert from "node:assert/strict";
import { TestCloud } from "./endpoint_testing.ts";
import { INSTANCE, SUBNET } from "./testing.ts";

const ENI = "NetworkInterfaceId";
const COUNT = "SecondaryPrivateIpAddressCount";

function subnet(cidr: string) {
  return [{ id: SUBNET, zone: "eu-test-1a", cidr }];
}

function freeIn(cloud: TestCloud): number {
  const [count] = cloud.do("DescribeSubnets").all("availableIpAddressCount");
  return Number(count);
}

function pages(cloud: TestCloud, size: number): number[] {
  const sizes: number[] = [];
  const seen = new Set<string>();
  let NextToken: string | undefined;
  do {
    const answer = cloud.do("DescribeNetworkInterfaces", {
      MaxResults: size,
      ...(NextToken === undefined ? {} : { NextToken }),
    });
    const ids = answer.all("networkInterfaceId");
    for (const id of ids) seen.add(id);
    sizes.push(ids.length);
    [NextToken] = answer.all("nextToken");
  } while (NextToken !== undefined);
  return [...sizes, seen.size];
}

Deno.test("EC2: an ENI is created, attached, detached and deleted", () => {
  const cloud = new TestCloud();
  const free = freeIn(cloud);
  const id = cloud.create({
    [COUNT]: 2,
    "SecurityGroupId.1": "sg-nodes",
    "TagSpecification.1.ResourceType": "network-interface",
    "TagSpecification.1.Tag.1.Key": "node.k8s.amazonaws.com/instance_id",
    "TagSpecification.1.Tag.1.Value": INSTANCE,
    Description: "<a & b>",
  });
  const see = () => cloud.do("DescribeNetworkInterfaces", { [`${ENI}.1`]: id });
  assert.deepEqual(see().all("description"), ["&lt;a &amp; b&gt;"]);
  assert.deepEqual(see().all("groupId"), ["sg-nodes"]);
  assert.deepEqual(see().all("status"), ["available"]);
  assert.deepEqual(see().all("primary"), ["true", "false", "false"]);
  assert.equal(freeIn(cloud), free - 3);

  const attachment = cloud.attach(id, 1);
  assert.deepEqual(see().all("status"), ["in-use", "attached"]);
  assert.deepEqual(see().all("deleteOnTermination"), ["false"]);
  cloud.do("ModifyNetworkInterfaceAttribute", {
    [ENI]: id,
    "Attachment.AttachmentId": attachment,
    "Attachment.DeleteOnTermination": "true",
  });
  assert.deepEqual(see().all("deleteOnTermination"), ["true"]);
  assert.equal(
    cloud.refusal("DeleteNetworkInterface", { [ENI]: id }),
    "InvalidParameterValue",
  );
  cloud.do("DetachNetworkInterface", { AttachmentId: attachment });
  cloud.do("DeleteNetworkInterface", { [ENI]: id });
  assert.equal(freeIn(cloud), free);
  const gone = cloud.ask("DescribeNetworkInterfaces", { [`${ENI}.1`]: id });
  assert.deepEqual(
    gone.all("Message"),
    [`The networkInterface ID &apos;${id}&apos; does not exist`],
  );
});

Deno.test("EC2: five addresses of a subnet are AWS', and too few are refused whole", () => {
  const cloud = new TestCloud({ subnets: subnet("10.0.1.0/28") });
  assert.equal(freeIn(cloud), 16 - 5 - 1);
  const id = cloud.create({ [COUNT]: 8 });
  assert.equal(freeIn(cloud), 1);
  const assign = { [ENI]: id, [COUNT]: 2 };
  assert.equal(
    cloud.refusal("AssignPrivateIpAddresses", assign),
    "InsufficientFreeAddressesInSubnet",
  );
  assert.equal(
    cloud.refusal("CreateNetworkInterface", { SubnetId: SUBNET, [COUNT]: 1 }),
    "InsufficientFreeAddressesInSubnet",
  );
  assert.equal(freeIn(cloud), 1, "nothing was kept of what was refused");
  const answer = cloud.do("AssignPrivateIpAddresses", {
    [ENI]: id,
    [COUNT]: 1,
  });
  assert.deepEqual(answer.all("privateIpAddress"), ["10.0.1.14"]);
});

Deno.test("EC2: prefixes are aligned, and fragments are not given", () => {
  const cloud = new TestCloud({ subnets: subnet("10.0.1.0/26") });
  // The instance has 10.0.1.4, this ENI .5; .63 is AWS'.
  const id = cloud.create();
  const assign = (parameters: Record<string, string | number>) =>
    cloud.ask("AssignPrivateIpAddresses", { [ENI]: id, ...parameters });
  const two = assign({ Ipv4PrefixCount: 2 });
  assert.deepEqual(two.all("ipv4Prefix"), ["10.0.1.16/28", "10.0.1.32/28"]);
  assert.deepEqual(
    assign({ Ipv4PrefixCount: 1 }).all("Code"),
    ["InsufficientCidrBlocks"],
    "though 25 addresses are free",
  );
  assert.equal(freeIn(cloud), 25);
  cloud.do("UnassignPrivateIpAddresses", {
    [ENI]: id,
    "Ipv4Prefix.1": "10.0.1.16/28",
  });
  assert.equal(freeIn(cloud), 41);
  const again = assign({ "Ipv4Prefix.1": "10.0.1.16/28" });
  assert.deepEqual(again.all("ipv4Prefix"), ["10.0.1.16/28"]);
  assert.deepEqual(
    assign({ "Ipv4Prefix.1": "10.0.1.8/28" }).all("Code"),
    ["InvalidParameterValue"],
  );
});

Deno.test("EC2: an ENI has no more than its instance's type allows", () => {
  const cloud = new TestCloud();
  const [one = "", two = "", three = ""] = [1, 2, 3].map(() => cloud.create());
  cloud.attach(one, 1);
  const attach = (id: string, index: number) =>
    cloud.refusal("AttachNetworkInterface", {
      [ENI]: id,
      InstanceId: INSTANCE,
      DeviceIndex: index,
    });
  assert.equal(attach(one, 2), "InvalidNetworkInterface.InUse");
  assert.equal(attach(two, 1), "InvalidParameterValue", "index is taken");
  assert.equal(attach(two, 5), "", "indexes may have gaps");
  assert.equal(attach(three, 2), "AttachmentLimitExceeded");

  const assign = (parameters: Record<string, string | number>) =>
    cloud.refusal("AssignPrivateIpAddresses", { [ENI]: one, ...parameters });
  assert.equal(assign({ [COUNT]: 2 }), "");
  assert.equal(assign({ Ipv4PrefixCount: 1 }), "", "takes the place of one");
  assert.equal(assign({ [COUNT]: 1 }), "PrivateIpAddressLimitExceeded");
  assert.equal(assign({ Ipv4PrefixCount: 1 }), "PrivateIpAddressLimitExceeded");
});

Deno.test("EC2: a type without Nitro has no prefixes", () => {
  const place = { subnet: SUBNET, securityGroups: [] };
  const instances = [{ id: INSTANCE, type: "m4.4xlarge", ...place }];
  const cloud = new TestCloud({ instances });
  const id = cloud.create();
  cloud.attach(id, 1);
  const refused = cloud.refusal("AssignPrivateIpAddresses", {
    [ENI]: id,
    Ipv4PrefixCount: 1,
  });
  assert.equal(refused, "UnsupportedOperation");
});

Deno.test("EC2: IPv6 prefixes are /80s, each given once", () => {
  const cloud = new TestCloud();
  const assign = () =>
    cloud.do("AssignIpv6Addresses", {
      [ENI]: cloud.create(),
      Ipv6PrefixCount: 1,
    })
      .all("assignedIpv6PrefixSet");
  assert.deepEqual(assign(), ["<item>fd10:0:0:1:1::/80</item>"]);
  assert.deepEqual(assign(), ["<item>fd10:0:0:1:2::/80</item>"]);
});

Deno.test("EC2: a client token creates one ENI, for one kind of request", () => {
  const cloud = new TestCloud();
  const id = cloud.create({ ClientToken: "t" });
  assert.equal(cloud.create({ ClientToken: "t" }), id);
  assert.notEqual(cloud.create({ ClientToken: "u" }), id);
  const other = { SubnetId: SUBNET, ClientToken: "t", Description: "other" };
  assert.equal(
    cloud.refusal("CreateNetworkInterface", other),
    "IdempotentParameterMismatch",
  );
});

Deno.test("EC2: filters are joined by and, their values by or, with wildcards", () => {
  const cloud = new TestCloud();
  const tagged = (value: string) =>
    cloud.create({
      "TagSpecification.1.ResourceType": "network-interface",
      "TagSpecification.1.Tag.1.Key": "team",
      "TagSpecification.1.Tag.1.Value": value,
    });
  const [a = "", b = ""] = ["blue", "b*"].map(tagged);
  cloud.attach(a, 1);
  const found = (...filters: (readonly [string, ...string[]])[]) => {
    const parameters = filters.flatMap(([name, ...values], i) => [
      [`Filter.${i + 1}.Name`, name],
      ...values.map((it, j) => [`Filter.${i + 1}.Value.${j + 1}`, it]),
    ]);
    return cloud.do("DescribeNetworkInterfaces", Object.fromEntries(parameters))
      .all("networkInterfaceId").join();
  };
  assert.equal(found(["tag:team", "blue", "red"]), a);
  assert.equal(found(["tag:team", "b*"]), `${a},${b}`);
  assert.equal(found(["tag:team", "b\\*"]), b);
  assert.equal(found(["tag:team", "blu?"]), a);
  assert.equal(found(["tag:team", "lu"]), "", "the whole value");
  assert.equal(found(["tag-key", "team"], ["status", "available"]), b);
  assert.match(
    found(["attachment.instance-id", INSTANCE]),
    new RegExp(`,${a}$`),
  );
  assert.equal(
    cloud.refusal("DescribeNetworkInterfaces", {
      "Filter.1.Name": "colour",
      "Filter.1.Value.1": "x",
    }),
    "InvalidParameterValue",
  );
});

Deno.test("EC2: pages cover all ENIs, and a token must be EC2's", () => {
  const cloud = new TestCloud();
  for (let i = 0; i < 11; i++) cloud.create();
  assert.deepEqual(pages(cloud, 5), [5, 5, 2, 12]);
  assert.deepEqual(pages(cloud, 6), [6, 6, 12], "no empty page at the end");
  const refusal = (parameters: Record<string, string | number>) =>
    cloud.refusal("DescribeNetworkInterfaces", parameters);
  assert.equal(refusal({ NextToken: "made up" }), "InvalidPaginationToken");
  assert.equal(refusal({ MaxResults: 4 }), "InvalidParameterValue");
  assert.equal(
    refusal({ MaxResults: 5, [`${ENI}.1`]: cloud.create() }),
    "InvalidParameterCombination",
  );
});

Deno.test("EC2: requests that are not right are refused, and change nothing", () => {
  const cloud = new TestCloud();
  const id = cloud.create();
  const cases: readonly (readonly [string, Record<string, string>, string])[] =
    [
      ["RunInstances", {}, "InvalidAction"],
      ["CreateNetworkInterface", {}, "MissingParameter"],
      ["CreateNetworkInterface", { SubnetId: "x" }, "InvalidSubnetID.NotFound"],
      [
        "CreateNetworkInterface",
        { SubnetId: SUBNET, "SecurityGroupId.1": "x" },
        "InvalidGroup.NotFound",
      ],
      [
        "CreateNetworkInterface",
        { SubnetId: SUBNET, Subnet: "typo" },
        "UnknownParameter",
      ],
      [
        "CreateNetworkInterface",
        { SubnetId: SUBNET, [COUNT]: "1", Ipv4PrefixCount: "1" },
        "InvalidParameterCombination",
      ],
      [
        "CreateNetworkInterface",
        {
          SubnetId: SUBNET,
          "TagSpecification.1.ResourceType": "network-interface",
          "TagSpecification.1.Tag.1.Key": "aws:mine",
        },
        "InvalidParameterValue",
      ],
      [
        "AssignPrivateIpAddresses",
        { [ENI]: id },
        "InvalidParameterCombination",
      ],
      [
        "AssignPrivateIpAddresses",
        { [ENI]: id, [COUNT]: "-1" },
        "InvalidParameterValue",
      ],
      [
        "AssignPrivateIpAddresses",
        { [ENI]: id, "PrivateIpAddress.1": "10.0.1.4" },
        "InvalidIPAddress.InUse",
      ],
      [
        "UnassignPrivateIpAddresses",
        { [ENI]: id, "PrivateIpAddress.1": "10.0.1.5" },
        "InvalidParameterValue",
      ],
      [
        "AttachNetworkInterface",
        { [ENI]: id, InstanceId: "i-x", DeviceIndex: "1" },
        "InvalidInstanceID.NotFound",
      ],
      [
        "DetachNetworkInterface",
        { AttachmentId: "x" },
        "InvalidAttachmentID.NotFound",
      ],
      [
        "DetachNetworkInterface",
        { AttachmentId: "eni-attach-00000000000000002" },
        "OperationNotPermitted",
      ],
      [
        "CreateTags",
        { "ResourceId.1": "x", "Tag.1.Key": "a" },
        "InvalidNetworkInterfaceID.NotFound",
      ],
      [
        "DescribeInstanceTypes",
        { "InstanceType.1": "x" },
        "InvalidInstanceType",
      ],
    ];
  const before = cloud.account.enis();
  for (const [action, parameters, code] of cases) {
    assert.equal(cloud.refusal(action, parameters), code, code);
  }
  assert.equal(cloud.account.enis(), before);
});

Deno.test("EC2: tags are added, and groups replaced", () => {
  const cloud = new TestCloud();
  const id = cloud.create();
  const tag = (key: string, value: string) =>
    cloud.do("CreateTags", {
      "ResourceId.1": id,
      "Tag.1.Key": key,
      "Tag.1.Value": value,
    });
  tag("a", "1");
  tag("b", "2");
  tag("a", "3");
  cloud.do("ModifyNetworkInterfaceAttribute", {
    [ENI]: id,
    "SecurityGroupId.1": "sg-other",
  });
  const seen = cloud.do("DescribeNetworkInterfaces", { [`${ENI}.1`]: id });
  assert.deepEqual(seen.all("key"), ["a", "b"]);
  assert.deepEqual(seen.all("value"), ["3", "2"]);
  assert.deepEqual(seen.all("groupId"), ["sg-other"]);
});

Deno.test("EC2: the limits of types are described", () => {
  const cloud = new TestCloud();
  const types = cloud.do("DescribeInstanceTypes", {
    "InstanceType.1": "t3.small",
    "InstanceType.2": "m4.4xlarge",
  });
  assert.deepEqual(types.all("ipv4AddressesPerInterface"), ["4", "30"]);
  assert.deepEqual(types.all("hypervisor"), ["nitro", "xen"]);
});
