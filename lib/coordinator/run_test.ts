import assert from "node:assert/strict";
import { CniError, parseConfig } from "../cni/mod.ts";
import type { JsonObject } from "../json/mod.ts";
import { NOTHING_SHARED, readShared } from "./config/shared.ts";
import type { Outside } from "./kernel/ports.ts";
import { type CoordinatorCall, runCoordinator } from "./run.ts";

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
  const works = { serviceCIDR: ["10.96.0.0/12"] };
  assert.equal((await run({ command: "STATUS", config: works })).printed, "");
  await assert.rejects(run({ command: "STATUS" }), isCode(50, /./));
  const config = { podRPFilter: 7 };
  await assert.rejects(run({ command: "STATUS", config }), isCode(50, /./));
});
