import assert from "node:assert/strict";
import { CniError, parseResult } from "../cni/mod.ts";
import {
  answerWith,
  NoAnswerError,
  type PluginCall,
  type PluginPorts,
  runPlugin,
} from "./mod.ts";

const RESULT = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "eth0", sandbox: "/run/netns/b0" }],
  ips: [{ address: "10.1.2.3/32", interface: 0 }],
};

const ENV: Record<string, string> = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid0",
  CNI_NETNS: "/run/netns/b0",
  CNI_IFNAME: "eth0",
  CNI_ARGS:
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=infra;K8S_POD_UID=uid;X=y",
  CNI_PATH: "/opt/cni/bin",
};

interface Scene {
  readonly env?: Record<string, string>;
  readonly conf?: Record<string, unknown> | string;
  /** What coild answers to ADD, or fails with. */
  readonly answer?: unknown;
  readonly fails?: unknown;
  readonly isOwnNetns?: boolean;
}

async function run(scene: Scene) {
  const calls: PluginCall[] = [];
  const env = new Map(Object.entries({ ...ENV, ...scene.env }));
  const { conf = {} } = scene;
  const stdin = typeof conf === "string" ? conf : JSON.stringify({
    cniVersion: "1.1.0",
    name: "k8s-pod-network",
    type: "coil",
    ...conf,
  });
  const outside: PluginPorts = {
    env: (name) => env.get(name),
    readStdin: () => new TextEncoder().encode(stdin),
    perform: async (call) => {
      calls.push(call);
      if (scene.fails !== undefined) throw scene.fails;
      if (call.command !== "ADD") return answerWith(call, undefined);
      return answerWith(call, parseResult(scene.answer ?? RESULT));
    },
    isOwnNetns: () => scene.isOwnNetns ?? false,
    defaultSocket: "/run/coild.sock",
  };
  const { stdout, exitCode } = await runPlugin(outside);
  const [call] = calls;
  return {
    exitCode,
    stdout,
    json: stdout === "" ? undefined : JSON.parse(stdout),
    calls: calls.length,
    socketPath: call?.socketPath,
    command: call?.command,
    request: call?.request,
    stdin,
  };
}

Deno.test("ADD asks coild and prints its result", async () => {
  const answer = await run({});
  assert.equal(answer.exitCode, 0);
  assert.equal(answer.stdout, JSON.stringify(RESULT, undefined, 4));
  assert.equal(answer.command, "ADD");
  assert.equal(answer.socketPath, "/run/coild.sock");
  const { request } = answer;
  assert.ok(request);
  assert.equal(request.containerId, "cid0");
  assert.equal(request.netns, "/run/netns/b0");
  assert.equal(request.ifname, "eth0");
  assert.equal(request.path, "/opt/cni/bin");
  assert.equal(new TextDecoder().decode(request.stdinData), answer.stdin);
  assert.deepEqual(request.args, {
    K8S_POD_NAME: "pod",
    K8S_POD_NAMESPACE: "ns",
    K8S_POD_INFRA_CONTAINER_ID: "infra",
    K8S_POD_UID: "uid",
    IS_CHAINED: "false",
  });
  assert.deepEqual(request.ips, []);
  assert.deepEqual(request.interfaces, {});
});

Deno.test("the three keys of Kubernetes are always sent", async () => {
  const { request } = await run({ env: { CNI_ARGS: "" } });
  assert.deepEqual(request?.args, {
    K8S_POD_NAME: "",
    K8S_POD_NAMESPACE: "",
    K8S_POD_INFRA_CONTAINER_ID: "",
    IS_CHAINED: "false",
  });
});

Deno.test("SV-13: the socket is the configuration's", async () => {
  const { socketPath } = await run({ conf: { socket: "/run/other.sock" } });
  assert.equal(socketPath, "/run/other.sock");
});

const PREV_RESULT = {
  interfaces: [
    { name: "eth0", sandbox: "/run/netns/b0" },
    { name: "veth0" },
  ],
  ips: [
    { version: "4", address: "10.1.2.3/24", interface: 0 },
    { version: "6", address: "fd02::1/64", interface: 0 },
  ],
};

Deno.test("SV-13: a chained ADD hands prevResult on, and echoes it", async () => {
  const conf = { cniVersion: "0.4.0", prevResult: PREV_RESULT };
  const { request, json } = await run({ conf });
  assert.equal(request?.args["IS_CHAINED"], "true");
  assert.deepEqual(request.ips, ["10.1.2.3", "fd02::1"]);
  assert.deepEqual(request.interfaces, { eth0: true, veth0: false });
  assert.deepEqual(json, { cniVersion: "0.4.0", ...PREV_RESULT, dns: {} });
});

const SILENT: [string, Record<string, unknown>][] = [
  ["DEL", {}],
  ["CHECK", { prevResult: PREV_RESULT }],
  ["GC", { "cni.dev/valid-attachments": [] }],
  ["STATUS", {}],
];

for (const [command, conf] of SILENT) {
  Deno.test(`${command} asks coild and prints nothing`, async () => {
    const answer = await run({ env: { CNI_COMMAND: command }, conf });
    assert.equal(answer.stdout, "");
    assert.equal(answer.exitCode, 0);
    assert.equal(answer.command, command);
  });
}

Deno.test("GC hands the valid attachments over", async () => {
  const { request } = await run({
    env: { CNI_COMMAND: "GC", CNI_CONTAINERID: "", CNI_IFNAME: "" },
    conf: {
      "cni.dev/valid-attachments": [{ containerID: "c", ifname: "eth0" }],
    },
  });
  const [attachment] = request?.validAttachments ?? [];
  assert.equal(attachment?.containerId, "c");
  assert.equal(attachment?.ifname, "eth0");
});

Deno.test("DEL works with a prevResult that nobody can read", async () => {
  const answer = await run({
    env: { CNI_COMMAND: "DEL" },
    conf: { prevResult: { ips: "x" } },
  });
  assert.equal(answer.exitCode, 0);
  assert.equal(answer.calls, 1);
});

Deno.test("VERSION answers without reading stdin", async () => {
  const answer = await run({ env: { CNI_COMMAND: "VERSION" }, conf: "{" });
  assert.equal(
    answer.stdout,
    '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]}\n',
  );
});

const ABSENT = new NoAnswerError(
  "coild is not running on this node or still starting",
  { details: 'socket "/run/coild.sock": No such file or directory' },
);

const ERRORS: [string, Scene, number, RegExp][] = [
  ["a missing variable", { env: { CNI_IFNAME: "" } }, 4, /CNI_IFNAME/],
  ["CNI_ARGS that are unknown", { env: { CNI_ARGS: "A=b" } }, 4, /"A=b"/],
  ["broken JSON", { conf: "{" }, 6, /unmarshall/],
  ["a foreign version", { conf: { cniVersion: "0.2.0" } }, 1, /incompatible/],
  [
    "GC before 1.1.0",
    { env: { CNI_COMMAND: "GC" }, conf: { cniVersion: "0.4.0" } },
    1,
    /does not allow GC/,
  ],
  [
    "STATUS before 1.1.0",
    { env: { CNI_COMMAND: "STATUS" }, conf: { cniVersion: "1.0.0" } },
    1,
    /does not allow STATUS/,
  ],
  [
    "CHECK before 0.4.0",
    { env: { CNI_COMMAND: "CHECK" }, conf: { cniVersion: "0.3.1" } },
    1,
    /does not allow CHECK/,
  ],
  ["CHECK without prevResult", { env: { CNI_COMMAND: "CHECK" } }, 7, /prevRes/],
  ["GC without its list", { env: { CNI_COMMAND: "GC" } }, 7, /attachments/],
  ["a name that is missing", { conf: { name: "" } }, 7, /missing network name/],
  ["an absent coild", { fails: ABSENT }, 11, /coild is not running/],
  [
    "an absent coild upon DEL",
    { env: { CNI_COMMAND: "DEL" }, fails: ABSENT },
    11,
    /coild is not running/,
  ],
  [
    "an absent coild upon STATUS",
    { env: { CNI_COMMAND: "STATUS" }, fails: ABSENT },
    50,
    /coild is not running/,
  ],
  ["something unexpected", { fails: new TypeError("oops") }, 999, /^oops$/],
];

for (const [what, scene, code, message] of ERRORS) {
  Deno.test(`error ${code} upon ${what}`, async () => {
    const { json, exitCode, stdout } = await run(scene);
    assert.equal(exitCode, 1);
    assert.equal(json.code, code);
    assert.match(json.msg, message);
    assert.equal(stdout, JSON.stringify(json, undefined, 4));
  });
}

Deno.test("SV-14: code, message and details of coild's error survive", async () => {
  const fails = new CniError("no address left", {
    code: 11,
    details: "pool default",
  });
  const { json } = await run({ conf: { cniVersion: "0.4.0" }, fails });
  assert.deepEqual(json, {
    cniVersion: "0.4.0",
    code: 11,
    msg: "no address left",
    details: "pool default",
  });
});

Deno.test("an error has a version even if the configuration has none", async () => {
  const { json } = await run({ conf: "{" });
  assert.equal(json.cniVersion, "1.1.0");
});

Deno.test("ADD refuses the plugin's own netns before anything is made", async () => {
  const scene = { isOwnNetns: true };
  const refused = await run(scene);
  assert.equal(refused.json.code, 8);
  assert.equal(refused.calls, 0);
  const override = await run({ ...scene, env: { CNI_NETNS_OVERRIDE: "1" } });
  assert.equal(override.exitCode, 0);
});

Deno.test("DEL complains about the own netns when all is released", async () => {
  const env = { CNI_COMMAND: "DEL" };
  const answer = await run({ env, isOwnNetns: true });
  assert.equal(answer.json.code, 8);
  assert.equal(answer.calls, 1);
});

Deno.test("stdin that cannot be read is an I/O failure", async () => {
  const { stdout } = await runPlugin({
    env: (name) => ENV[name],
    readStdin: () => {
      throw new Deno.errors.BrokenPipe("gone");
    },
    perform: () => assert.fail("called"),
    isOwnNetns: () => false,
    defaultSocket: "/nowhere",
  });
  assert.equal(JSON.parse(stdout).code, 5);
});
