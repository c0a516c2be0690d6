import assert from "node:assert/strict";
import { sleep, TaskGroup } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import type {
  Listener,
  Notification,
  TableNotification,
} from "../../../lib/netlink/mod.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import {
  type Ec2Eni,
  mergeEnis,
  type Ownership,
  VpcHostProblem,
  type VpcHostSettings,
} from "../../../lib/vpc/mod.ts";
import { VPC_FLAGS, vpcOptionsOf } from "../cloud/flags.ts";
import { VpcHostKeeper } from "./host.ts";
import type { Sight } from "../cloud/sight.ts";
import { readCommandLine } from "../../../lib/flags/mod.ts";

function optionsOf(...args: string[]) {
  const info = { program: "coild", version: "1", about: "x" };
  const line = readCommandLine(VPC_FLAGS, args, info);
  if (line.kind !== "run") throw new Error("Cannot go on: nothing to run");
  return vpcOptionsOf(line.values);
}

function sightOf(...devices: number[]): Sight {
  const facts = devices.map((device) => ({
    id: `eni-${device}`,
    device,
    mac: `02:00:00:00:00:0${device}`,
    addresses: { ipv4: Address.parse(`10.0.1.${device + 4}`) },
    subnets: { ipv4: Prefix.parse("10.0.1.0/24") },
  }));
  return {
    enis: facts.map(({ id, device }) => ({
      id,
      device,
      blocks: [Prefix.parse(`10.0.1.${device + 104}/32`)],
    })),
    facts: new Map(facts.map((one) => [one.id, one])),
    vpcCidrs: [Prefix.parse("10.0.0.0/16")],
  };
}

function listenerOf<T>(take: () => readonly T[]): Listener<T> {
  return {
    async next({ signal }) {
      await sleep(1, { signal });
      return take();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

type State = NonNullable<Ec2Eni["attachment"]>["state"];

/** A kernel that keeps what it is asked for. */
class FakeHost {
  readonly asked: VpcHostSettings[] = [];
  problems: VpcHostProblem[] = [];
  /** The index of the ENIs' link. */
  readonly link = 3;

  readonly heard: Notification[] = [];

  watchRoutes(): Listener<Notification> {
    return listenerOf(() => this.heard.splice(0));
  }

  watchTable(): Listener<TableNotification> {
    return listenerOf(() => []);
  }

  ensure(settings: VpcHostSettings) {
    this.asked.push(settings);
    const links = new Set([this.link]);
    return Promise.resolve({ changed: [], problems: this.problems, links });
  }
}

async function followed(keeper: VpcHostKeeper, sight: Sight) {
  const { ready } = await keeper.follow(mergeEnis([], sight.enis), sight);
  return [...ready];
}

Deno.test("VpcHostKeeper asks the kernel for what ENIs and flags say, once", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(
    host,
    optionsOf("--eni-mtu=1500", "--no-snat-cidrs=192.0.2.0/24", "--pod-imds=0"),
  );
  assert.deepEqual(await followed(keeper, sightOf(0)), ["eni-0"]);
  assert.deepEqual(await followed(keeper, sightOf(0)), ["eni-0"]);
  const [asked] = host.asked;
  assert.equal(host.asked.length, 1);
  assert.equal(
    JSON.stringify(asked),
    JSON.stringify({
      enis: [{
        id: "eni-0",
        device: 0,
        mac: "02:00:00:00:00:00",
        addresses: { ipv4: "10.0.1.4" },
        gateways: { ipv4: "10.0.1.1" },
        blocks: ["10.0.1.104/32"],
      }],
      unseenDevices: [],
      families: ["ipv4"],
      mtu: 1500,
      vpcCidrs: ["10.0.0.0/16"],
      excludedCidrs: ["192.0.2.0/24"],
      externalSnat: false,
      nodePorts: true,
      podImds: false,
    }),
  );
  await followed(keeper, sightOf(0, 1));
  assert.equal(host.asked.length, 2);
});

Deno.test("VpcHostKeeper has one rule for all IPv6 addresses of an ENI", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(host, optionsOf("--ip-family=dual"));
  const { enis: [eni], ...rest } = sightOf(0);
  const ipv6 = Prefix.parse("2001:db8:0:1:5::/80");
  const sight: Sight = { ...rest, enis: eni ? [{ ...eni, ipv6 }] : [] };
  // An IPv6 address that EC2 shows beside it.
  const list: Ec2Eni[] = [{
    id: "eni-0",
    subnet: "subnet-1",
    ownership: "primary",
    address: Address.parse("10.0.1.4"),
    blocks: [Prefix.parse("10.0.1.104/32"), Prefix.parse("2001:db8::7/128")],
  }];
  await keeper.follow(mergeEnis(list, sight.enis), sight);
  const [asked] = host.asked;
  assert.deepEqual(asked?.enis[0]?.blocks.map(String), [
    "10.0.1.104/32",
    `${ipv6}`,
  ]);
  assert.deepEqual(asked?.families, ["ipv4", "ipv6"]);
});

Deno.test("VpcHostKeeper leaves alone an ENI that is not for pods, and one of which nothing is known yet", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(host, optionsOf());
  const ec2Eni = (device: number, ownership: Ownership): Ec2Eni => ({
    id: `eni-${device}`,
    subnet: "subnet-1",
    ownership,
    address: Address.parse(`10.0.1.${device + 4}`),
    blocks: [],
  });
  const list = [
    ec2Eni(0, "primary"),
    ec2Eni(1, "foreign"),
    ec2Eni(2, "owned"),
    ec2Eni(3, "owned"),
  ];
  const sight = sightOf(0, 1, 2);
  const { ready } = await keeper.follow(mergeEnis(list, sight.enis), sight);
  assert.deepEqual([...ready], ["eni-0", "eni-2"]);
});

Deno.test("VpcHostKeeper keeps an ENI that the metadata do not show while EC2 does, at the device where EC2 has it", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(host, optionsOf());
  const list = (state: State): Ec2Eni[] => [{
    id: "eni-1",
    subnet: "subnet-1",
    ownership: "owned",
    address: Address.parse("10.0.1.5"),
    blocks: [],
    attachment: {
      id: "eni-attach-1",
      device: 2,
      state,
      since: 0,
      endsWithInstance: true,
    },
  }];
  const shown = async (
    state: State,
    sight: Sight,
  ): Promise<string[]> => {
    await keeper.follow(mergeEnis(list(state), sight.enis), sight);
    const { enis = [], unseenDevices = [] } = host.asked.at(-1) ?? {};
    return [
      ...enis.map(({ id, device }) => `${id} ${device}`),
      ...unseenDevices.map((device) => `unseen ${device}`),
    ];
  };
  assert.deepEqual(await shown("attached", sightOf(0, 1)), [
    "eni-0 0",
    "eni-1 2",
  ]);
  assert.deepEqual(await shown("attached", sightOf(0)), ["eni-0 0", "eni-1 2"]);
  assert.deepEqual(await shown("detaching", sightOf(0)), ["eni-0 0"]);
  // As after a restart.
  assert.deepEqual(await shown("attached", sightOf(0)), [
    "eni-0 0",
    "unseen 2",
  ]);
});

Deno.test("VpcHostKeeper leaves out an ENI that the kernel lacks, and asks again", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(host, optionsOf());
  host.problems = [new VpcHostProblem("Cannot find it", { eni: "eni-1" })];
  assert.deepEqual(await followed(keeper, sightOf(0, 1)), ["eni-0"]);
  assert.equal(keeper.isComplete, false);
  host.problems = [];
  assert.deepEqual(await followed(keeper, sightOf(0, 1)), ["eni-0", "eni-1"]);
  assert.equal(keeper.isComplete, true);
});

Deno.test("VpcHostKeeper compares the kernel again when others change its rules, routes or links, not when pods come", async () => {
  const host = new FakeHost();
  const keeper = new VpcHostKeeper(host, optionsOf());
  let changes = 0;
  await using tasks = new TaskGroup();
  const loops = keeper.loops(() => changes++);
  tasks.runAll(loops);
  await untilPasses(() => assert.equal(changes, 2, "what was before"));
  const hear = async (...heard: Notification[]) => {
    host.heard.push(...heard);
    await untilPasses(() => assert.equal(host.heard.length, 0));
    await followed(keeper, sightOf(0));
  };
  await hear();
  assert.equal(host.asked.length, 1);
  await hear({ kind: "link", index: 7 }, { kind: "address", index: 7 });
  assert.equal(host.asked.length, 1);
  await hear({ kind: "link", index: host.link });
  assert.equal(host.asked.length, 2);
  await hear({ kind: "route", table: 10_001 });
  assert.equal(host.asked.length, 3);
  const address = { kind: "address", index: host.link } as const;
  await hear(address, { kind: "rule", family: "ipv4" }, address);
  assert.equal(host.asked.length, 4);
  host.problems = [new VpcHostProblem("Cannot find it", { eni: "eni-0" })];
  await hear({ kind: "overflow" });
  const before = changes;
  await hear({ kind: "link", index: 7 });
  assert.ok(changes > before);
});
