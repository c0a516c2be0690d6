// A call may be made by coild or by the whole program: what comes of it must not differ.
import assert from "node:assert/strict";
import { KeyedMutex } from "../../lib/async/mod.ts";
import { untilPasses } from "../../lib/async/testing.ts";
import { decodeAnswer, encodeRequest } from "../../lib/cnirpc/plugin/mod.ts";
import { countJoined } from "../../lib/coordinator/mod.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import { KubeUnreachableError } from "../../lib/kube/mod.ts";
import { createRegistry } from "../../lib/telemetry/mod.ts";
import {
  NotReadyError,
  PodNotFoundError,
} from "../../roles/coild/base/errors.ts";
import type {
  PodFacts,
  PodQuery,
} from "../../roles/coild/cluster/pod_source.ts";
import { CoordinatorCalls } from "../../roles/coild/coordinator/calls.ts";
import { CoordinatorMetrics } from "../../roles/coild/coordinator/metrics.ts";
import { PairDeletions } from "../../roles/coild/coordinator/pair_deletions.ts";
import { servePlugins } from "../../roles/coild/server/plugin_server.ts";
import {
  ANSWERED,
  CoordinatorLab,
  type LabPod,
  type NicSpec,
  ours,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest } from "./testing.ts";

const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };
const NET1: NicSpec = { name: "net1", network: 7, number: 100 };
const CONTAINER = "0123456789abcdef".repeat(4);

/** coild's door for the lab's calls. */
class CoildDoor implements AsyncDisposable {
  readonly registry = createRegistry();
  readonly events: string[] = [];
  /** How many calls have come. */
  taken = 0;
  readonly #stop = new AbortController();
  readonly #directory: string;
  #finished: Promise<void> = Promise.resolve();
  #deletions: PairDeletions | undefined;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async open(
    lab: CoordinatorLab,
    find: (query: PodQuery) => Promise<PodFacts> = (query) =>
      Promise.reject(new PodNotFoundError(query.name)),
  ): Promise<CoildDoor> {
    const door = new CoildDoor(await Deno.makeTempDir());
    const socketPath = `${door.#directory}/coordinator.sock`;
    const machine = lab.outside();
    const { hostNetns } = machine;
    const deletions = PairDeletions.open(hostNetns);
    door.#deletions = deletions;
    const calls = new CoordinatorCalls({
      machine: deletions.behind(machine),
      pods: { find },
      events: {
        record: ({ namespace, name }, { reason, message }) =>
          door.events.push(`${namespace}/${name} ${reason}: ${message}`),
      },
      metrics: new CoordinatorMetrics(door.registry, {
        ageSeconds: 1,
        async countPods() {
          using host = machine.openRoutes(hostNetns);
          return await countJoined(host);
        },
      }),
      locks: new KeyedMutex(),
    });
    const { finished } = await servePlugins({
      socketPath,
      signal: door.#stop.signal,
      perform: (call, caller) => {
        door.taken++;
        return calls.perform(call, caller);
      },
    });
    door.#finished = finished;
    lab.door = async (call) => {
      const path = `${socketPath}.cni`;
      using connection = await Deno.connect({ transport: "unix", path });
      const writer = connection.writable.getWriter();
      await writer.write(new Uint8Array(encodeRequest(call)));
      const answer = new Response(connection.readable);
      return decodeAnswer(await answer.bytes());
    };
    return door;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#finished;
    await this.#deletions?.[Symbol.asyncDispose]();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

/** All of pod and host, without what chance makes. */
async function seen(lab: CoordinatorLab, pod: LabPod): Promise<string[]> {
  const state = [
    ...await stateOf(pod.netns),
    "host",
    ...await stateOf(lab.host),
  ];
  return state.map((line) =>
    line.replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
      .replaceAll(/@if\d+|@\S+/g, "")
  );
}

/** The host's ends that are cut off and not deleted yet. */
async function huskNames(lab: CoordinatorLab): Promise<unknown[]> {
  const links = await lab.host.ipJson("link", "show");
  return links.filter(({ ifalias }) => /COIL-COORD-HUSK/.test(`${ifalias}`));
}

/** A pod's life; what each call answered and what there was then. */
async function story(isByCoild: boolean): Promise<unknown[]> {
  await using lab = await CoordinatorLab.start(FAMILIES);
  await using _door = isByCoild ? await CoildDoor.open(lab) : undefined;
  const pod = await lab.pod([], CONTAINER);
  const chapters: unknown[] = [];
  const call = async (...args: Parameters<CoordinatorLab["call"]>) => {
    const answer = await lab.call(...args);
    // coild deletes pairs when DEL has been answered.
    await untilPasses(async () => assert.deepEqual(await huskNames(lab), []));
    chapters.push(args[0], answer, await seen(lab, pod));
  };
  await lab.addNic(pod.netns, ETH0);
  await call("ADD", pod, { config: { serviceCIDR: [] } });
  await call("ADD", pod, { config: { podRPFilter: 3 } });
  await call("ADD", pod, { prevResult: null });
  await call("ADD", pod, { config: { cniVersion: "9.9.9" } });
  await call("STATUS", pod);
  await call("ADD", pod);
  await lab.addNic(pod.netns, NET1);
  const net1 = { ifname: "net1", config: { podDefaultRouteNic: "net1" } };
  await call("ADD", pod, net1);
  await call("CHECK", pod, net1);
  await call("CHECK", pod, { ifname: "net7" });
  await pod.netns.ip("rule", "delete", "priority", "1000");
  await call("CHECK", pod);
  await call("DEL", pod, net1);
  await call("GC", pod, { config: { "cni.dev/valid-attachments": [] } });
  await call("DEL", pod, { prevResult: null });
  await call("DEL", pod, { netns: "/nonexistent/netns" });
  return chapters;
}

netnsTest(
  "coordinator: coild answers and does what the whole program does",
  async () => {
    const [alone, byCoild] = [await story(false), await story(true)];
    assert.deepEqual(byCoild, alone);
    assert.match(JSON.stringify(alone), /coordinator config not found.*veth0/);
  },
);

netnsTest(
  "coordinator: coild gives the annotations of the pod, in its cache or by one request",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const asked: PodQuery[] = [];
    await using _door = await CoildDoor.open(lab, (query) => {
      asked.push(query);
      const { namespace, name } = query;
      return Promise.resolve({
        namespace,
        name,
        annotations: { "ipam.spidernet.io/default-route-nic": "net1" },
        from: "cache",
        isGateway: false,
      });
    });
    const pod = await lab.pod([ETH0]);
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b";
    await lab.ok("ADD", pod, { args });
    // The first interface needs none.
    assert.deepEqual(asked, []);
    await lab.addNic(pod.netns, NET1);
    await lab.ok("ADD", pod, { ifname: "net1", args: `${args};K8S_POD_UID=c` });
    assert.deepEqual(asked, [{ namespace: "a", name: "b", uid: "c" }]);
    assert.match(
      await pod.netns.ip("route", "show", "default"),
      /^default via 10\.7\.0\.1 dev net1/,
    );
    await lab.ok("ADD", pod, {
      ifname: "net1",
      args,
      config: { podDefaultRouteNic: "eth0" },
    });
    assert.equal(asked.length, 1);
    assert.deepEqual(lab.warnings, []);
  },
);

netnsTest(
  "coordinator: a pod that the API server does not have, or cannot give, has no annotations; other failures end the call",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    let failure: Error | undefined;
    await using _door = await CoildDoor.open(
      lab,
      () => Promise.reject(failure),
    );
    const pod = await lab.pod([ETH0]);
    await lab.ok("ADD", pod);
    await lab.addNic(pod.netns, NET1);
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b";
    const add = () => lab.call("ADD", pod, { ifname: "net1", args });
    for (
      const unknown of [
        new PodNotFoundError("no pod"),
        new NotReadyError("no Node"),
        new KubeUnreachableError("no answer"),
      ]
    ) {
      failure = unknown;
      assert.equal((await add()).exitCode, 0, unknown.message);
    }
    failure = new TypeError("a pod that cannot be read");
    const { stdout, exitCode } = await add();
    assert.equal(exitCode, 1);
    assert.match(stdout, /a pod that cannot be read/);
  },
);

netnsTest(
  "coordinator: calls for one pod at the same time are made one after the other",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await using door = await CoildDoor.open(lab);
    const nics = [7, 8].map((network, i) =>
      ({ name: `net${i + 1}`, network, number: 100 }) as NicSpec
    );
    const pod = await lab.pod([ETH0]);
    await lab.ok("ADD", pod);
    for (const nic of nics) await lab.addNic(pod.netns, nic);
    await Promise.all(
      nics.map(({ name }) => lab.ok("ADD", pod, { ifname: name })),
    );
    const rules = await pod.netns.ip("rule");
    for (const table of [101, 102]) {
      const priority = 1000 + table;
      assert.match(rules, new RegExp(`^${priority}:.*lookup ${table}`, "m"));
    }
    const metrics = await door.registry.metrics();
    assert.match(metrics, /calls_total\{command="ADD",result="ok"\} 3\n/);
    assert.match(metrics, /call_seconds_count\{phase="network"\} 3\n/);
    const { exitCode } = await lab.call("ADD", pod, { ifname: "net9" });
    assert.equal(exitCode, 1);
    assert.match(
      await door.registry.metrics(),
      /calls_total\{command="ADD",result="error"\} 1\n/,
    );
  },
);

netnsTest(
  "coordinator: DEL during ADD of the same interface, and ADD again at once, come to what was asked for last",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await using door = await CoildDoor.open(lab);
    const pod = await lab.pod([ETH0]);
    // Long enough for the next calls to come.
    const detectOptions = { retries: 1, timeout: "500ms" };
    const config = { detectIPConflict: true, detectOptions };
    /** Calls that come while the one before is under way. */
    const all = async (...commands: readonly ("ADD" | "DEL")[]) => {
      const calls: Promise<string>[] = [];
      for (const command of commands) {
        const { taken } = door;
        calls.push(lab.ok(command, pod, { config }));
        await untilPasses(() => assert.equal(door.taken, taken + 1));
      }
      await Promise.all(calls);
    };
    await all("ADD", "DEL", "ADD");
    await lab.ok("CHECK", pod);
    await all("ADD", "DEL");
    await untilPasses(async () => assert.deepEqual(await huskNames(lab), []));
    const left = [...await stateOf(pod.netns), ...await stateOf(lab.host)];
    assert.deepEqual(ours(left), []);
  },
);

netnsTest(
  "coordinator: the pod's owner learns of a conflict and a dead gateway, and probes are counted",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await using door = await CoildDoor.open(lab);
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b";
    const config = {
      detectIPConflict: true,
      detectGateway: true,
      detectOptions: ANSWERED,
    };
    const dead = { retries: 2, interval: "20ms", timeout: "60ms" };
    const first = await lab.pod([ETH0]);
    await lab.ok("ADD", first, { args, config });
    assert.deepEqual(door.events, []);
    const second = await lab.pod([ETH0]);
    await lab.call("ADD", second, { args, config });
    const [row] = await first.netns.ipJson("link", "show", "eth0");
    await lab.switch.ip("address", "delete", "10.6.0.1/24", "dev", "net6");
    const third = await lab.pod([{ ...ETH0, number: 101 }]);
    const unanswered = { ...config, detectOptions: dead };
    await lab.call("ADD", third, { args, config: unanswered });
    // Without a pod's name there is no one to tell.
    await lab.call("ADD", third, { config: unanswered });
    assert.deepEqual(door.events, [
      `a/b AddressConflict: Cannot use address "10.6.0.100" on interface "eth0": ` +
      `the machine with MAC address "${
        row?.["address"]
      }" has it; take it out of ` +
      "the pods' address range, or find the machine",
      `a/b GatewayUnreachable: Cannot start the pod: gateway "10.6.0.1" does not ` +
      'answer interface "eth0"; repair it, or leave detectGateway off if it never ' +
      "answers ARP or neighbour discovery",
    ]);
    const metrics = await door.registry.metrics();
    for (
      const [kind, result, count] of [
        ["conflict", "ok", 3],
        ["conflict", "failed", 1],
        ["gateway", "ok", 1],
        ["gateway", "failed", 2],
      ]
    ) {
      const line = `probes_total{kind="${kind}",result="${result}"} ${count}\n`;
      assert.ok(metrics.includes(line), line);
    }
    assert.match(metrics, /^coil_coordinator_pods 1$/m);
  },
);
