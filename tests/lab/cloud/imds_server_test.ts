import assert from "node:assert/strict";
import { TestCloud } from "./endpoint_testing.ts";
import { INSTANCE, ROLE_KEYS } from "./testing.ts";

const TTL = "x-aws-ec2-metadata-token-ttl-seconds";
const MACS = "network/interfaces/macs/";

/** A client of the metadata service, on an instance. */
class Client {
  readonly #cloud: TestCloud;
  #instanceId = INSTANCE;
  #token = "";

  constructor(cloud: TestCloud) {
    this.#cloud = cloud;
  }

  /** Goes to another instance, with its token. */
  moveTo(instanceId: string): void {
    this.#instanceId = instanceId;
  }

  send(
    method: string,
    path: string,
    headers: Record<string, string> = {},
  ): { readonly status: number; readonly body: string } {
    const { imds, account } = this.#cloud;
    const instance = account.instances.get(this.#instanceId);
    assert(instance);
    const request = { method, path, headers: new Headers(headers) };
    return imds.answer({ ...request, query: "", body: "", from: "" }, instance);
  }

  /** Gets a token, and its status. */
  renew(headers: Record<string, string> = { [TTL]: "60" }): number {
    const { status, body } = this.send("PUT", "/latest/api/token", headers);
    this.#token = body;
    return status;
  }

  get(path: string): { readonly status: number; readonly body: string } {
    const headers = { "x-aws-ec2-metadata-token": this.#token };
    return this.send("GET", `/latest/meta-data/${path}`, headers);
  }

  /** The document that says which instance it is. */
  identity(): Record<string, unknown> {
    const headers = { "x-aws-ec2-metadata-token": this.#token };
    const path = "/latest/dynamic/instance-identity/document";
    return JSON.parse(this.send("GET", path, headers).body);
  }

  text(path: string): string {
    const { status, body } = this.get(path);
    assert.equal(status, 200, path);
    return body;
  }
}

function clientOf(cloud: TestCloud): Client {
  const client = new Client(cloud);
  assert.equal(client.renew(), 200);
  return client;
}

Deno.test("IMDS: nothing is shown without a token that is valid", async () => {
  const cloud = new TestCloud();
  const client = new Client(cloud);
  assert.equal(client.get("mac").status, 401);
  for (const ttl of ["0", "21601", "x", ""]) {
    assert.equal(client.renew({ [TTL]: ttl }), 400, ttl);
  }
  assert.equal(client.renew({}), 400);
  assert.equal(
    client.renew({ [TTL]: "60", "x-forwarded-for": "1.2.3.4" }),
    403,
  );
  assert.equal(client.send("GET", "/latest/api/token").status, 405);
  assert.equal(client.renew(), 200);
  assert.equal(client.get("mac").status, 200);
  await cloud.clock.advance(59_999);
  assert.equal(client.get("mac").status, 200);
  await cloud.clock.advance(1);
  assert.equal(client.get("mac").status, 401);
  client.renew();
  cloud.imds.forgetTokens();
  assert.equal(client.get("mac").status, 401);
});

Deno.test("IMDS: a token is of one instance", () => {
  const place = { type: "t3.small", subnet: "subnet-a", securityGroups: [] };
  const instances = [{ id: INSTANCE, ...place }, { id: "i-other", ...place }];
  const client = clientOf(new TestCloud({ instances }));
  client.moveTo("i-other");
  assert.equal(client.get("mac").status, 401);
  client.renew();
  assert.equal(client.text("instance-id"), "i-other");
});

Deno.test("IMDS: an instance's keys", () => {
  const client = clientOf(new TestCloud());
  const values = {
    "instance-id": INSTANCE,
    "instance-type": "t3.small",
    "local-ipv4": "10.0.1.4",
    "mac": "0a:00:00:00:00:01",
    "placement/availability-zone": "eu-test-1a",
    "placement/region": "eu-test-1",
    "iam/security-credentials/": ROLE_KEYS.role,
  };
  for (const [path, value] of Object.entries(values)) {
    assert.equal(client.text(path), value, path);
  }
  const { instanceId, instanceType, region } = client.identity();
  assert.deepEqual(
    [instanceId, instanceType, region],
    [INSTANCE, "t3.small", "eu-test-1"],
  );
  const role = JSON.parse(client.text("iam/security-credentials/node"));
  assert.equal(role.AccessKeyId, ROLE_KEYS.accessKeyId);
  assert.equal(role.Token, ROLE_KEYS.sessionToken);
  assert(Date.parse(role.Expiration) > Date.now());
  for (const path of ["x", "mac/x", "toString", "iam/__proto__"]) {
    assert.equal(client.get(path).status, 404, path);
  }
});

Deno.test("IMDS: an ENI's keys, of which empty ones are not there", () => {
  const cloud = new TestCloud();
  const id = cloud.create({
    SecondaryPrivateIpAddressCount: 1,
    Ipv6PrefixCount: 1,
    "SecurityGroupId.1": "sg-nodes",
    "SecurityGroupId.2": "sg-other",
  });
  cloud.attach(id, 2);
  const client = clientOf(cloud);
  const [primary, mac] = client.text(MACS).split("\n");
  assert.equal(primary, `${client.text("mac")}/`);
  const at = `${MACS}${mac}`;
  const values = {
    "interface-id": id,
    "device-number": "2",
    "network-card": "0",
    "local-ipv4s": "10.0.1.5\n10.0.1.6",
    "ipv6-prefix": "fd10:0:0:1:1::/80",
    "security-group-ids": "sg-nodes\nsg-other",
    "subnet-id": "subnet-a",
    "subnet-ipv4-cidr-block": "10.0.1.0/24",
    "subnet-ipv6-cidr-blocks": "fd10:0:0:1::/64",
    "vpc-id": "vpc-1",
    "vpc-ipv4-cidr-blocks": "10.0.0.0/16\n100.64.0.0/16",
    "vpc-ipv6-cidr-blocks": "fd10::/56",
  };
  for (const [key, value] of Object.entries(values)) {
    assert.equal(client.text(at + key), value, key);
  }
  const keys = client.text(at).split("\n");
  for (const key of ["ipv4-prefix", "ipv6s"]) {
    assert.equal(client.get(at + key).status, 404, key);
    assert(!keys.includes(key), key);
  }
  cloud.do("AssignPrivateIpAddresses", {
    NetworkInterfaceId: id,
    Ipv4PrefixCount: 1,
  });
  assert.equal(client.text(`${at}ipv4-prefix`), "10.0.1.16/28");
  cloud.account.vpc = { ...cloud.account.vpc, cidrs: ["10.0.0.0/16"] };
  assert.equal(client.text(`${at}vpc-ipv4-cidr-blocks`), "10.0.0.0/16");
});

Deno.test("IMDS: it lags behind EC2, in both directions", async () => {
  const cloud = new TestCloud();
  cloud.account.pace = { ...cloud.account.pace, imdsLagMs: 120_000 };
  const client = clientOf(cloud);
  await cloud.clock.advance(1_000);
  const id = cloud.create();
  const attachment = cloud.attach(id, 1);
  const count = () => {
    client.renew();
    return client.text(MACS).split("\n").length;
  };
  await cloud.clock.advance(119_000);
  assert.equal(count(), 1, "attached and not shown");
  await cloud.clock.advance(1_000);
  assert.equal(count(), 2);
  cloud.do("DetachNetworkInterface", { AttachmentId: attachment });
  assert.equal(count(), 2, "detached and still shown");
  await cloud.clock.advance(120_000);
  assert.equal(count(), 1);
});

Deno.test("IMDS: a key fails, or has nothing to show, on request", () => {
  const cloud = new TestCloud();
  const client = clientOf(cloud);
  const call = `IMDS GET /latest/meta-data/${MACS}`;
  cloud.faults.add({ call, times: 1, kind: "error", code: "404" });
  cloud.faults.add({ call, times: 1, kind: "empty" });
  assert.equal(client.get(MACS).status, 404);
  assert.equal(client.text(MACS), "");
  assert.equal(client.text(MACS), "0a:00:00:00:00:01/");
});

Deno.test("IMDS: an instance is known by the addresses of its ENIs", () => {
  const cloud = new TestCloud();
  const id = cloud.create({ SecondaryPrivateIpAddressCount: 1 });
  assert.equal(cloud.imds.instanceAt("10.0.1.6"), undefined);
  cloud.attach(id, 1);
  assert.equal(cloud.imds.instanceAt("10.0.1.4")?.id, INSTANCE);
  assert.equal(cloud.imds.instanceAt("10.0.1.6")?.id, INSTANCE);
  assert.equal(cloud.imds.instanceAt("10.0.1.7"), undefined);
  const prefix = { NetworkInterfaceId: id, Ipv4PrefixCount: 1 };
  cloud.do("AssignPrivateIpAddresses", prefix);
  assert.equal(cloud.imds.instanceAt("10.0.1.20")?.id, INSTANCE);
});
