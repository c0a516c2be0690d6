// The process as a whole: what only sockets and signatures show.
import assert from "node:assert/strict";
import { awaitedLater } from "../wait.ts";
import { Cloud } from "./mod.ts";
import {
  callEc2,
  cloudConfig,
  formOf,
  INSTANCE,
  KEYS,
  ROLE_KEYS,
} from "./testing.ts";

const DESCRIBE = formOf("DescribeNetworkInterfaces");

async function getMetadata(
  url: string,
  path: string,
): Promise<{ status: number; text: string }> {
  const put = await fetch(`${url}/latest/api/token`, {
    method: "PUT",
    headers: { "x-aws-ec2-metadata-token-ttl-seconds": "60" },
  });
  const response = await fetch(`${url}/latest/meta-data/${path}`, {
    headers: { "x-aws-ec2-metadata-token": await put.text() },
  });
  return { status: response.status, text: await response.text() };
}

Deno.test("cloud: a process answers signed calls and metadata, and records both", async () => {
  await using cloud = await Cloud.start(cloudConfig());
  const { ec2, imds } = cloud.endpoints;
  const described = await callEc2(ec2, DESCRIBE, { credentials: ROLE_KEYS });
  assert.equal(described.status, 200, described.xml);
  assert.deepEqual(described.all("instanceId"), [INSTANCE]);
  const url = imds[INSTANCE] ?? "";
  const { text } = await getMetadata(url, "local-ipv4");
  assert.deepEqual(described.all("privateIpAddress"), [text, text]);
  const calls = await cloud.ask.calls(0);
  assert.deepEqual(
    calls.map(({ call, caller, status }) => [call, caller, status]),
    [
      ["DescribeNetworkInterfaces", ROLE_KEYS.accessKeyId, 200],
      ["IMDS PUT /latest/api/token", INSTANCE, 200],
      ["IMDS GET /latest/meta-data/local-ipv4", INSTANCE, 200],
    ],
  );
  assert.deepEqual(await cloud.ask.calls(2), calls.slice(2));
});

Deno.test("cloud: its control socket is its owner's alone", async () => {
  await using cloud = await Cloud.start(cloudConfig());
  const { mode } = await Deno.stat(cloud.socket);
  assert.equal((mode ?? 0) & 0o777, 0o600);
});

Deno.test("cloud: faults that only a connection shows", async () => {
  await using cloud = await Cloud.start(cloudConfig());
  const { ec2 } = cloud.endpoints;
  const create = formOf("CreateNetworkInterface", { SubnetId: "subnet-a" });
  const enis = async () =>
    (await callEc2(ec2, DESCRIBE)).all("macAddress").length;
  const call = "CreateNetworkInterface";
  const times = 1;

  await cloud.ask.fault({ call, times, kind: "cut", when: "before" });
  await assert.rejects(callEc2(ec2, create));
  assert.equal(await enis(), 1, "no change before the cut");

  await cloud.ask.fault({ call, times, kind: "cut", when: "after" });
  await assert.rejects(callEc2(ec2, create));
  assert.equal(await enis(), 2, "the change is made, the answer lost");

  await cloud.ask.fault({ call, times, kind: "half" });
  await assert.rejects(callEc2(ec2, create));
  assert.equal(await enis(), 3);

  await cloud.ask.fault({ call, times, kind: "late" });
  let isAnswered = false;
  const late = callEc2(ec2, create).finally(() => isAnswered = true);
  while (await enis() < 4);
  assert.ok(!isAnswered, "the change is seen before the answer");
  await cloud.ask.clearFaults();
  assert.equal((await late).status, 200);

  assert.equal((await callEc2(ec2, create)).status, 200, "each fault was once");
  const faults = (await cloud.ask.calls(0)).flatMap(({ fault }) => fault ?? []);
  assert.deepEqual(faults, ["cut", "cut", "half", "late"]);
});

Deno.test("cloud: EC2 can be slow to answer, the metadata service is not", async () => {
  let slow: Promise<unknown>;
  {
    await using cloud = await Cloud.start(cloudConfig());
    const { ec2, imds } = cloud.endpoints;
    await cloud.ask.setPace({ answerMs: 3_600_000 });
    slow = awaitedLater(callEc2(ec2, DESCRIBE));
    while ((await cloud.ask.calls(0)).length === 0);
    assert.equal((await getMetadata(imds[INSTANCE] ?? "", "mac")).status, 200);
  }
  await assert.rejects(slow, "it has not been answered");
});

Deno.test("cloud: credentials can be replaced while it runs", async () => {
  await using cloud = await Cloud.start(cloudConfig());
  const { ec2 } = cloud.endpoints;
  await cloud.ask.setCredentials([{ ...KEYS, accessKeyId: "AKIANEW" }]);
  const before = await callEc2(ec2, DESCRIBE);
  assert.deepEqual([before.status, before.all("Code")], [401, ["AuthFailure"]]);
  const credentials = { ...KEYS, accessKeyId: "AKIANEW" };
  const after = await callEc2(ec2, DESCRIBE, { credentials });
  assert.equal(after.status, 200);
});
