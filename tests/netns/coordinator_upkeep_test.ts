import assert from "node:assert/strict";
import { TaskGroup } from "../../lib/async/mod.ts";
import { untilPasses, untilQuiet } from "../../lib/async/testing.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { Netns } from "../../lib/linux/mod.ts";
import { AT_MOST_IN_POD, RouteMonitor } from "../../lib/netlink/mod.ts";
import { requestOf } from "../../lib/plugin/testing.ts";
import { CoordinatorUpkeep } from "../../roles/coild/coordinator/upkeep.ts";
import { CallsInFlight } from "../../roles/coild/observe/calls_in_flight.ts";
import {
  addressIn,
  ANSWERED,
  CoordinatorLab,
  fetched,
  interfaceAddressIn,
  type LabPod,
  type NicSpec,
  reaches,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };

/** coild's upkeep of the lab's host, which looks only when it hears something, unless it is to do so from time to time. */
class Upkeep implements AsyncDisposable {
  looks = 0;
  readonly calls = new CallsInFlight();
  readonly #tasks = new TaskGroup();
  readonly #netns: Netns;

  constructor(lab: CoordinatorLab, { lookMs = 3_600_000 } = {}) {
    const netns = Netns.open(lab.host.path);
    this.#netns = netns;
    const upkeep = new CoordinatorUpkeep({
      open: () => {
        this.looks++;
        return lab.outside();
      },
      watch: () =>
        RouteMonitor.open({
          netns,
          interests: { addresses: "both", rules: true },
        }),
      calls: this.calls,
      leastMs: 20,
      lookMs,
    });
    this.#tasks.run("upkeep", (signal) => upkeep.run(signal));
  }

  /** An ADD that ends with the promise. */
  add(call: Promise<void>): Promise<void> {
    const request = requestOf("a");
    return this.calls.track({ method: "ADD", request }, () => call);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    this.#netns[Symbol.dispose]();
  }
}

/** Makes the host keep its further addresses when it loses the first one. */
async function keepAddresses({ host }: CoordinatorLab): Promise<void> {
  const key = "net.ipv4.conf.net6.promote_secondaries";
  await host.exec("sysctl", "-qw", `${key}=1`);
}

async function changeAddress(
  lab: CoordinatorLab,
  verb: "add" | "delete",
  number: number,
): Promise<void> {
  for (const family of lab.families) {
    await lab.host.ip(
      ...["address", verb, interfaceAddressIn(6, family, number)],
      ...["dev", "net6"],
      ...family === "ipv4" || verb === "delete" ? [] : ["nodad"],
    );
  }
}

/** The tables of a pod that have a route to an address of the host. */
async function tablesWith(pod: LabPod, address: string): Promise<string[]> {
  const family = address.includes(":") ? "-6" : "-4";
  const text = await pod.netns.ip(family, "route", "show", "table", "all");
  return text.split("\n").filter((line) =>
    line.startsWith(`${address} `) && line.includes("proto 32")
  ).map((line) => /table (\d+)/.exec(line)?.[1] ?? "main").toSorted();
}

netnsTest(
  "coordinator: an address that the host gets later reaches running pods, and goes with it",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    await keepAddresses(lab);
    const pod = await lab.joined([ETH0, NET1]);
    const overlay = await lab.joined([{ ...NET1, number: 101 }], {
      overlay: 5,
    });
    const pods = [pod, overlay];
    // Before coild starts, and while it runs.
    await changeAddress(lab, "add", 11);
    assert.equal(await reaches(pod.netns, "10.6.0.11"), false);
    await using _upkeep = new Upkeep(lab);
    for (const number of [11, 12]) {
      if (number === 12) await changeAddress(lab, "add", 12);
      for (const family of FAMILIES) {
        const [own, added] = [10, number].map((n) => addressIn(6, family, n));
        for (const each of pods) {
          await untilPasses(async () =>
            assert.deepEqual(
              await tablesWith(each, `${added}`),
              await tablesWith(each, `${own}`),
            )
          );
        }
        assert.ok(await reaches(pod.netns, `${added}`), family);
      }
    }
    for (const each of pods) {
      await lab.ok("CHECK", each, { ifname: "net1" });
    }
    await changeAddress(lab, "delete", 11);
    for (const each of pods) {
      for (const family of FAMILIES) {
        const gone = addressIn(6, family, 11);
        await untilPasses(async () =>
          assert.deepEqual(await tablesWith(each, gone), [])
        );
      }
      const left = await stateOf(each.netns);
      assert.ok(!left.some((line) => /10\.6\.0\.11|:10:6::11/.test(line)));
    }
    assert.ok(await reaches(pod.netns, "10.6.0.12"));
  },
);

netnsTest(
  "coordinator: routes to pods come back when the host loses the address that they name as source",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await keepAddresses(lab);
    const pod = await lab.joined([ETH0, NET1]);
    await changeAddress(lab, "add", 11);
    await using _upkeep = new Upkeep(lab);
    await untilPasses(async () =>
      assert.notDeepEqual(await tablesWith(pod, "10.6.0.11"), [])
    );
    await changeAddress(lab, "delete", 10);
    const routes = () => lab.host.ip("route", "show", "table", "500");
    await untilPasses(async () => {
      assert.match(await routes(), /^10\.6\.0\.100 .*src 10\.6\.0\.11/m);
      assert.match(await routes(), /^10\.7\.0\.100 .*src 10\.6\.0\.11/m);
    });
    assert.ok(await reaches(lab.host, "10.6.0.100"));
    assert.ok(await reaches(lab.host, "10.7.0.100"));
    // What goes through the host keeps its gateway.
    await lab.host.exec("nft", "flush ruleset");
    await lab.host.exec(
      "nft",
      "table ip svc { chain pre { type nat hook prerouting priority -100; " +
        "ip daddr 10.233.0.10 tcp dport 80 dnat to 10.6.0.11:8080; }; }",
    );
    await serving(lab, async () => {
      assert.match(await fetched(pod.netns, "ipv4"), /10\.6\.0\.100/);
    });
  },
);

netnsTest(
  "coordinator: the host's rule comes back while there are pods, and goes after the last one",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const one = await lab.pod([ETH0]);
    const other = await lab.pod([{ ...ETH0, number: 101 }]);
    for (const pod of [one, other]) await lab.ok("ADD", pod);
    // Another program's, which is not of a pod.
    await lab.host.ip(
      ...["neighbour", "add", "10.8.0.77", "dev", "net8"],
      ...["lladdr", "02:00:00:00:00:99", "nud", "permanent"],
    );
    await using upkeep = new Upkeep(lab);
    const rules = async () =>
      [await lab.host.ip("-4", "rule"), await lab.host.ip("-6", "rule")]
        .map((text) => /^1000:.*lookup 500 proto 32/m.test(text));
    for (const family of ["-4", "-6"]) {
      await lab.host.ip(family, "rule", "delete", "pref", "1000");
    }
    await untilPasses(async () =>
      assert.deepEqual(await rules(), [true, true])
    );
    await lab.ok("DEL", one);
    // With any change it is looked at again.
    await changeAddress(lab, "add", 11);
    await untilPasses(async () =>
      assert.notDeepEqual(await tablesWith(other, "10.6.0.11"), [])
    );
    assert.deepEqual(await rules(), [true, true]);
    // An ADD that is under way has seen the rule.
    const call = Promise.withResolvers<void>();
    const running = upkeep.add(call.promise);
    await lab.ok("DEL", other);
    const looks = upkeep.looks;
    await lab.host.ip("rule", "add", "pref", "8", "lookup", "8");
    await untilPasses(() => assert.ok(upkeep.looks > looks + 1));
    assert.deepEqual(await rules(), [true, true]);
    call.resolve();
    await running;
    await untilPasses(async () =>
      assert.deepEqual(await rules(), [false, false])
    );
  },
);

netnsTest(
  "coordinator: pods are looked at from time to time, after a failure, and again while calls are under way",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await lab.joined([ETH0]);
    // More than the few that a start and what it changes are followed by.
    const many = 20;
    const more = async (upkeep: Upkeep) => {
      const looks = upkeep.looks + many;
      await untilPasses(() => assert.ok(upkeep.looks > looks));
    };
    {
      // The kernel reports nothing.
      await using upkeep = new Upkeep(lab, { lookMs: 50 });
      await more(upkeep);
    }
    const { change } = lab;
    let failures = 0;
    lab.change = (outside) => {
      if (++failures > many) return change(outside);
      throw new Error("no kernel");
    };
    await using upkeep = new Upkeep(lab);
    await untilPasses(() => assert.ok(failures > many));
    const call = Promise.withResolvers<void>();
    const running = upkeep.add(call.promise);
    await changeAddress(lab, "add", 11);
    await more(upkeep);
    call.resolve();
    await running;
    // What a call may be at work on is left for the next look.
    await untilQuiet(() => upkeep.looks, 200);
    const other = Promise.withResolvers<void>();
    const counted = upkeep.add(other.promise);
    await lab.host.ip("rule", "delete", "pref", "1000");
    await more(upkeep);
    other.resolve();
    await counted;
    await untilPasses(async () =>
      assert.match(await lab.host.ip("rule"), /^1000:/m)
    );
  },
);

netnsTest(
  "coordinator: the pod that has been given an address keeps the route to it, also where the DEL of its former owner was lost",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    await lab.joined([ETH0]);
    const owner = await lab.joined([ETH0]);
    const host = async () =>
      (await stateOf(lab.host)).filter((line) => /table 500/.test(line));
    const before = await host();
    await using upkeep = new Upkeep(lab, { lookMs: 50 });
    await untilPasses(async () => assert.ok(upkeep.looks > 3));
    assert.deepEqual(await host(), before);
    await lab.ok("CHECK", owner);
  },
);

netnsTest(
  "coordinator: a pod that refuses routes keeps no other pod from an address that the host gets",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pods = [
      await lab.joined([ETH0]),
      await lab.joined([{ ...ETH0, number: 101 }]),
      await lab.joined([{ ...ETH0, number: 102 }]),
    ];
    // That of the link that the kernel lists first.
    const [first] = (await lab.host.ipJson("link", "show", "type", "veth"))
      .filter(({ ifalias }) => /COIL-COORD/.test(`${ifalias}`));
    const isOdd = ({ containerId }: LabPod) =>
      first?.["ifalias"] === `COIL-COORD:${containerId}:eth0`;
    // Its routes keep a source that new ones cannot have.
    await pods.find(isOdd)?.netns.ip("address", "flush", "dev", "eth0");
    const others = pods.filter((pod) => !isOdd(pod));
    assert.equal(others.length, 2);
    await using _upkeep = new Upkeep(lab);
    await changeAddress(lab, "add", 11);
    for (const pod of others) {
      await untilPasses(async () =>
        assert.notDeepEqual(await tablesWith(pod, "10.6.0.11"), [])
      );
    }
  },
);

netnsTest(
  "coordinator: of a pod with very many rules or routes no more than a bound is read, and DEL works",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.joined([ETH0]);
    const many = AT_MOST_IN_POD + 500;
    const addRoutes = async (network: string, rest: string) => {
      const lines = Array.from(
        { length: many },
        (_, i) => `route add ${network}.${i >> 8}.${i & 255} dev veth0 ${rest}`,
      );
      const file = await Deno.makeTempFile();
      await Deno.writeTextFile(file, lines.join("\n"));
      await pod.netns.ip("-batch", file);
      await Deno.remove(file);
    };
    await addRoutes("198.18", "table 77 proto 32 scope link");
    const { length } = (await pod.netns.ip("route", "show", "table", "77"))
      .trim().split("\n");
    assert.equal(length, many);
    let most = 0;
    const { change } = lab;
    lab.change = (outside) => {
      const { openRoutes, ...rest } = change(outside);
      return {
        ...rest,
        openRoutes(netns) {
          const socket = openRoutes(netns);
          const listRoutes = socket.listRoutes.bind(socket);
          socket.listRoutes = async (...args) => {
            const routes = await listRoutes(...args);
            most = Math.max(most, routes.length);
            return routes;
          };
          return socket;
        },
      };
    };
    {
      await using upkeep = new Upkeep(lab, { lookMs: 50 });
      await untilPasses(() => assert.ok(upkeep.looks > 2));
    }
    assert.equal(most, AT_MOST_IN_POD);
    // The kernel lists them before the coordinator's, which are not read then.
    await addRoutes("9.18", "scope link");
    await lab.addNic(pod.netns, NET1);
    const config = { detectGateway: true, detectOptions: ANSWERED };
    await lab.ok("ADD", pod, { ifname: "net1", config });
    assert.equal(most, AT_MOST_IN_POD);
    await lab.ok("DEL", pod);
    assert.equal(most, AT_MOST_IN_POD);
  },
);
