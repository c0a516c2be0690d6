import assert from "node:assert/strict";
import { KeyedMutex } from "../../../lib/async/mod.ts";
import { CniError, parseConfig } from "../../../lib/cni/mod.ts";
import {
  NOTHING_SHARED,
  type Probes,
  readShared,
} from "../../../lib/coordinator/mod.ts";
import {
  defaultRoute,
  FakeNetwork,
  linkOf,
} from "../../../lib/coordinator/testing.ts";
import { CONTAINER_ID_ANNOTATION } from "../../../lib/names/mod.ts";
import { addressEntry } from "../../../lib/netlink/testing.ts";
import type { PluginCall } from "../../../lib/plugin/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { settle } from "../../../lib/async/testing.ts";
import { KubeUnreachableError } from "../../../lib/kube/mod.ts";
import { NotReadyError, PodNotFoundError } from "../base/errors.ts";
import type { PodFacts, PodQuery } from "../cluster/pod_source.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { CoordinatorCalls, type CoordinatorCallsOptions } from "./calls.ts";
import { CoordinatorMetrics } from "./metrics.ts";

/** Calls that need no kernel. */
function statusCalls(): CoordinatorCalls {
  const machine = {
    shared: () => readShared(NOTHING_SHARED),
    probes: {},
  } as unknown as CoordinatorCallsOptions["machine"]; // all that STATUS uses
  return new CoordinatorCalls({
    machine,
    pods: { find: () => Promise.reject(new Error("not asked")) },
    events: { record() {} },
    metrics: new CoordinatorMetrics(createRegistry(), {
      ageSeconds: 1,
      countPods: () => Promise.resolve(0),
    }),
    locks: new KeyedMutex(),
  });
}

async function recordsOf(config: object): Promise<string[]> {
  const lines = loggedLines();
  const conf = parseConfig(JSON.stringify({
    cniVersion: "1.1.0",
    name: "n",
    type: "coordinator",
    ...config,
  }));
  const call = {
    command: "STATUS",
    conf,
    request: { containerId: "", ifname: "", args: {} },
  } as unknown as PluginCall; // all that STATUS has
  const { signal } = new AbortController();
  const startMs = performance.now();
  await statusCalls().perform(call, { signal }).catch(() => {});
  const mostMs = Math.ceil(performance.now() - startMs);
  return lines.map((line) => {
    const { level, msg, elapsedMs } = JSON.parse(line);
    assert.ok(elapsedMs >= 0 && elapsedMs <= mostMs, line);
    return `${level} ${msg}`;
  });
}

Deno.test("CoordinatorCalls records as much of a call as its logLevel says", async () => {
  const works = { serviceCIDR: ["10.96.0.0/12"] };
  const at = (logLevel: string) => ({ logOptions: { logLevel } });
  assert.deepEqual(await recordsOf(works), ["info Finished call"]);
  assert.deepEqual(await recordsOf({ ...works, ...at("warn") }), []);
  assert.deepEqual(await recordsOf(at("warn")), ["warn Call failed"]);
  assert.deepEqual(await recordsOf(at("error")), []);
});

/** Calls of the interface net1 with mode disable, which need no kernel either. */
class Lab {
  readonly registry = createRegistry();
  readonly asked: PodQuery[] = [];
  /** Whom to ask for a pod. */
  find: () => Promise<PodFacts> = () =>
    Promise.reject(new PodNotFoundError("web"));
  readonly #calls: CoordinatorCalls;

  constructor() {
    const machine = {
      shared: () => readShared(NOTHING_SHARED),
      probes: {},
    } as unknown as CoordinatorCallsOptions["machine"]; // all that is used
    this.#calls = new CoordinatorCalls({
      machine,
      pods: {
        find: (query) => {
          this.asked.push(query);
          return this.find();
        },
      },
      events: { record() {} },
      metrics: new CoordinatorMetrics(this.registry, {
        ageSeconds: 1,
        countPods: () => Promise.resolve(0),
      }),
      locks: new KeyedMutex(),
    });
  }

  async add(
    { args = ARGS, containerId = "cid" }: {
      readonly args?: Readonly<Record<string, string>>;
      readonly containerId?: string;
    } = {},
  ) {
    const call = {
      command: "ADD",
      conf: parseConfig(JSON.stringify({
        cniVersion: "1.0.0",
        name: "n",
        type: "coordinator",
        mode: "disable",
        prevResult: { cniVersion: "1.0.0" },
      })),
      request: { containerId, ifname: "net1", args },
    } as unknown as PluginCall; // all that is used
    const { signal } = new AbortController();
    return await this.#calls.perform(call, { signal });
  }
}

const ARGS = { K8S_POD_NAMESPACE: "apps", K8S_POD_NAME: "web" };

Deno.test("CoordinatorCalls looks a pod up by what the runtime calls it, and none without a name", async () => {
  loggedLines();
  const lab = new Lab();
  await lab.add();
  await lab.add({ args: { ...ARGS, K8S_POD_UID: "u" } });
  await lab.add({ args: {} });
  await lab.add({ args: { K8S_POD_NAME: "web" } });
  await lab.add({ args: { K8S_POD_NAMESPACE: "apps" } });
  const pod = { namespace: "apps", name: "web" };
  assert.deepEqual(lab.asked, [pod, { ...pod, uid: "u" }]);
});

Deno.test("CoordinatorCalls goes on without annotations that cannot be had, and fails for other reasons; each call is counted", async () => {
  loggedLines();
  const lab = new Lab();
  const unknown = [
    new PodNotFoundError("no pod"),
    new NotReadyError("no Node"),
    new KubeUnreachableError("no answer"),
  ];
  for (const error of unknown) {
    lab.find = () => Promise.reject(error);
    assert.equal((await lab.add()).exitCode, 0, error.message);
  }
  lab.find = () => Promise.reject(new TypeError("a fault"));
  await assert.rejects(lab.add(), /a fault/);
  const metrics = await lab.registry.metrics();
  assert.match(metrics, /calls_total\{command="ADD",result="ok"\} 3\n/);
  assert.match(metrics, /calls_total\{command="ADD",result="error"\} 1\n/);
  for (const phase of ["lock", "annotations", "network"]) {
    assert.match(metrics, new RegExp(`_count\\{phase="${phase}"\\} 4\n`));
  }
});

Deno.test("CoordinatorCalls makes calls for one container one after the other, and others beside them", async () => {
  loggedLines();
  const lab = new Lab();
  const answers: (() => void)[] = [];
  lab.find = () =>
    new Promise((_resolve, reject) =>
      answers.push(() => reject(new PodNotFoundError("web")))
    );
  const calls = [
    lab.add(),
    lab.add(),
    lab.add({ containerId: "other" }),
  ];
  await settle();
  assert.equal(lab.asked.length, 2);
  for (let i = 0; i < 3; i++) {
    answers[i]?.();
    await settle();
  }
  assert.equal(lab.asked.length, 3);
  await Promise.all(calls);
});

/** Makes an ADD whose probes find that; what the pod's owner is shown. */
async function eventsOf(
  probes: Partial<Probes>,
  args: Readonly<Record<string, string>> = ARGS,
) {
  loggedLines();
  const closed = {
    [Symbol.dispose]() {},
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const network = {
    links: [linkOf(2, { name: "eth0" })],
    addresses: [addressEntry(2, "10.6.0.100/24")],
    routes: [defaultRoute(2, "10.6.0.1")],
  };
  const machine = {
    shared: () => readShared(NOTHING_SHARED),
    probes: {
      findConflict: () => Promise.resolve(undefined),
      answers: () => Promise.resolve(true),
      ...probes,
    },
    openPodNetns: () => closed,
    openFilters: () => closed,
    openRoutes: () => new FakeNetwork(network),
  } as unknown as CoordinatorCallsOptions["machine"]; // all that is used
  const events: unknown[] = [];
  const calls = new CoordinatorCalls({
    machine,
    pods: { find: () => Promise.reject(new PodNotFoundError("web")) },
    events: {
      record: (pod, { type, reason, annotations }) =>
        events.push([pod, type, reason, annotations]),
    },
    metrics: new CoordinatorMetrics(createRegistry(), {
      ageSeconds: 1,
      countPods: () => Promise.resolve(0),
    }),
    locks: new KeyedMutex(),
  });
  const call = {
    command: "ADD",
    conf: parseConfig(JSON.stringify({
      cniVersion: "1.0.0",
      name: "n",
      type: "coordinator",
      serviceCIDR: ["10.96.0.0/12"],
      detectGateway: true,
      detectIPConflict: true,
      prevResult: { cniVersion: "1.0.0" },
    })),
    request: { containerId: "cid", ifname: "eth0", netns: "/x", args },
  } as unknown as PluginCall; // all that is used
  const { signal } = new AbortController();
  await assert.rejects(calls.perform(call, { signal }), CniError);
  return events;
}

Deno.test("CoordinatorCalls shows the pod's owner which machine has its address, or that its gateway is silent", async () => {
  const answers = () => Promise.resolve(false);
  const findConflict = () => Promise.resolve("02:00:00:00:00:99");
  const annotations = { [CONTAINER_ID_ANNOTATION]: "cid" };
  const of = (reason: string, uid?: string) => [
    [{ namespace: "apps", name: "web", uid }, "Warning", reason, annotations],
  ];
  assert.deepEqual(await eventsOf({ answers }), of("GatewayUnreachable"));
  assert.deepEqual(await eventsOf({ findConflict }), of("AddressConflict"));
  const told = { ...ARGS, K8S_POD_UID: "u" };
  assert.deepEqual(
    await eventsOf({ answers }, told),
    of("GatewayUnreachable", "u"),
  );
  const { K8S_POD_NAME: _, ...nameless } = ARGS;
  assert.deepEqual(await eventsOf({ answers }, nameless), []);
});
