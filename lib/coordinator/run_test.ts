import assert from "node:assert/strict";
import { CniError, parseConfig } from "../cni/mod.ts";
import type { JsonObject } from "../json/mod.ts";
import type { Netns } from "../linux/mod.ts";
import { NOTHING_SHARED, readShared } from "./config/shared.ts";
import type { Filters, Outside } from "./kernel/ports.ts";
import { type CoordinatorCall, runCoordinator } from "./run.ts";
import { FakeNetwork, linkOf } from "./testing.ts";

const KEY = "ipam.spidernet.io/default-route-nic";
const RESULT = { cniVersion: "1.0.0", ips: [{ address: "10.7.0.100/24" }] };
const ARGS = { K8S_POD_NAMESPACE: "apps", K8S_POD_NAME: "web" };

/** Makes a call that needs no kernel. Returns its outcome, and what was asked and said during it. */
async function run(
  { ifname = "net1", config = {}, annotations, command = "ADD" }: {
    readonly ifname?: string;
    readonly config?: JsonObject;
    readonly annotations?: Readonly<Record<string, string>> | undefined;
    readonly command?: "ADD" | "STATUS";
  } = {},
) {
  const asked: unknown[] = [];
  const warnings: unknown[] = [];
  const outside = {
    shared: () => readShared(NOTHING_SHARED),
    annotationsOf(args) {
      asked.push(args);
      return Promise.resolve(annotations);
    },
    warn: (_message, fields) => warnings.push(fields),
  } as Partial<Outside> as Outside; // all that such calls use
  const call: CoordinatorCall = {
    command,
    conf: parseConfig(JSON.stringify({
      cniVersion: "1.0.0",
      name: "n",
      type: "coordinator",
      mode: "disable",
      prevResult: RESULT,
      ...config,
    })),
    request: {
      containerId: "cid",
      ifname,
      netns: "/run/netns/none",
      args: ARGS,
      ips: [],
      validAttachments: [],
    },
  };
  const printed = await runCoordinator(outside, call);
  return { asked, warnings, printed };
}

function isCode(code: number, message: RegExp): (error: unknown) => boolean {
  return (error) =>
    error instanceof CniError && error.code === code &&
    message.test(error.message);
}

Deno.test("runCoordinator() prints the result of the plugin before as it came", async () => {
  assert.deepEqual(JSON.parse((await run()).printed), RESULT);
  await assert.rejects(
    run({ config: { prevResult: undefined } }),
    isCode(7, /prevResult/),
  );
});

Deno.test("runCoordinator() asks for the annotations where the default route's interface depends on them", async () => {
  assert.deepEqual((await run({ annotations: {} })).asked, [ARGS]);
  assert.deepEqual((await run({ ifname: "eth0" })).asked, []);
  const first = { config: { podDefaultCniNic: "net1" } };
  assert.deepEqual((await run(first)).asked, []);
  const decided = { config: { podDefaultRouteNic: "eth0" } };
  assert.deepEqual((await run(decided)).asked, []);
  const ofRuntime = (given: unknown) => ({
    config: {
      runtimeConfig: { "io.kubernetes.cri.pod-annotations": given },
    } as JsonObject,
  });
  assert.deepEqual((await run(ofRuntime({}))).asked, []);
  assert.deepEqual((await run(ofRuntime("x"))).asked, [ARGS]);
});

Deno.test("runCoordinator() says whose annotations are not known", async () => {
  const { warnings } = await run();
  assert.deepEqual(warnings, [
    { iface: "net1", pod: "web", namespace: "apps" },
  ]);
  assert.deepEqual((await run({ annotations: {} })).warnings, []);
});

Deno.test("runCoordinator() refuses an annotation that cannot be an interface, and passes over what is no text", async () => {
  const annotations = { [KEY]: "a name that is too long" };
  await assert.rejects(run({ annotations }), isCode(7, /./));
  await run({ annotations: { [KEY]: 5 as unknown as string } });
  await run({ annotations: { [KEY]: "net1" } });
});

Deno.test("runCoordinator() says in STATUS what is missing, by the code for that", async () => {
  const status = async (config: JsonObject) =>
    (await run({ command: "STATUS", config })).printed;
  const mode = "auto";
  assert.equal(await status({ mode, serviceCIDR: ["10.96.0.0/12"] }), "");
  await assert.rejects(status({ mode }), isCode(50, /not found/));
  await assert.rejects(status({ podRPFilter: 7 }), isCode(50, /rp_filter/));
  // As ADD, which does nothing then.
  assert.equal(await status({ mode: "disable" }), "");
});

/** Makes a DEL of net2 in a pod of three interfaces. Returns by which of them it looked for the pod's link to the host, and what it closed. */
async function deleted(config: JsonObject, later?: Outside["later"]) {
  const asked: string[] = [];
  const closed: string[] = [];
  const close = (what: string) => ({
    [Symbol.dispose]: () => void closed.push(what),
    [Symbol.asyncDispose]: () => Promise.resolve(void closed.push(what)),
  });
  const netns = close("netns") as unknown as Netns; // handed on
  const links = ["eth0", "net1", "net2"].map((name, n) => linkOf(n, { name }));
  const outside = {
    openPodNetns: () => netns,
    openRoutes: (side) =>
      Object.assign(
        new FakeNetwork(side === netns ? { links } : {}),
        close(side === netns ? "pod" : "host"),
      ),
    openFilters: () => close("filters") as Partial<Filters> as Filters,
    findHostEnd({ link }) {
      asked.push(link.name);
      return Promise.resolve(undefined);
    },
    later,
  } as Partial<Outside> as Outside; // all that is used
  const call: CoordinatorCall = {
    command: "DEL",
    conf: parseConfig(JSON.stringify({
      cniVersion: "1.0.0",
      name: "n",
      type: "coordinator",
      ...config,
    })),
    request: {
      containerId: "cid",
      ifname: "net2",
      netns: "/run/netns/none",
      args: ARGS,
      ips: [],
      validAttachments: [],
    },
  };
  await runCoordinator(outside, call);
  return { asked, closed };
}

Deno.test("runCoordinator() goes by the configuration's first interface in DEL, and by no configuration that ADD would refuse", async () => {
  const asked = async (config: JsonObject) => (await deleted(config)).asked;
  assert.deepEqual(await asked({}), ["eth0"]);
  assert.deepEqual(await asked({ podDefaultCniNic: "net1" }), ["net1"]);
  const refused = { podDefaultCniNic: "net1", podRPFilter: 7 };
  assert.deepEqual(await asked(refused), ["eth0"]);
});

Deno.test("runCoordinator() closes all that it has opened, and the pod's tables when its caller says so", async () => {
  const all = ["filters", "host", "netns", "pod"];
  assert.deepEqual((await deleted({})).closed.sort(), all);
  const work: (() => Promise<void>)[] = [];
  const { closed } = await deleted({}, (fn) => void work.push(fn));
  assert.deepEqual(closed.sort(), all.slice(1));
  await work[0]?.();
  assert.deepEqual(closed.sort(), all);
});
