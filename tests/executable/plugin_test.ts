import assert from "node:assert/strict";
import { CallError } from "../../roles/coild/base/errors.ts";
import { callPlugin, CannedCoild } from "./testing.ts";

/** What coild answers for a pod of both families. */
const DUAL = {
  cniVersion: "1.1.0",
  interfaces: [
    { mac: "0a:6e:00:00:00:01", name: "eth0", sandbox: "/run/netns/b0" },
    { mac: "0a:6e:00:00:00:02", name: "veth2fb6b94f" },
  ],
  ips: [
    { address: "10.1.2.3/32", interface: 0 },
    { address: "fd02::1/128", interface: 0 },
  ],
};

const dual = () => Promise.resolve(DUAL);

/** The arguments that coild got: the same by both ways. */
const echoed = async (conf: Record<string, unknown>, env = {}) => {
  const seen: Record<string, unknown>[] = [];
  await using coild = await CannedCoild.start((args) => {
    const { stdinData, ...rest } = args;
    seen.push({ ...rest, stdin: new TextDecoder().decode(stdinData) });
    return dual();
  });
  const output = await callPlugin(env, { socket: coild.socket, ...conf });
  assert.equal(output.code, 0, output.stdout);
  const [first, second] = seen;
  assert.ok(first !== undefined && seen.length === 2);
  assert.deepEqual(second, first);
  return first;
};

for (const version of ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
  Deno.test(`ADD prints a result of ${version}`, async () => {
    await using coild = await CannedCoild.start(dual);
    const { socket } = coild;
    const output = await callPlugin({}, { cniVersion: version, socket });
    const golden = new URL(
      `../golden/cni/add-${version}.json`,
      import.meta.url,
    );
    assert.equal(output.stdout, await Deno.readTextFile(golden));
    assert.equal(output.stderr, "");
    assert.equal(output.code, 0);
  });
}

Deno.test("ADD hands over environment and configuration", async () => {
  const args = await echoed({ extra: { kept: true } });
  assert.equal(args["containerId"], "cid0");
  assert.equal(args["netns"], "/run/netns/b0");
  assert.equal(args["ifname"], "eth0");
  assert.equal(args["path"], "/opt/cni/bin");
  assert.deepEqual(args["args"], {
    K8S_POD_NAME: "pod",
    K8S_POD_NAMESPACE: "ns",
    K8S_POD_INFRA_CONTAINER_ID: "cid0",
    K8S_POD_UID: "uid",
    IS_CHAINED: "false",
  });
  assert.match(String(args["stdin"]), /"extra":\{"kept":true\}\}$/);
});

Deno.test("ADD hands over a configuration larger than every window", async () => {
  const padding = "x".repeat(400_000);
  const args = await echoed({ padding });
  assert.equal(JSON.parse(String(args["stdin"])).padding, padding);
});

Deno.test("ADD in a chain echoes prevResult in the configured version", async () => {
  await using coild = await CannedCoild.start(() => Promise.resolve({}));
  const { socket } = coild;
  const prevResult = { ...DUAL, cniVersion: "1.0.0" };
  const conf = { cniVersion: "1.0.0", socket, prevResult };
  const { stdout } = await callPlugin({}, conf);
  assert.deepEqual(JSON.parse(stdout), prevResult);
});

for (
  const [command, conf] of [
    ["DEL", {}],
    ["CHECK", { prevResult: DUAL }],
    ["GC", { "cni.dev/valid-attachments": [] }],
    ["STATUS", {}],
  ] as const
) {
  Deno.test(`${command} prints nothing`, async () => {
    await using coild = await CannedCoild.start(dual);
    const { socket } = coild;
    const env = { CNI_COMMAND: command };
    const output = await callPlugin(env, { socket, ...conf });
    assert.deepEqual(output, { code: 0, stdout: "", stderr: "" });
  });
}

Deno.test("VERSION answers on one line", async () => {
  const env = { CNI_COMMAND: "VERSION" };
  const { code, stdout } = await callPlugin(env, '{"cniVersion":"1.0.0"}');
  assert.equal(
    stdout,
    '{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]}\n',
  );
  assert.equal(code, 0);
});

/** Appendix A.6 of the specification, and more. */
const ERRORS: [string, Record<string, string>, object | string, number][] = [
  ["broken JSON", {}, "{", 6],
  ["no CNI_IFNAME", { CNI_IFNAME: "" }, {}, 4],
  ["an unknown key in CNI_ARGS", { CNI_ARGS: "A=b" }, {}, 4],
  ["an incompatible version", {}, { cniVersion: "0.2.0" }, 1],
  ["a network without a name", {}, { name: "" }, 7],
  ["GC of 0.4.0", { CNI_COMMAND: "GC" }, { cniVersion: "0.4.0" }, 1],
  ["STATUS of 0.4.0", { CNI_COMMAND: "STATUS" }, { cniVersion: "0.4.0" }, 1],
  ["the plugin's own netns", { CNI_NETNS: "/proc/self/ns/net" }, {}, 8],
  ["an absent socket", {}, {}, 11],
  ["an absent socket upon DEL", { CNI_COMMAND: "DEL" }, {}, 11],
  ["an absent socket upon STATUS", { CNI_COMMAND: "STATUS" }, {}, 50],
];

for (const [what, env, conf, code] of ERRORS) {
  Deno.test(`error ${code} upon ${what}`, async () => {
    const absent = { socket: "/nowhere/coild.sock" };
    const output = await callPlugin(
      env,
      typeof conf === "string" ? conf : { ...absent, ...conf },
    );
    assert.equal(output.code, 1);
    assert.equal(output.stderr, "");
    const error = JSON.parse(output.stdout);
    assert.equal(error.code, code);
    assert.ok(error.msg && error.cniVersion);
    assert.equal(output.stdout, JSON.stringify(error, undefined, 4));
  });
}

Deno.test("the absent socket is named, and what to do about it", async () => {
  const { stdout } = await callPlugin({}, { socket: "/nowhere/coild.sock" });
  const { msg, details } = JSON.parse(stdout);
  assert.equal(msg, "coild is not running on this node or still starting");
  assert.match(details, /"\/nowhere\/coild\.sock": No such file/);
});

Deno.test("error 11 when nobody listens any more", async () => {
  const directory = await Deno.makeTempDir();
  const socket = `${directory}/left`;
  // Closing removes the socket, but not under another name.
  const listener = Deno.listen({ transport: "unix", path: `${directory}/s` });
  await Deno.rename(`${directory}/s`, `${socket}.cni`);
  listener.close();
  const { stdout } = await callPlugin({ CNI_COMMAND: "DEL" }, { socket });
  await Deno.remove(directory, { recursive: true });
  const { code, details } = JSON.parse(stdout);
  assert.equal(code, 11);
  assert.match(details, /refused/);
});

Deno.test("SV-14: coild's error arrives whole", async () => {
  await using coild = await CannedCoild.start(() => {
    throw new CallError("no address left", {
      status: 8,
      code: 11,
      details: "pool default",
    });
  });
  const { socket } = coild;
  const { stdout } = await callPlugin({}, { cniVersion: "0.4.0", socket });
  assert.deepEqual(JSON.parse(stdout), {
    cniVersion: "0.4.0",
    code: 11,
    msg: "no address left",
    details: "pool default",
  });
});

Deno.test("fifty plugins at once all get their own answer", async () => {
  await using coild = await CannedCoild.start((args) =>
    Promise.resolve({
      cniVersion: "1.1.0",
      interfaces: [{ name: args.containerId }],
    })
  );
  const { socket } = coild;
  const ids = Array.from({ length: 50 }, (_, i) => `cid${i}`);
  const names = await Promise.all(ids.map(async (id) => {
    const { stdout } = await callPlugin({ CNI_CONTAINERID: id }, { socket });
    return JSON.parse(stdout).interfaces?.[0].name ?? stdout;
  }));
  assert.deepEqual(names, ids);
});
