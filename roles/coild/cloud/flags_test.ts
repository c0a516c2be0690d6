import assert from "node:assert/strict";
import { readCommandLine } from "../../../lib/flags/mod.ts";
import { VPC_FLAGS, vpcMistakeIn, vpcOptionsOf } from "./flags.ts";

const INFO = { program: "coild", version: "1", about: "x" };

function read(args: readonly string[]) {
  const line = readCommandLine(VPC_FLAGS, args, INFO);
  if (line.kind !== "run") throw new Error("Cannot go on: nothing to run");
  return line;
}

function mistakeIn(
  args: readonly string[],
  { isVpc = true, more = [] as string[], priority = 512 } = {},
): string | undefined {
  const { values, given } = read(args);
  const all = { ...values, "pod-rule-prio": priority };
  return vpcMistakeIn(all, { given: new Set([...given, ...more]), isVpc });
}

Deno.test("vpcOptionsOf() reads limits, networks and the range of free addresses", () => {
  const { values } = read([
    "--eni-limits=2,3",
    "--max-enis=2",
    "--no-snat-cidrs=192.0.2.0/24,198.51.100.0/24",
    "--free-min=0",
    "--free-max=16",
    "--eni-tags=team=net,note=a=b,empty=",
  ]);
  const options = vpcOptionsOf(values);
  assert.deepEqual(options.eniLimits, { enis: 2, addressesPerEni: 3 });
  assert.equal(options.maxEnis, 2);
  assert.equal(String(options.noSnatCidrs), "192.0.2.0/24,198.51.100.0/24");
  assert.deepEqual(options.free, { min: 0, max: 16 });
  assert.deepEqual(options.eniTags, { team: "net", note: "a=b", empty: "" });
});

Deno.test("vpcOptionsOf() has upstream's defaults", () => {
  const { noSnatCidrs, ...options } = vpcOptionsOf(read([]).values);
  assert.deepEqual(noSnatCidrs, []);
  assert.deepEqual(options, {
    mode: "auto",
    families: ["ipv4"],
    warmEnis: 1,
    warmIps: 0,
    minIps: 0,
    warmPrefixes: 1,
    free: undefined,
    maxEnis: undefined,
    eniLimits: undefined,
    eniMtu: 9001,
    externalSnat: false,
    nodePorts: true,
    podImds: true,
    manageUntagged: true,
    provision: true,
    clusterName: "",
    eniTags: {},
    introspectionAddress: "127.0.0.1:61679",
  });
});

Deno.test("vpcOptionsOf() reads the families", () => {
  const familiesOf = (family: string) =>
    vpcOptionsOf(read([`--ip-family=${family}`]).values).families;
  assert.deepEqual(familiesOf("ipv6"), ["ipv6"]);
  assert.deepEqual(familiesOf("dual"), ["ipv4", "ipv6"]);
});

for (
  const args of [
    [],
    ["--eni-mtu=1279"],
    ["--eni-mtu=1280", "--ip-family=ipv6"],
    ["--warm-prefixes=0", "--warm-ips=1"],
    ["--warm-prefixes=0", "--min-ips=1"],
    ["--warm-prefixes=0", "--vpc-mode=address"],
    ["--warm-prefixes=0", "--free-min=1", "--free-max=20"],
  ]
) {
  Deno.test(`"${args.join(" ")}" fit together`, () => {
    assert.equal(mistakeIn(args), undefined);
  });
}

const MISTAKES: Readonly<Record<string, readonly string[]>> = {
  "--free-min and --free-max need each other": ["--free-min=1"],
  "--free-max is 3, must be more than --free-min, 3": [
    "--free-min=3",
    "--free-max=3",
  ],
  "--warm-prefixes, --warm-ips and --min-ips are all 0, so there would be no prefix":
    ["--warm-prefixes=0"],
  '--no-snat-cidrs has "10.0.0.1.1/8", which is not a valid IPv4 CIDR (for example "192.0.2.0/24")':
    ["--no-snat-cidrs=10.0.0.0/8,10.0.0.1.1/8"],
  '--no-snat-cidrs has "fd00::/8", which is not a valid IPv4 CIDR (for example "192.0.2.0/24")':
    ["--no-snat-cidrs=fd00::/8"],
  '--eni-tags has "team", must be KEY=VALUE with at most 128 and 256 characters':
    ["--eni-tags=a=b,team"],
  '--eni-tags has "=net", must be KEY=VALUE with at most 128 and 256 characters':
    ["--eni-tags==net"],
  "--eni-tags has a key more than once": ["--eni-tags=a=b,a=c"],
  '--eni-tags has the key "AWS:team", which is reserved': [
    "--eni-tags=AWS:team=net",
  ],
  '--eni-tags has the key "cluster.k8s.amazonaws.com/name", which is reserved':
    ["--eni-tags=cluster.k8s.amazonaws.com/name=other"],
  "--vpc-mode has no effect with --ip-family=ipv6: all pods have addresses of one ENI's prefix":
    ["--ip-family=ipv6", "--vpc-mode=prefix"],
  "--eni-mtu is 1279, must be at least 1280 for IPv6": [
    "--eni-mtu=1279",
    "--ip-family=dual",
  ],
};

Deno.test("tags that EC2 would refuse for their number or length are refused", () => {
  const many = Array.from({ length: 48 }, (_, n) => `k${n}=v`);
  assert.equal(mistakeIn([`--eni-tags=${many.slice(1)}`]), undefined);
  assert.equal(
    mistakeIn([`--eni-tags=${many}`]),
    "--eni-tags has 48 tags, must be 47 at the most",
  );
  const [key, value] = ["k".repeat(128), "v".repeat(256)];
  assert.equal(mistakeIn([`--eni-tags=${key}=${value}`]), undefined);
  assert.match(`${mistakeIn([`--eni-tags=${key}k=`])}`, /must be KEY=VALUE/);
  assert.match(`${mistakeIn([`--eni-tags=k=${value}v`])}`, /must be KEY=VALUE/);
});

Deno.test("the name of a cluster that a filter of EC2 would take for others is refused", () => {
  assert.throws(() => read(["--cluster-name=*"]), /must be the name of a/);
  assert.throws(() => read(["--cluster-name=a?"]), /must be the name of a/);
  const { values } = read(["--cluster-name=prod.example_1-a"]);
  assert.equal(values["cluster-name"], "prod.example_1-a");
});

for (const [message, args] of Object.entries(MISTAKES)) {
  Deno.test(`"${args.join(" ")}" is refused`, () => {
    assert.equal(mistakeIn(args), message);
  });
}

Deno.test("flags of the other kind of addresses are refused", () => {
  assert.equal(
    mistakeIn(["--warm-ips=1"], { isVpc: false }),
    "--warm-ips has no effect without --addresses=vpc",
  );
  assert.equal(mistakeIn([], { isVpc: false, more: ["low-water"] }), undefined);
  assert.equal(
    mistakeIn([], { more: ["low-water"] }),
    "--low-water has no effect with --addresses=vpc",
  );
});

Deno.test("a priority of the rule for pods that comes after those of ENIs is refused", () => {
  const more = ["pod-rule-prio"];
  assert.equal(mistakeIn([], { more, priority: 1535 }), undefined);
  assert.equal(
    mistakeIn([], { more, priority: 1536 }),
    "--pod-rule-prio must be less than 1536 with --addresses=vpc, so that pods are found before the rules of ENIs",
  );
});

Deno.test("--introspection-addr is an address to listen at, or nothing", () => {
  for (const address of ["", "0", "127.0.0.1:1", ":61679", "[::1]:61679"]) {
    const { values } = read([`--introspection-addr=${address}`]);
    assert.equal(vpcOptionsOf(values).introspectionAddress, address);
  }
  for (const address of ["61679", "127.0.0.1", "127.0.0.1:99999"]) {
    const args = [`--introspection-addr=${address}`];
    assert.throws(
      () => readCommandLine(VPC_FLAGS, args, INFO),
      /for "--introspection-addr": must be host:port/,
    );
  }
});
