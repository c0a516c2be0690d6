import assert from "node:assert/strict";
import { CallBudget } from "../query/budget.ts";
import { Ec2Client } from "./client.ts";
import { AwsNoAnswerError } from "../base/errors.ts";
import { type Answering, ec2Refusal, LoopbackServer } from "../testing.ts";

interface Bed extends AsyncDisposable {
  readonly server: LoopbackServer;
  readonly client: Ec2Client;
}

function bed(answer: Answering, { maxAttempts = 1 } = {}): Bed {
  const server = new LoopbackServer(answer);
  const client = new Ec2Client({
    region: "eu-west-1",
    endpoint: server.url,
    budget: new CallBudget({ maxAttempts, random: () => 0.999 }),
  });
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A call's answer as EC2 writes it. */
function answerOf(call: string, inner: string): Response {
  return new Response(
    `<?xml version="1.0" encoding="UTF-8"?>\n<${call}Response ` +
      `xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">\n` +
      `  <requestId>r-1</requestId>\n${inner}\n</${call}Response>\n`,
    { headers: { "content-type": "text/xml;charset=UTF-8" } },
  );
}

const INTERFACE = `
  <networkInterfaceId>eni-1</networkInterfaceId>
  <subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId>
  <availabilityZone>eu-west-1a</availabilityZone>
  <description>aws-K8S-i-1</description><ownerId>1</ownerId>
  <requesterManaged>false</requesterManaged><status>in-use</status>
  <macAddress>02:00:00:00:00:01</macAddress>
  <privateIpAddress>10.0.1.10</privateIpAddress>
  <sourceDestCheck>true</sourceDestCheck>
  <groupSet>
    <item><groupId>sg-1</groupId><groupName>a</groupName></item>
    <item><groupId>sg-2</groupId><groupName>b</groupName></item>
  </groupSet>
  <attachment>
    <attachmentId>eni-attach-1</attachmentId><instanceId>i-1</instanceId>
    <deviceIndex>1</deviceIndex><networkCardIndex>0</networkCardIndex>
    <status>attached</status><deleteOnTermination>true</deleteOnTermination>
  </attachment>
  <tagSet>
    <item><key>Name</key><value>a &amp; b</value></item>
    <item><key>empty</key><value/></item>
  </tagSet>
  <privateIpAddressesSet>
    <item><privateIpAddress>10.0.1.11</privateIpAddress><primary>false</primary></item>
    <item><privateIpAddress>10.0.1.10</privateIpAddress><primary>true</primary></item>
  </privateIpAddressesSet>
  <ipv4PrefixSet><item><ipv4Prefix>10.0.1.32/28</ipv4Prefix></item></ipv4PrefixSet>
  <ipv6AddressesSet><item><ipv6Address>2001:db8::1</ipv6Address></item></ipv6AddressesSet>
  <ipv6PrefixSet><item><ipv6Prefix>2001:db8:0:0:1::/80</ipv6Prefix></item></ipv6PrefixSet>
  <interfaceType>interface</interfaceType>`;
const READ_INTERFACE = {
  networkInterfaceId: "eni-1",
  subnetId: "subnet-1",
  vpcId: "vpc-1",
  availabilityZone: "eu-west-1a",
  macAddress: "02:00:00:00:00:01",
  status: "in-use",
  description: "aws-K8S-i-1",
  primaryAddress: "10.0.1.10",
  secondaryAddresses: ["10.0.1.11"],
  ipv4Prefixes: ["10.0.1.32/28"],
  ipv6Addresses: ["2001:db8::1"],
  ipv6Prefixes: ["2001:db8:0:0:1::/80"],
  groups: ["sg-1", "sg-2"],
  tags: { Name: "a & b", empty: "" },
  attachment: {
    attachmentId: "eni-attach-1",
    instanceId: "i-1",
    deviceIndex: 1,
    networkCardIndex: 0,
    status: "attached",
    deleteOnTermination: true,
  },
};
const CREATE = {
  clientToken: "token-1",
  subnetId: "subnet-1",
  groups: ["sg-1", "sg-2"],
  description: "aws-K8S-i-1",
  tags: { a: "1", b: "2" },
};
const CREATED =
  `<networkInterface>${INTERFACE}</networkInterface><clientToken>token-1</clientToken>`;
const CREATE_FORM = {
  ClientToken: "token-1",
  SubnetId: "subnet-1",
  "SecurityGroupId.1": "sg-1",
  "SecurityGroupId.2": "sg-2",
  Description: "aws-K8S-i-1",
  "TagSpecification.1.ResourceType": "network-interface",
  "TagSpecification.1.Tag.1.Key": "a",
  "TagSpecification.1.Tag.1.Value": "1",
  "TagSpecification.1.Tag.2.Key": "b",
  "TagSpecification.1.Tag.2.Value": "2",
};
const DONE = "<return>true</return>";

interface Case {
  readonly call: string;
  readonly make: (client: Ec2Client) => Promise<unknown>;
  readonly form: Readonly<Record<string, string>>;
  readonly answer: string;
  /** As JSON, in which addresses are texts. */
  readonly result?: unknown;
}

const CASES: readonly Case[] = [
  {
    call: "DescribeNetworkInterfaces",
    make: (client) =>
      client.describeNetworkInterfaces({
        "attachment.instance-id": ["i-1"],
        status: ["a", "b"],
      }),
    form: {
      MaxResults: "1000",
      "Filter.1.Name": "attachment.instance-id",
      "Filter.1.Value.1": "i-1",
      "Filter.2.Name": "status",
      "Filter.2.Value.1": "a",
      "Filter.2.Value.2": "b",
    },
    answer:
      `<networkInterfaceSet><item>${INTERFACE}</item></networkInterfaceSet>`,
    result: [READ_INTERFACE],
  },
  {
    call: "DescribeInstanceTypes",
    make: (client) => client.describeInstanceType("p4d.24xlarge"),
    form: { "InstanceType.1": "p4d.24xlarge" },
    answer: `<instanceTypeSet><item>
      <instanceType>p4d.24xlarge</instanceType><bareMetal>false</bareMetal>
      <hypervisor>nitro</hypervisor><networkInfo>
      <maximumNetworkInterfaces>60</maximumNetworkInterfaces>
      <maximumNetworkCards>4</maximumNetworkCards><networkCards>
      <item><networkCardIndex>1</networkCardIndex><maximumNetworkInterfaces>14</maximumNetworkInterfaces></item>
      <item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>15</maximumNetworkInterfaces></item>
      </networkCards><ipv4AddressesPerInterface>50</ipv4AddressesPerInterface>
      <ipv6AddressesPerInterface>49</ipv6AddressesPerInterface>
      </networkInfo></item></instanceTypeSet>`,
    result: {
      instanceType: "p4d.24xlarge",
      maxInterfaces: 15,
      ipv4PerInterface: 50,
      ipv6PerInterface: 49,
      hypervisor: "nitro",
      isBareMetal: false,
    },
  },
  {
    call: "CreateNetworkInterface",
    make: (client) =>
      client.createNetworkInterface({
        ...CREATE,
        prefixes: 2,
        ipv6Prefixes: 1,
      }),
    form: { ...CREATE_FORM, Ipv4PrefixCount: "2", Ipv6PrefixCount: "1" },
    answer: CREATED,
    result: READ_INTERFACE,
  },
  {
    call: "CreateNetworkInterface",
    make: (client) =>
      client.createNetworkInterface({
        ...CREATE,
        addresses: 3,
        ipv6Addresses: 1,
      }),
    form: {
      ...CREATE_FORM,
      SecondaryPrivateIpAddressCount: "3",
      Ipv6AddressCount: "1",
    },
    answer: CREATED,
    result: READ_INTERFACE,
  },
  {
    call: "AttachNetworkInterface",
    make: (client) =>
      client.attachNetworkInterface({
        networkInterfaceId: "eni-1",
        instanceId: "i-1",
        deviceIndex: 2,
      }),
    form: {
      NetworkInterfaceId: "eni-1",
      InstanceId: "i-1",
      DeviceIndex: "2",
      NetworkCardIndex: "0",
    },
    answer: "<attachmentId>eni-attach-1</attachmentId>",
    result: "eni-attach-1",
  },
  {
    call: "DetachNetworkInterface",
    make: (client) => client.detachNetworkInterface("eni-attach-1"),
    form: { AttachmentId: "eni-attach-1" },
    answer: DONE,
  },
  {
    call: "DeleteNetworkInterface",
    make: (client) => client.deleteNetworkInterface("eni-1"),
    form: { NetworkInterfaceId: "eni-1" },
    answer: DONE,
  },
  {
    call: "AssignPrivateIpAddresses",
    make: (client) =>
      client.assignPrivateIpAddresses("eni-1", { addresses: 2 }),
    form: { NetworkInterfaceId: "eni-1", SecondaryPrivateIpAddressCount: "2" },
    answer: `<networkInterfaceId>eni-1</networkInterfaceId>
      <assignedPrivateIpAddressesSet>
      <item><privateIpAddress>10.0.1.12</privateIpAddress></item>
      <item><privateIpAddress>10.0.1.13</privateIpAddress></item>
      </assignedPrivateIpAddressesSet>${DONE}`,
    result: { addresses: ["10.0.1.12", "10.0.1.13"], prefixes: [] },
  },
  {
    call: "AssignPrivateIpAddresses",
    make: (client) => client.assignPrivateIpAddresses("eni-1", { prefixes: 1 }),
    form: { NetworkInterfaceId: "eni-1", Ipv4PrefixCount: "1" },
    answer: `<assignedIpv4PrefixSet>
      <item><ipv4Prefix>10.0.1.48/28</ipv4Prefix></item>
      </assignedIpv4PrefixSet>${DONE}`,
    result: { addresses: [], prefixes: ["10.0.1.48/28"] },
  },
  {
    call: "UnassignPrivateIpAddresses",
    make: async (client) => {
      const { addresses, prefixes } = await grant();
      await client.unassignPrivateIpAddresses("eni-1", { addresses, prefixes });
    },
    form: {
      NetworkInterfaceId: "eni-1",
      "PrivateIpAddress.1": "10.0.1.12",
      "Ipv4Prefix.1": "10.0.1.48/28",
    },
    answer: DONE,
  },
  {
    call: "AssignIpv6Addresses",
    make: (client) => client.assignIpv6Prefixes("eni-1", 1),
    form: { NetworkInterfaceId: "eni-1", Ipv6PrefixCount: "1" },
    answer: `<networkInterfaceId>eni-1</networkInterfaceId>
      <assignedIpv6PrefixSet><item>2001:db8::1:0:0:0/80</item></assignedIpv6PrefixSet>`,
    result: ["2001:db8:0:0:1::/80"],
  },
  {
    call: "ModifyNetworkInterfaceAttribute",
    make: (client) =>
      client.deleteOnTermination({
        networkInterfaceId: "eni-1",
        attachmentId: "eni-attach-1",
      }),
    form: {
      NetworkInterfaceId: "eni-1",
      "Attachment.AttachmentId": "eni-attach-1",
      "Attachment.DeleteOnTermination": "true",
    },
    answer: DONE,
  },
];

/** An address and a prefix, as a client reads them. */
async function grant(): ReturnType<Ec2Client["assignPrivateIpAddresses"]> {
  await using on = bed(() =>
    answerOf(
      "AssignPrivateIpAddresses",
      `<assignedPrivateIpAddressesSet><item><privateIpAddress>10.0.1.12</privateIpAddress></item></assignedPrivateIpAddressesSet>
       <assignedIpv4PrefixSet><item><ipv4Prefix>10.0.1.48/28</ipv4Prefix></item></assignedIpv4PrefixSet>`,
    )
  );
  return await on.client.assignPrivateIpAddresses("eni-1", { addresses: 1 });
}

CASES.forEach(({ call, make, form, answer, result }, i) => {
  Deno.test(`${call} is sent and its answer read (${i + 1})`, async () => {
    await using on = bed(() => answerOf(call, answer));
    const made = await make(on.client);
    assert.deepEqual(
      made === undefined ? undefined : JSON.parse(JSON.stringify(made)),
      result,
    );
    assert.deepEqual(on.server.forms, [
      { Action: call, Version: "2016-11-15", ...form },
    ]);
  });
});

Deno.test("all pages are read, each with the token of the one before", async () => {
  await using on = bed((_, page) =>
    answerOf(
      "DescribeNetworkInterfaces",
      `<networkInterfaceSet><item>${
        INTERFACE.replace(">eni-1<", `>eni-${page}<`)
      }</item></networkInterfaceSet>` +
        (page < 3 ? `<nextToken>after-${page}</nextToken>` : "<nextToken/>"),
    )
  );
  const enis = await on.client.describeNetworkInterfaces({});
  assert.deepEqual(
    enis.map(({ networkInterfaceId }) => networkInterfaceId),
    ["eni-1", "eni-2", "eni-3"],
  );
  assert.deepEqual(
    on.server.forms.map((form) => form["NextToken"]),
    [undefined, "after-1", "after-2"],
  );
});

Deno.test("pages that do not end are an error", async () => {
  await using server = new LoopbackServer(() =>
    answerOf("DescribeNetworkInterfaces", "<nextToken>same</nextToken>")
  );
  const rate = { burst: 1_000, perSecond: 1 };
  using client = new Ec2Client({
    region: "eu-west-1",
    endpoint: server.url,
    budget: new CallBudget({ rates: { read: rate, change: rate } }),
  });
  await assert.rejects(
    client.describeNetworkInterfaces({}),
    /more than 100 pages/,
  );
  assert.equal(server.seen.length, 100);
});

Deno.test("an interface that is not whole is an error that names what is missing", async () => {
  const broken: readonly [RegExp, string, RegExp][] = [
    [/<macAddress>.*\n/, "", /"macAddress" of "item" is missing/],
    [/<deviceIndex>1/, "<deviceIndex>-1", /"deviceIndex" of "attachment" is/],
    [/10\.0\.1\.11/, "10.0.1.256", /"10\.0\.1\.256" is not an address/],
    [/10\.0\.1\.32\/28/, "10.0.1.32/33", /"10\.0\.1\.32\/33" is not a prefix/],
  ];
  for (const [part, other, why] of broken) {
    await using on = bed(() =>
      answerOf(
        "DescribeNetworkInterfaces",
        `<networkInterfaceSet><item>${
          INTERFACE.replace(part, other)
        }</item></networkInterfaceSet>`,
      )
    );
    await assert.rejects(
      on.client.describeNetworkInterfaces({}),
      (error) => error instanceof AwsNoAnswerError && why.test(error.message),
    );
  }
});

Deno.test("an interface that is attached nowhere has no attachment", async () => {
  const free = INTERFACE.replace(/<attachment>[^]*<\/attachment>/, "");
  await using on = bed(() =>
    answerOf(
      "DescribeNetworkInterfaces",
      `<networkInterfaceSet><item>${free}</item></networkInterfaceSet>`,
    )
  );
  const [read] = await on.client.describeNetworkInterfaces({});
  assert.equal(read?.attachment, undefined);
});

Deno.test("an attachment is at the network card that is named, else at the first", async () => {
  const card = /<networkCardIndex>0<\/networkCardIndex>/;
  const items = ["", "<networkCardIndex>1</networkCardIndex>"]
    .map((text) => `<item>${INTERFACE.replace(card, text)}</item>`);
  await using on = bed(() =>
    answerOf(
      "DescribeNetworkInterfaces",
      `<networkInterfaceSet>${items.join("")}</networkInterfaceSet>`,
    )
  );
  const read = await on.client.describeNetworkInterfaces({});
  assert.deepEqual(
    read.map(({ attachment }) => attachment?.networkCardIndex),
    [0, 1],
  );
});

/** Whether a call is made again when its answer was lost. */
const LOST: readonly [string, Case["make"], boolean][] = [
  [
    "DescribeNetworkInterfaces",
    (client) => client.describeNetworkInterfaces({}),
    true,
  ],
  [
    "CreateNetworkInterface",
    (client) => client.createNetworkInterface(CREATE),
    true,
  ],
  [
    "AssignPrivateIpAddresses",
    (client) => client.assignPrivateIpAddresses("eni-1", { addresses: 2 }),
    false,
  ],
  [
    "AssignIpv6Addresses",
    (client) => client.assignIpv6Prefixes("eni-1", 1),
    false,
  ],
];
for (const [call, make, isAgain] of LOST) {
  const what = isAgain ? "is made again" : "is not made again";
  Deno.test(`${call} ${what} when EC2 failed`, async () => {
    await using on = bed(() => ec2Refusal("InternalError", 500), {
      maxAttempts: 2,
    });
    await assert.rejects(make(on.client), /InternalError/);
    assert.equal(on.server.seen.length, isAgain ? 2 : 1);
  });
}
