import assert from "node:assert/strict";
import { parseConfig } from "../cni/mod.ts";
import type { JsonObject } from "../json/mod.ts";
import type { Netns } from "../linux/mod.ts";
import { addressEntry } from "../netlink/testing.ts";
import { NOTHING_SHARED, readShared } from "./config/shared.ts";
import type { Filters, Outside } from "./kernel/ports.ts";
import { type CoordinatorCall, runCoordinator } from "./run.ts";
import { FakeNetwork, isRefusal, linkOf } from "./testing.ts";

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

Deno.test("runCoordinator() prints the result of the plugin before as it came", async () => {
  assert.deepEqual(JSON.parse((await run()).printed), RESULT);
  await assert.rejects(
    run({ config: { prevResult: undefined } }),
    isRefusal(7, /prevResult/),
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
  await assert.rejects(run({ annotations }), isRefusal(7, /./));
  await run({ annotations: { [KEY]: 5 as unknown as string } });
  await run({ annotations: { [KEY]: "net1" } });
});

Deno.test("runCoordinator() says in STATUS what is missing, by the code for that", async () => {
  const status = async (config: JsonObject) =>
    (await run({ command: "STATUS", config })).printed;
  const mode = "auto";
  assert.equal(await status({ mode, serviceCIDR: ["10.96.0.0/12"] }), "");
  await assert.rejects(status({ mode }), isRefusal(50, /not found/));
  await assert.rejects(status({ podRPFilter: 7 }), isRefusal(50, /rp_filter/));
  // As ADD, which does nothing then.
  assert.equal(await status({ mode: "disable" }), "");
});

/** Makes a call for net2 in a pod of three interfaces. Returns by which of them it looked for the pod's link to the host, what it closed, and its error. */
async function called(
  command: CoordinatorCall["command"],
  config: JsonObject = {},
  changes: Partial<Outside> = {},
) {
  const asked: string[] = [];
  const closed: string[] = [];
  const close = (what: string) => ({
    [Symbol.dispose]: () => void closed.push(what),
    [Symbol.asyncDispose]: () => Promise.resolve(void closed.push(what)),
  });
  const netns = close("netns") as unknown as Netns; // handed on
  const links = ["eth0", "net1", "net2"].map((name, n) => linkOf(n, { name }));
  const addresses = [addressEntry(2, "10.7.0.100/24")];
  const outside = {
    shared: () => readShared(NOTHING_SHARED),
    openPodNetns: () => netns,
    openRoutes: (side) =>
      Object.assign(
        new FakeNetwork(side === netns ? { links, addresses } : {}),
        close(side === netns ? "pod" : "host"),
      ),
    openFilters: () => close("filters") as Partial<Filters> as Filters,
    openNamespaces: () => ({
      ofPeer: () => Promise.resolve(undefined),
      ...close("namespaces"),
    }),
    findHostEnd({ link }) {
      asked.push(link.name);
      return Promise.resolve(undefined);
    },
    warn() {},
    ...changes,
  } as Partial<Outside> as Outside; // all that is used
  const call: CoordinatorCall = {
    command,
    conf: parseConfig(JSON.stringify({
      cniVersion: "1.0.0",
      name: "n",
      type: "coordinator",
      prevResult: RESULT,
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
  const error = await runCoordinator(outside, call)
    .then(() => undefined, (error: unknown) => error);
  return { asked, closed: closed.sort(), error };
}

Deno.test("runCoordinator() goes by the configuration's first interface in DEL, and by no configuration that ADD would refuse", async () => {
  const asked = async (config: JsonObject) =>
    (await called("DEL", config)).asked;
  assert.deepEqual(await asked({}), ["eth0"]);
  assert.deepEqual(await asked({ podDefaultCniNic: "net1" }), ["net1"]);
  const refused = { podDefaultCniNic: "net1", podRPFilter: 7 };
  assert.deepEqual(await asked(refused), ["eth0"]);
});

const OPENED = ["filters", "host", "netns", "pod"];

Deno.test("runCoordinator() closes all that it has opened, and the pod's tables when its caller says so", async () => {
  for (const command of ["ADD", "CHECK", "DEL"] as const) {
    const config = { serviceCIDR: ["10.96.0.0/12"], mode: "overlay" };
    assert.deepEqual((await called(command, config)).closed, OPENED, command);
  }
  assert.deepEqual((await called("GC")).closed, ["host", "namespaces"]);
  const work: (() => Promise<void>)[] = [];
  const later: Outside["later"] = (fn) => void work.push(fn);
  const { closed } = await called("DEL", {}, { later });
  assert.deepEqual(closed, OPENED.slice(1));
  await work[0]?.();
  assert.deepEqual(closed.sort(), OPENED);
});

Deno.test("runCoordinator() says in ADD and CHECK that the pod's namespace is not there; DEL needs none", async () => {
  const config = { serviceCIDR: ["10.96.0.0/12"], mode: "overlay" };
  const gone = { openPodNetns: () => undefined };
  for (const command of ["ADD", "CHECK"] as const) {
    const { error } = await called(command, config, gone);
    assert.ok(
      isRefusal(4, /"\/run\/netns\/none" is not there/)(error),
      command,
    );
  }
  assert.equal((await called("DEL", config, gone)).error, undefined);
});

Deno.test("runCoordinator() joins no interface while it is not known where the Services are", async () => {
  const { error, closed } = await called("ADD", { mode: "overlay" });
  assert.ok(isRefusal(11, /./)(error));
  assert.deepEqual(closed, []);
});

Deno.test("runCoordinator() checks an interface that was joined, also while its annotations cannot be had", async () => {
  const asked = async (config: JsonObject, changes: Partial<Outside> = {}) =>
    (await called("CHECK", config, changes)).asked;
  const overlay = { mode: "overlay" };
  assert.deepEqual(await asked(overlay), ["eth0"]);
  const annotationsOf = () => Promise.reject(new Error("no answer"));
  assert.deepEqual(await asked(overlay, { annotationsOf }), ["eth0"]);
  assert.deepEqual(await asked({ mode: "disable" }), []);
  // It may have been so in the defaults that are gone.
  assert.deepEqual(await asked({}), []);
  assert.deepEqual(await asked({ serviceCIDR: ["10.96.0.0/12"] }), ["eth0"]);
});
