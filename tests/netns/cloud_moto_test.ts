// Our reading of EC2, checked by another one: coild's client asks moto and the
// lab's cloud for the same, and gets the same. Left out is what moto does not do:
// prefixes, limits, pages, DeleteOnTermination, and the answer to
// AssignPrivateIpAddresses, which has all addresses there, the ENI's own too.
import assert from "node:assert/strict";
import {
  AwsError,
  CallBudget,
  credentialSourceOf,
  Ec2Client,
  ImdsClient,
  type NetworkInterface,
} from "../../lib/aws/mod.ts";
import { Prefix } from "../../lib/inet/mod.ts";
import { Cloud } from "../lab/cloud/mod.ts";
import {
  callEc2,
  cloudConfig,
  formOf,
  GROUP,
  INSTANCE,
  SUBNET,
} from "../lab/cloud/testing.ts";
import { Moto } from "../lab/moto/moto.ts";

const REGION = "eu-test-1";
const TYPE = "t3.small";
const KEYS = { accessKeyId: "AKIAMOTO", secretAccessKey: "secret" };

/** Where an account's calls go, and what it has. */
interface Site {
  readonly url: string;
  readonly region: string;
  readonly subnet: string;
  readonly group: string;
  readonly instance: string;
}

/** An instance in moto, as the lab's cloud has one from its configuration. */
async function fill(url: string): Promise<Site> {
  const region = "eu-west-1";
  const ask = async (
    [action, name]: readonly [string, string],
    parameters: Readonly<Record<string, string | number>>,
  ) => {
    const form = formOf(action, parameters);
    const { status, xml, all } = await callEc2(url, form, {
      region,
      credentials: KEYS,
    });
    assert.equal(status, 200, xml);
    return all(name)[0] ?? "";
  };
  const vpc = await ask(["CreateVpc", "vpcId"], { CidrBlock: "10.0.0.0/16" });
  const subnet = await ask(["CreateSubnet", "subnetId"], {
    VpcId: vpc,
    CidrBlock: "10.0.1.0/24",
  });
  const group = await ask(["CreateSecurityGroup", "groupId"], {
    VpcId: vpc,
    GroupName: "nodes",
    GroupDescription: "nodes",
  });
  const instance = await ask(["RunInstances", "instanceId"], {
    ImageId: "ami-12c6146b",
    MinCount: 1,
    MaxCount: 1,
    InstanceType: TYPE,
    SubnetId: subnet,
    "SecurityGroupId.1": group,
  });
  return { url, region, subnet, group, instance };
}

function clientOf({ url, region }: Site): Ec2Client {
  const keys: Readonly<Record<string, string>> = {
    AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
  };
  const env = { get: (name: string) => keys[name] };
  using imds = new ImdsClient({ env });
  return new Ec2Client({
    region,
    endpoint: url,
    credentials: credentialSourceOf({ env, region, imds }),
    budget: new CallBudget(),
  });
}

/** What an ENI is, with the names of the site's own objects instead of their IDs. */
function shown(eni: NetworkInterface, { subnet, group, instance }: Site) {
  const { attachment, primaryAddress, secondaryAddresses } = eni;
  const cidr = Prefix.parse("10.0.1.0/24");
  const isOurs = (address: typeof primaryAddress) =>
    address !== undefined && cidr.contains(address);
  return {
    isInSubnet: eni.subnetId === subnet,
    groups: eni.groups.map((id) => id === group),
    status: eni.status,
    description: eni.description,
    tags: eni.tags,
    hasMac: /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/.test(eni.macAddress),
    hasOwn: isOurs(primaryAddress),
    secondary: secondaryAddresses.map(isOurs),
    prefixes: eni.ipv4Prefixes,
    attachment: attachment && {
      isOfInstance: attachment.instanceId === instance,
      device: attachment.deviceIndex,
      card: attachment.networkCardIndex,
      status: attachment.status,
    },
  };
}

/** An ENI from its creation to its end, and calls that are refused; what was seen at each step. */
async function live(site: Site): Promise<Record<string, unknown>> {
  using ec2 = clientOf(site);
  const tags = { "node.k8s.amazonaws.com/instance_id": site.instance };
  const type = await ec2.describeInstanceType(TYPE);
  const made = await ec2.createNetworkInterface({
    clientToken: crypto.randomUUID(),
    subnetId: site.subnet,
    groups: [site.group],
    description: "aws-K8S-node",
    tags,
    addresses: 2,
  });
  const id = made.networkInterfaceId;
  const filters = { "tag:node.k8s.amazonaws.com/instance_id": [site.instance] };
  const list = async (more: Readonly<Record<string, string[]>> = {}) =>
    (await ec2.describeNetworkInterfaces({ ...filters, ...more }))
      .map((eni) => shown({ ...eni, tags: {} }, site));
  const loose = await list({ status: ["available"] });
  const attachment = await ec2.attachNetworkInterface({
    networkInterfaceId: id,
    instanceId: site.instance,
    deviceIndex: 1,
  });
  const attached = await list();
  await ec2.assignPrivateIpAddresses(id, { addresses: 1 });
  const [assigned] = await ec2.describeNetworkInterfaces(filters);
  const [one] = assigned?.secondaryAddresses ?? [];
  assert.ok(one);
  await ec2.unassignPrivateIpAddresses(id, { addresses: [one] });
  const [unassigned] = await ec2.describeNetworkInterfaces(filters);
  await ec2.deleteOnTermination({
    networkInterfaceId: id,
    attachmentId: attachment,
  });
  await ec2.detachNetworkInterface(attachment);
  const detached = await list({ status: ["available"] });
  await ec2.deleteNetworkInterface(id);
  const request = { networkInterfaceId: id, instanceId: site.instance };
  return {
    type,
    made: shown({ ...made, tags: {} }, site),
    tags: made.tags["node.k8s.amazonaws.com/instance_id"] === site.instance,
    loose,
    attachment: /^eni-attach-[0-9a-f]+$/.test(attachment),
    attached,
    assigned: assigned?.secondaryAddresses.length,
    unassigned: unassigned?.secondaryAddresses.map(String).includes(`${one}`),
    detached,
    left: await list(),
    refused: [
      await refusal(ec2.deleteNetworkInterface(id)),
      await refusal(ec2.assignPrivateIpAddresses(id, { addresses: 1 })),
      await refusal(ec2.attachNetworkInterface({ ...request, deviceIndex: 1 })),
      await refusal(ec2.detachNetworkInterface(attachment)),
      await refusal(ec2.describeInstanceType("t3.tiny")),
    ],
  };
}

async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(() => undefined, (error) => error);
  assert.ok(error instanceof AwsError, `${error}`);
  return `${error.call} ${error.status} ${error.code}`;
}

Deno.test("moto and the lab's cloud answer coild's calls alike", async () => {
  await using moto = await Moto.start();
  await using cloud = await Cloud.start(cloudConfig({ credentials: [KEYS] }));
  const ours = await live({
    url: cloud.endpoints.ec2,
    region: REGION,
    subnet: SUBNET,
    group: GROUP,
    instance: INSTANCE,
  });
  const theirs = await live(await fill(moto.url));
  assert.deepEqual(ours, theirs);
  // Not just alike.
  const { type, attached, assigned, left, refused } = theirs;
  assert.deepEqual(type, {
    instanceType: TYPE,
    maxInterfaces: 3,
    ipv4PerInterface: 4,
    ipv6PerInterface: 4,
    hypervisor: "nitro",
    isBareMetal: false,
  });
  const [eni] = attached as ReturnType<typeof shown>[];
  assert.deepEqual(eni, {
    isInSubnet: true,
    groups: [true],
    status: "in-use",
    description: "aws-K8S-node",
    tags: {},
    hasMac: true,
    hasOwn: true,
    secondary: [true, true],
    prefixes: [],
    attachment: {
      isOfInstance: true,
      device: 1,
      card: 0,
      status: "attached",
    },
  });
  assert.deepEqual([assigned, left], [3, []]);
  assert.deepEqual(refused, [
    "DeleteNetworkInterface 400 InvalidNetworkInterfaceID.NotFound",
    "AssignPrivateIpAddresses 400 InvalidNetworkInterfaceID.NotFound",
    "AttachNetworkInterface 400 InvalidNetworkInterfaceID.NotFound",
    "DetachNetworkInterface 400 InvalidAttachmentID.NotFound",
    "DescribeInstanceTypes 400 InvalidInstanceType",
  ]);
});
