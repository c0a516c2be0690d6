import assert from "node:assert/strict";
import type { PluginAnswer } from "../../lib/cnirpc/plugin/mod.ts";
import { runCoordinator } from "../../lib/coordinator/mod.ts";
import { coordinatorPlaces } from "../../lib/names/mod.ts";
import type { PluginCall } from "../../lib/plugin/mod.ts";
import { servePlugins } from "../../roles/coild/server/plugin_server.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import { type Countdown, failing } from "../netns/coordinator_faults.ts";
import { CoordinatorLab, reaches } from "../netns/coordinator_lab.ts";
import { CannedCoild, CNI_ENV, pathOf, run, runFile } from "./testing.ts";

const CONF = JSON.stringify({
  cniVersion: "1.1.0",
  name: "underlay",
  type: "coordinator",
  serviceCIDR: ["10.233.0.0/18"],
});

Deno.test("coordinator says which versions it speaks, and to a person what it is", async () => {
  const { code, stdout } = await run("coordinator", {
    env: { CNI_COMMAND: "VERSION" },
  });
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(stdout).supportedVersions, [
    "0.3.1",
    "0.4.0",
    "1.0.0",
    "1.1.0",
  ]);
  const person = await run("coordinator");
  assert.match(person.stderr, /^CNI plugin coordinator v/);
});

Deno.test("coordinator says by STATUS whether it can join pods", async () => {
  const env = { CNI_COMMAND: "STATUS", CNI_PATH: "/opt/cni/bin" };
  const known = await run("coordinator", { env, stdin: CONF });
  assert.deepEqual(known, { code: 0, stdout: "", stderr: "" });
  const stdin = CONF.replace("serviceCIDR", "other");
  const { code, stdout } = await run("coordinator", { env, stdin });
  assert.equal(code, 1);
  assert.equal(JSON.parse(stdout).code, 50);
});

Deno.test("the front takes calls of coordinator to a socket of their own, and goes on as the whole program without an answer", async () => {
  const asked: string[] = [];
  await using coild = await CannedCoild.start((_, { method }) => {
    asked.push(method);
    return Promise.resolve({});
  });
  const directory = await Deno.makeTempDir();
  try {
    const executable = await pathOf("coil");
    await placePlugin(directory, { executable, socket: coild.socket });
    await Deno.symlink("coil", `${directory}/coordinator`);
    const plugin = `${directory}/coordinator`;
    // Else coild would leave the call to the executable.
    const stdin = JSON.stringify({
      ...JSON.parse(CONF),
      socket: coild.socket,
    });
    const input = { env: CNI_ENV, stdin };
    const msg = async (path: string) =>
      JSON.parse((await runFile(path, input)).stdout).msg;
    // A coild that does not know it is never asked.
    assert.equal(await msg(plugin), "missing prevResult");
    assert.deepEqual(asked, []);
    const stop = new AbortController();
    const calls: PluginCall[] = [];
    let answer: PluginAnswer | undefined = {
      exitCode: 1,
      stdout: '{"msg":"canned"}',
    };
    const { finished } = await servePlugins({
      socketPath: coordinatorPlaces(coild.socket).socketPath,
      signal: stop.signal,
      perform: (call) => {
        calls.push(call);
        return Promise.resolve(answer);
      },
    });
    assert.equal(await msg(plugin), "canned");
    assert.deepEqual(calls.map(({ conf }) => conf.type), ["coordinator"]);
    answer = undefined;
    assert.equal(await msg(plugin), "missing prevResult");
    assert.equal(calls.length, 2);
    assert.deepEqual(asked, []);
    await runFile(`${directory}/coil`, input);
    assert.deepEqual([asked, calls.length], [["Add"], 2]);
    stop.abort();
    await finished;
    // The socket of a coild that has ended.
    assert.equal(await msg(plugin), "missing prevResult");
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("coordinator alone takes the defaults that coild has written beside its socket", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const stdin = JSON.stringify({
      ...JSON.parse(CONF),
      serviceCIDR: [],
      socket: `${directory}/coild.sock`,
    });
    const env = { CNI_COMMAND: "STATUS", CNI_PATH: "/opt/cni/bin" };
    const status = async () => (await run("coordinator", { env, stdin })).code;
    assert.equal(await status(), 1);
    await Deno.writeTextFile(
      `${directory}/coordinator.json`,
      '{"format":1,"config":{"serviceCIDR":["10.96.0.0/12"]}}',
      { mode: 0o600 },
    );
    assert.equal(await status(), 0);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("coordinator alone joins an underlay pod to its host, checks it and lets it go", async () => {
  await using lab = await CoordinatorLab.start(["ipv4", "ipv6"]);
  const pod = await lab.pod([{ name: "eth0", network: 6, number: 100 }]);
  const program = await pathOf("coordinator");
  const call = async (command: string) => {
    const { code, stdout, stderr } = await runFile("nsenter", {
      args: [`--net=${lab.host.path}`, program],
      env: {
        ...CNI_ENV,
        CNI_COMMAND: command,
        CNI_CONTAINERID: pod.containerId,
        CNI_NETNS: pod.netns.path,
      },
      stdin: CONF.replace(/}$/, ',"prevResult":{"cniVersion":"1.1.0","x":1}}'),
    });
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  };
  assert.deepEqual(JSON.parse(await call("ADD")), {
    cniVersion: "1.1.0",
    x: 1,
  });
  assert.ok(await reaches(lab.host, "10.6.0.100"));
  assert.ok(await reaches(lab.host, "fd00:10:6::100"));
  await call("CHECK");
  await call("DEL");
  assert.equal(await reaches(lab.host, "10.6.0.100"), false);
});

Deno.test("the whole program completes what a coild that is killed at any step of ADD has begun", async () => {
  await using lab = await CoordinatorLab.start(["ipv4"]);
  const directory = await Deno.makeTempDir();
  const socket = `${directory}/coild.sock`;
  const executable = await pathOf("coil");
  await placePlugin(directory, { executable, socket });
  await Deno.symlink("coil", `${directory}/coordinator`);
  const stop = new AbortController();
  const { finished } = await servePlugins({
    socketPath: coordinatorPlaces(socket).socketPath,
    signal: stop.signal,
    // Nothing of it is answered, nor undone.
    perform: async (call) => {
      await runCoordinator(lab.outside(), call).catch(() => {});
      return undefined;
    },
  });
  try {
    for (let step = 0;; step++) {
      const number = 20 + step;
      const pod = await lab.pod([{ name: "eth0", network: 6, number }]);
      const at: Countdown = { left: step, andAllLater: true };
      lab.change = failing(at);
      const { code, stdout } = await runFile("nsenter", {
        args: [`--net=${lab.host.path}`, `${directory}/coordinator`],
        env: {
          ...CNI_ENV,
          CNI_CONTAINERID: pod.containerId,
          CNI_NETNS: pod.netns.path,
        },
        stdin: JSON.stringify({
          ...JSON.parse(CONF),
          socket,
          podRPFilter: 1,
          prevResult: { cniVersion: "1.1.0" },
        }),
      });
      assert.equal(code, 0, stdout);
      lab.change = (outside) => outside;
      const config = { ...JSON.parse(CONF), podRPFilter: 1 };
      await lab.ok("CHECK", pod, { config });
      assert.ok(await reaches(lab.host, `10.6.0.${number}`), `step ${step}`);
      await lab.ok("DEL", pod);
      if (at.left >= 0) {
        assert.ok(step > 8, `${step} steps`);
        break;
      }
    }
  } finally {
    stop.abort();
    await finished;
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("coordinator refuses an address that another machine has, and host-local gives the pod's next attempt another one", async () => {
  await using lab = await CoordinatorLab.start(["ipv4"]);
  const pod = await lab.pod([]);
  const program = await pathOf("coordinator");
  const name = `conflict-${crypto.randomUUID()}`;
  const taken = "10.6.0.200";
  await lab.switch.ip("address", "add", `${taken}/24`, "dev", "net6");
  const macvlan = {
    type: "macvlan",
    master: "net6",
    ipam: {
      type: "host-local",
      ranges: [[{
        subnet: "10.6.0.0/24",
        rangeStart: taken,
        rangeEnd: "10.6.0.201",
        gateway: "10.6.0.1",
      }]],
      routes: [{ dst: "0.0.0.0/0" }],
    },
  };
  const call = async (command: string, path: string, conf: object) => {
    const { code, stdout } = await runFile("nsenter", {
      args: [`--net=${lab.host.path}`, path],
      env: {
        ...CNI_ENV,
        CNI_COMMAND: command,
        CNI_PATH: "/usr/lib/cni",
        CNI_CONTAINERID: pod.containerId,
        CNI_NETNS: pod.netns.path,
      },
      stdin: JSON.stringify({ cniVersion: "1.0.0", name, ...conf }),
    });
    return { code, answer: stdout === "" ? {} : JSON.parse(stdout) };
  };
  /** As a runtime does: all plugins, and DEL of all after a failure. */
  const attempt = async () => {
    const first = await call("ADD", "/usr/lib/cni/macvlan", macvlan);
    assert.equal(first.code, 0, JSON.stringify(first.answer));
    const conf = {
      ...JSON.parse(CONF),
      cniVersion: "1.0.0",
      detectIPConflict: true,
      detectOptions: { timeout: "2s" },
      prevResult: first.answer,
    };
    const added = await call("ADD", program, conf);
    if (added.code === 0) return added.answer.ips[0].address;
    await call("DEL", program, conf);
    await call("DEL", "/usr/lib/cni/macvlan", macvlan);
    return `${added.answer.code} ${added.answer.msg}`;
  };
  try {
    assert.match(await attempt(), new RegExp(`^11 ip conflict.* ${taken} is`));
    assert.equal(await attempt(), "10.6.0.201/24");
    assert.ok(await reaches(lab.host, "10.6.0.201"));
  } finally {
    await Deno.remove(`/var/lib/cni/networks/${name}`, { recursive: true });
  }
});

Deno.test("coordinator comes after the distribution's macvlan, whose result it prints as it is", async () => {
  await using lab = await CoordinatorLab.start(["ipv4", "ipv6"]);
  const pod = await lab.pod([]);
  const program = await pathOf("coordinator");
  const add = async (nic: number) => {
    const network = 5 + nic;
    const call = async (path: string, conf: object) => {
      const { code, stdout, stderr } = await runFile("nsenter", {
        args: [`--net=${lab.host.path}`, path],
        env: {
          ...CNI_ENV,
          CNI_PATH: "/usr/lib/cni",
          CNI_IFNAME: nic === 1 ? "eth0" : `net${nic - 1}`,
          CNI_CONTAINERID: pod.containerId,
          CNI_NETNS: pod.netns.path,
        },
        stdin: JSON.stringify({ cniVersion: "1.0.0", name: "n", ...conf }),
      });
      assert.equal(code, 0, stdout + stderr);
      return JSON.parse(stdout);
    };
    const prevResult = await call("/usr/lib/cni/macvlan", {
      type: "macvlan",
      master: `net${network}`,
      ipam: {
        type: "static",
        addresses: [
          { address: `10.${network}.0.100/24`, gateway: `10.${network}.0.1` },
          {
            address: `fd00:10:${network}::100/64`,
            gateway: `fd00:10:${network}::1`,
          },
        ],
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    });
    const conf = { ...JSON.parse(CONF), cniVersion: "1.0.0", prevResult };
    assert.deepEqual(await call(program, conf), prevResult);
  };
  for (const nic of [1, 2, 3]) await add(nic);
  for (const network of [6, 7, 8]) {
    for (const prefix of [`10.${network}.0.`, `fd00:10:${network}::`]) {
      assert.ok(await reaches(lab.host, `${prefix}100`), prefix);
      // From a network that another interface of the pod is in.
      const source = prefix.replace(`${network}`, network === 6 ? "7" : "6");
      assert.ok(
        await reaches(lab.switch, `${prefix}100`, { source: `${source}1` }),
        prefix,
      );
    }
  }
});
