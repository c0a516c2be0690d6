import assert from "node:assert/strict";
import { AwsNoAnswerError, ImdsClient } from "../../../lib/aws/mod.ts";
import { LoopbackServer } from "../../../lib/aws/testing.ts";
import type { Family } from "../../../lib/inet/mod.ts";
import { MetadataSight, readInstance } from "./sight.ts";

const MACS = "meta-data/network/interfaces/macs/";
const { signal } = new AbortController();

/** A metadata service with these keys; what it was asked for, without tokens. */
function service(keys: Readonly<Record<string, string>>) {
  const server = new LoopbackServer(({ method, path }) => {
    if (method === "PUT") return new Response("token");
    const text = keys[path.replace("/latest/", "")];
    return new Response(text ?? "", { status: text === undefined ? 404 : 200 });
  });
  const env = {
    get: (name: string) =>
      name === "AWS_EC2_METADATA_SERVICE_ENDPOINT" ? server.url : undefined,
  };
  return {
    imds: new ImdsClient({ env, timeoutMs: 60_000 }),
    asked: () =>
      server.seen.filter(({ method }) => method === "GET")
        .map(({ path }) => path.replace("/latest/", "")),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const DOCUMENT = "dynamic/instance-identity/document";

Deno.test("readInstance() takes one request", async () => {
  await using it = service({
    [DOCUMENT]: JSON.stringify({
      instanceId: "i-1",
      instanceType: "t3.small",
      region: "xx-1",
      version: "2017-09-30",
    }),
  });
  using imds = it.imds;
  assert.deepEqual(await readInstance(imds, { signal }), {
    id: "i-1",
    type: "t3.small",
    region: "xx-1",
  });
  assert.deepEqual(it.asked(), [DOCUMENT]);
});

for (
  const [what, text] of [
    ["no JSON", "{"],
    ["no object", "1"],
    ["no type", '{"instanceId":"i-1","region":"xx-1"}'],
    ["no ID", '{"instanceId":"","instanceType":"t3.small","region":"xx-1"}'],
    ["no region", '{"instanceId":"i-1","instanceType":"a","region":{}}'],
  ] as const
) {
  Deno.test(`readInstance() refuses a document with ${what}`, async () => {
    await using it = service({ [DOCUMENT]: text });
    using imds = it.imds;
    await assert.rejects(readInstance(imds, { signal }), AwsNoAnswerError);
  });
}

/** An ENI's keys. */
function eni(
  device: number,
  address: string,
  subnet: string,
): [string, Record<string, string>] {
  return [`0a:00:00:00:00:0${device}`, {
    "interface-id": `eni-${device}`,
    "device-number": `${device}`,
    "local-ipv4s": `${address}\n10.0.1.1${device}`,
    "subnet-ipv4-cidr-block": subnet,
    "ipv6s": `fd10::1${device}`,
    "ipv6-prefix": `fd10:0:0:0:${device}::/80`,
    "subnet-ipv6-cidr-blocks": "fd10::/64",
    "vpc-ipv4-cidr-blocks": "10.0.0.0/16",
  }];
}

const ENIS = [
  eni(0, "10.0.1.4", "10.0.1.0/24"),
  eni(1, "10.0.1.5", "10.0.1.0/24"),
  eni(2, "10.0.2.4", "10.0.2.0/24"),
];

async function look(families: readonly Family[], all = ENIS) {
  const enis = Object.fromEntries(all);
  const keys = Object.entries(enis).flatMap(([mac, keys]) =>
    Object.entries(keys).map(([key, text]) => [`${MACS}${mac}/${key}`, text])
  );
  await using it = service({
    [MACS]: Object.keys(enis).map((mac) => `${mac}/`).join("\n"),
    ...Object.fromEntries(keys),
  });
  using imds = it.imds;
  const sights = new MetadataSight(imds, families);
  const sight = await sights.look({ signal });
  const first = it.asked();
  await sights.look({ signal });
  return { sight, first, again: it.asked().slice(first.length) };
}

Deno.test("MetadataSight asks for the subnet of an ENI, and not of others in it", async () => {
  const { sight, first, again } = await look(["ipv4"]);
  const subnets = [0, 1, 2].map((n) =>
    `${sight.facts.get(`eni-${n}`)?.subnets.ipv4}`
  );
  assert.deepEqual(subnets, ["10.0.1.0/24", "10.0.1.0/24", "10.0.2.0/24"]);
  // The list, the VPC's networks, and for each ENI its ID, device, addresses and prefixes; two subnets.
  assert.equal(first.length, 2 + 3 * 4 + 2);
  // Only what can change: addresses and prefixes.
  assert.equal(again.length, 2 + 3 * 2);
});

Deno.test("MetadataSight knows both families of an ENI and its subnet", async () => {
  const { sight } = await look(["ipv4", "ipv6"]);
  for (const n of [0, 1, 2]) {
    const { addresses, subnets } = sight.facts.get(`eni-${n}`) ?? {};
    assert.equal(`${addresses?.ipv6}`, `fd10::1${n}`);
    assert.equal(`${subnets?.ipv6}`, "fd10::/64");
    assert.equal(sight.enis[n]?.subnet, subnets?.ipv4);
  }
});

Deno.test("MetadataSight shows an ENI without IPv4, for EFA alone, and asks nothing more of it", async () => {
  const [first, [mac, keys], last] = ENIS.map(([mac, keys]) =>
    [mac, { ...keys }] as [string, Record<string, string>]
  ) as [typeof ENIS[0], typeof ENIS[0], typeof ENIS[0]];
  for (const key of Object.keys(keys)) {
    if (!["interface-id", "device-number"].includes(key)) delete keys[key];
  }
  const { sight, again } = await look(["ipv4"], [first, [mac, keys], last]);
  assert.deepEqual(sight.enis[1], {
    id: "eni-1",
    device: 1,
    subnet: undefined,
    blocks: [],
    ipv6: undefined,
  });
  assert.deepEqual([...sight.facts.keys()], ["eni-0", "eni-2"]);
  // It may get an address yet.
  assert.equal(again.length, 2 + 2 * 2 + 4);
});

Deno.test("MetadataSight does not believe that two ENIs have one ID", async () => {
  const [first, [mac = "", keys = {}] = []] = ENIS;
  const second = { ...keys, "interface-id": "eni-0" };
  await assert.rejects(look(["ipv4"], [first ?? ["", {}], [mac, second]]), {
    name: "AwsNoAnswerError",
    message:
      "Cannot read the instance metadata: two network interfaces have one ID",
  });
});

Deno.test("MetadataSight does not believe that a VPC has no network", async () => {
  const [[mac = "", keys = {}] = []] = ENIS;
  const { "vpc-ipv4-cidr-blocks": _cidrs, ...others } = keys;
  await assert.rejects(look(["ipv4"], [[mac, others]]), {
    name: "AwsNoAnswerError",
    message:
      `Cannot read the instance metadata: "${MACS}${mac}/vpc-ipv4-cidr-blocks" is empty`,
  });
});
