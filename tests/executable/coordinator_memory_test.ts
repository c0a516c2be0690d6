// coild with little memory: what many pods at once ask of the coordinator.
import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import {
  createMemoryGroup,
  memoryIn,
  oomKillsIn,
  removeCgroup,
  setMemoryLimit,
} from "../lab/cluster/cgroups.ts";
import { type LoneCoild, startLoneCoild } from "../lab/lone_coild.ts";
import { placePlugin } from "../lab/plugin_file.ts";
import {
  CoordinatorLab,
  type LabPod,
  ours,
  stateOf,
} from "../netns/coordinator_lab.ts";
import { CNI_ENV, pathOf, runFile } from "./testing.ts";

/** Half of what the manifests allow coild. */
const LIMIT_BYTES = 192 * 2 ** 20;
const PODS = 110;
const FEW = 24;

/** A node whose coild has a control group of its own, with pods. */
class Stage implements AsyncDisposable {
  readonly lab: CoordinatorLab;
  readonly coild: LoneCoild;
  readonly memoryGroup: string;
  readonly pods: LabPod[] = [];
  readonly #socket: string;
  readonly #program: string;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    parts: {
      readonly lab: CoordinatorLab;
      readonly coild: LoneCoild;
      readonly memoryGroup: string;
      readonly directory: string;
      readonly stack: AsyncDisposableStack;
    },
  ) {
    this.lab = parts.lab;
    this.coild = parts.coild;
    this.memoryGroup = parts.memoryGroup;
    this.#socket = `${parts.directory}/coild.sock`;
    this.#program = `${parts.directory}/coordinator`;
    this.#stack = parts.stack;
  }

  static async start(pods: number): Promise<Stage> {
    await using stack = new AsyncDisposableStack();
    const lab = stack.use(await CoordinatorLab.start(["ipv4"]));
    const directory = await Deno.makeTempDir();
    stack.defer(() => Deno.remove(directory, { recursive: true }));
    const group = `coil-memory-${crypto.randomUUID()}`;
    stack.defer(() => removeCgroup(group));
    const memoryGroup = await createMemoryGroup(group);
    await setMemoryLimit(memoryGroup, LIMIT_BYTES);
    const executable = await pathOf("coil");
    // Its pages count where it is read first: in coild's group the kernel would take them back instead of killing coild.
    const file = await Deno.open(executable);
    await file.readable.pipeTo(new WritableStream());
    const coild = stack.use(
      await startLoneCoild({
        executable,
        netns: lab.host.path,
        directory,
        memoryGroup,
      }),
    );
    const socket = `${directory}/coild.sock`;
    await placePlugin(directory, { executable, socket });
    await Deno.symlink("coil", `${directory}/coordinator`);
    const stage = new Stage({
      lab,
      coild,
      memoryGroup,
      directory,
      stack: stack.move(),
    });
    for (let i = 0; i < pods; i++) {
      stage.pods.push(
        await lab.pod([{ name: "eth0", network: 6, number: 100 + i }]),
      );
    }
    return stage;
  }

  /** Calls for all pods at once, as a runtime makes them; each has to succeed. */
  async all(command: string, config: JsonObject = {}): Promise<void> {
    await Promise.all(this.pods.map(async ({ containerId, netns }) => {
      const { code, stdout } = await runFile("nsenter", {
        args: [`--net=${this.lab.host.path}`, this.#program],
        env: {
          ...CNI_ENV,
          CNI_COMMAND: command,
          CNI_CONTAINERID: containerId,
          CNI_NETNS: netns.path,
        },
        stdin: JSON.stringify({
          cniVersion: "1.1.0",
          name: "underlay",
          type: "coordinator",
          serviceCIDR: ["10.233.0.0/18"],
          socket: this.#socket,
          prevResult: { cniVersion: "1.1.0" },
          ...config,
        }),
      });
      assert.equal(code, 0, stdout);
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

Deno.test(`coild with half of the memory that it may have serves ${PODS} calls of coordinator at once`, async () => {
  await using stage = await Stage.start(PODS);
  const commands = ["ADD", "CHECK", "DEL"];
  const config = {
    detectIPConflict: true,
    detectGateway: true,
    // On a busy machine the kernel's answers take long.
    detectOptions: { timeout: "2s" },
  };
  for (const command of commands) await stage.all(command, config);
  const url = "http://127.0.0.1:9384/metrics";
  const metrics = await stage.lab.host.exec("curl", "-sf", url);
  for (const command of commands) {
    const calls = `calls_total{command="${command}",result="ok"} ${PODS}\n`;
    assert.ok(metrics.includes(calls), `not by coild: ${command}`);
  }
  assert.equal(await oomKillsIn(stage.memoryGroup), 0);
});

Deno.test("calls of coordinator that the kernel kills coild amid, for it has no more memory, are made by the whole program", async () => {
  await using stage = await Stage.start(FEW);
  const { lab, memoryGroup } = stage;
  // It has been idle; a call takes more.
  await setMemoryLimit(memoryGroup, await memoryIn(memoryGroup));
  await stage.all("ADD");
  assert.equal(await oomKillsIn(memoryGroup), 1);
  await stage.coild.status;
  await stage.all("CHECK");
  await stage.all("DEL");
  const states = [lab.host, ...stage.pods.map(({ netns }) => netns)]
    .map(stateOf);
  assert.deepEqual(ours((await Promise.all(states)).flat()), []);
});
