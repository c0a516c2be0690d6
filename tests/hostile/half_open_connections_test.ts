import assert from "node:assert/strict";
import {
  type Coild,
  CoildLab,
  inPod,
  type Sandbox,
} from "../apiserver/coild_lab.ts";
import { atRest, eventually, type LabProcess, run } from "../lab/mod.ts";

const MAIN = new URL("../../main.ts", import.meta.url).pathname;
const FLOOD = new URL("./flood_main.ts", import.meta.url).pathname;
const GATEWAY = new URL("./gateway_main.ts", import.meta.url).pathname;

/** Beyond what a daemon has open. */
const SPARE_FILES = 6;
/** What a listener admits, and its connections' memory. */
const MAX_METRICS_CONNECTIONS = 64;
const MAX_GROWTH_MIB = 24;

const HALF_A_REQUEST = "GET /metrics HTTP/1.1\\r\\nHost: x\\r\\nX-";

/** A daemon under attack. */
interface Target {
  readonly name: string;
  readonly daemon: LabProcess;
  /** Ports that a pod reaches. */
  readonly ports: readonly number[];
  /** What is asked to see that it serves, on the node. */
  readonly url: string;
}

function filesOf({ pid }: LabProcess): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}

/** How many connections to a port of its the daemon has. */
async function openOf(
  { node, process: { pid } }: Coild,
  port: number,
): Promise<number> {
  const ss = ["ss", "-Htnp", "state", "connected", `sport = :${port}`] as const;
  const lines = (await node.run(...ss)).split("\n");
  return lines.filter((line) => line.includes(`pid=${pid},`)).length;
}

function mebibytesOf({ pid }: LabProcess): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+([0-9]+)/m.exec(status)?.[1]) / 1024;
}

async function limitFiles(daemon: LabProcess, count: number): Promise<void> {
  await run("prlimit", [`--pid=${daemon.pid}`, `--nofile=${count}:20000`]);
}

class Attack {
  readonly #lab: CoildLab;
  readonly #pod: Sandbox;
  #floods = 0;

  constructor(lab: CoildLab, pod: Sandbox) {
    this.#lab = lab;
    this.#pod = pod;
  }

  /** Opens so many connections to each port of the node, and returns when all were tried. */
  async start(ports: readonly number[], count: number): Promise<LabProcess> {
    const [host] = this.#lab.node().addresses;
    const flood = await this.#lab.plane.startProcess({
      id: `flood-${++this.#floods}`,
      netns: this.#pod.netns,
      command: Deno.execPath(),
      args: [
        ...["run", "--no-check", "-A", FLOOD, String(count), HALF_A_REQUEST],
        ...ports.map((port) => `${host}:${port}`),
      ],
    });
    await eventually("the flood", async () => {
      const logs = await flood.logs();
      assert.ok(flood.isRunning, logs);
      return logs.includes("opened");
    });
    return flood;
  }
}

async function startTargets(lab: CoildLab): Promise<readonly Target[]> {
  const node = lab.node();
  const start = (id: string, args: readonly string[], account?: string) =>
    lab.plane.startProcess({
      id,
      node,
      command: Deno.execPath(),
      args: ["run", "--no-check", "-A", ...args],
      env: { COIL_NODE_NAME: node.name, COIL_POD_NAMESPACE: "kube-system" },
      ...(account !== undefined && {
        serviceAccount: { namespace: "kube-system", name: account },
      }),
    });
  const role = (name: string) => start(name, [MAIN, name], name);
  return [
    {
      name: "coil-controller",
      daemon: await role("coil-controller"),
      ports: [9386],
      url: "http://127.0.0.1:9386/metrics",
    },
    {
      name: "coil-router",
      daemon: await role("coil-router"),
      ports: [9388],
      url: "http://127.0.0.1:9388/metrics",
    },
    {
      name: "a gateway",
      daemon: await start("gateway", [GATEWAY, lab.plane.kubeconfig]),
      ports: [8080, 8081, 8082],
      url: "http://127.0.0.1:8081/healthz",
    },
  ];
}

Deno.test("a pod's half-open connections stop no daemon", async (t) => {
  await using lab = await CoildLab.start({ name: "halfopen" });
  await lab.createPool("default", [{ ipv4: "10.100.0.0/26" }]);
  lab.granter.start();
  const node = lab.node();
  await using coild = await lab.startCoild();
  const pod = await lab.createPod("attacker");
  await coild.add(pod);
  const attack = new Attack(lab, pod);
  const get = (url: string) => node.run("curl", "-sf", "-m100", url);

  await t.step(
    "20,000 of them cost coild some connections, and no ADD or scrape",
    async () => {
      const before = mebibytesOf(coild.process);
      await using _flood = await attack.start([9384], 20_000);
      const grown = mebibytesOf(coild.process) - before;
      // What was refused is closed a moment later.
      const opened = await eventually("the refused to be closed", async () => {
        const count = await openOf(coild, 9384);
        return count <= MAX_METRICS_CONNECTIONS && count;
      });
      // deno-lint-ignore no-console -- a figure for anyone who runs the tests
      console.log(`  ${opened} descriptors, ${grown.toFixed(1)} MiB more`);
      assert.ok(grown <= MAX_GROWTH_MIB, `${grown} MiB more`);
      const other = await lab.createPod("other");
      await coild.add(other);
      assert.match(await get("http://127.0.0.1:9384/metrics"), /coil_coild_/);
      const [host] = node.addresses;
      const url = `http://${host}:9384/metrics`;
      assert.match(await inPod(other, "curl", "-sf", "-m100", url), /coil_/);
      assert.ok(coild.process.isRunning);
    },
  );

  await t.step("a pod does not reach coild's health port", async () => {
    const [host] = node.addresses;
    const url = `http://${host}:9385/readyz`;
    await assert.rejects(
      inPod(pod, "curl", "-sf", "-m100", url),
      /exit code 7/,
    );
    assert.equal(await get("http://127.0.0.1:9385/readyz"), "ok");
  });

  await using stack = new AsyncDisposableStack();
  const targets = await startTargets(lab);
  for (const { daemon } of targets) stack.use(daemon);
  const all = [{
    name: "coild",
    daemon: coild.process,
    ports: [9384],
    url: "http://127.0.0.1:9384/metrics",
  }, ...targets];
  for (const { name, daemon, ports, url } of all) {
    await t.step(
      `${name} outlives the loss of its last file descriptor, and serves afterwards`,
      async () => {
        const serves = () => get(url).then(() => true, () => false);
        await eventually(`${name} to serve`, serves);
        const files = await atRest("the daemon's files", () => filesOf(daemon));
        await limitFiles(daemon, files + SPARE_FILES);
        {
          await using _flood = await attack.start(ports, 300);
          await eventually("the log to say so", async () => {
            assert.ok(daemon.isRunning, await daemon.logs());
            return /no free file descriptor/.test(await daemon.logs());
          });
        }
        await eventually(`${name} to serve again`, async () => {
          assert.ok(daemon.isRunning, await daemon.logs());
          return await serves();
        });
        await eventually("the log to say that it is over", async () => {
          await serves();
          return /Accepting connections again/.test(await daemon.logs());
        });
        await limitFiles(daemon, 20_000);
        assert.ok(daemon.isRunning);
      },
    );
  }
});
