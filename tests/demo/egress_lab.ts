// The egress demo's lab: control plane and controller on this machine, the
// world beside it, where the kernel has Foo over UDP.
import * as path from "node:path";
import { prepareKernel } from "../../lib/egress/mod.ts";
import { FouUnsupportedError } from "../../lib/netlink/mod.ts";
import type { CoilCluster } from "../lab/coil.ts";
import { run } from "../lab/mod.ts";
import { MACHINE_HOST, type VmNetwork } from "../lab/network.ts";
import { runInVm, type Vm } from "../lab/vm/mod.ts";
import type { HostLab } from "../vm/host_lab.ts";
import { type Answer, JsonLines, WORLD, type WorldApi } from "./world_api.ts";

/** Longer than anybody watches. */
const VM_TIMEOUT_MS = 30 * 60_000;

/** Why this machine's own kernel cannot do it; undefined when it can. */
export async function kernelLacks(): Promise<string | undefined> {
  try {
    await prepareKernel(["ipv4", "ipv6"]);
    return undefined;
  } catch (error) {
    if (error instanceof FouUnsupportedError) return error.message;
    throw error;
  }
}

/** Reads and transpiles the world's modules here: what a virtual machine does itself goes with it. */
export async function warmCache(): Promise<void> {
  await run(Deno.execPath(), ["cache", "--quiet", "--no-check", WORLD]);
}

/** The world, from the story's side. It ends when this is disposed. */
export class World implements AsyncDisposable {
  readonly #link: JsonLines;
  readonly #ended: Promise<never>;
  readonly #process: Promise<unknown>;

  private constructor(
    link: JsonLines,
    running: {
      readonly ended: Promise<never>;
      readonly process: Promise<unknown>;
    },
  ) {
    this.#link = link;
    this.#ended = running.ended;
    this.#process = running.process;
  }

  /** Starts it in the machine, or here without one, and waits until both nodes are ready. */
  static async start(
    lab: HostLab,
    options: { readonly executable: string; readonly vm?: Vm },
  ): Promise<World> {
    const { cluster } = lab;
    const hostname = cluster.plane.subnet.address("ipv4", MACHINE_HOST);
    using listener = Deno.listen({ hostname, port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const { executable, vm } = options;
    const job = {
      // For datagrams.
      command: [
        ...[Deno.execPath(), "run", "-A", "--unstable-net", WORLD],
        `${hostname}:${port}`,
      ],
      env: { ...lab.env, COIL_EXECUTABLE: executable },
    };
    const process = vm === undefined
      ? runHere(cluster, job)
      : runInMachine(vm, { ...job, network: lab.network });
    const ended = process.then((last): never => {
      throw new Error(`the world has ended: ${last.trim().slice(-2000)}`);
    });
    ended.catch(() => {}); // it ends at last
    const conn = await Promise.race([listener.accept(), ended]);
    const world = new World(new JsonLines(conn), { ended, process });
    await world.#receive();
    return world;
  }

  /** Asks for something and waits for the answer; one request at a time. */
  async call<K extends keyof WorldApi>(
    name: K,
    argument: Parameters<WorldApi[K]>[0],
  ): Promise<Awaited<ReturnType<WorldApi[K]>>> {
    await this.#link.send({ name, argument });
    // Both ends are of the same sources.
    return await this.#receive() as Awaited<ReturnType<WorldApi[K]>>;
  }

  async #receive(): Promise<unknown> {
    const received = this.#link.receive().catch(() => undefined);
    const answer = await Promise.race([received, this.#ended]);
    // Without one, the reason for the world's end comes within moments.
    const { error, value } = (answer ?? await this.#ended) as Answer;
    if (error !== undefined) throw new Error(error);
    return value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#link[Symbol.dispose]();
    await this.#process;
  }
}

interface Job {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Returns what it wrote. */
async function runInMachine(
  vm: Vm,
  job: Job & { readonly network: VmNetwork },
): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  await runInVm(vm, { ...job, timeoutMs: VM_TIMEOUT_MS, merged: true }, {
    stdout: (bytes) => {
      text += decoder.decode(bytes, { stream: true });
    },
    log: (line) => {
      text += `${line}\n`;
    },
  });
  return text;
}

/** In a network namespace, a process namespace and with a /run of its own, so that nothing of it outlives it. */
async function runHere(cluster: CoilCluster, job: Job): Promise<string> {
  const { plane } = cluster;
  const node = await plane.addNode(1, { register: false });
  // As the machine's link to the world is called.
  for (const change of ["eth0 down", "eth0 name uplink", "uplink up"]) {
    await node.run("ip", "link", "set", ...change.split(" "));
  }
  const tmp = path.join(plane.runDir, "world");
  await Deno.mkdir(tmp);
  const process = await plane.startProcess({
    id: "world",
    node,
    command: "unshare",
    args: [
      ...["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
      ...["sh", "-ec", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh"],
      ...job.command,
    ],
    env: { ...job.env, TMPDIR: tmp },
  });
  await process.exited;
  return await process.logs();
}
