// The plugin's own time: its process against a server that answers at once,
// beside an empty program of the same runtime.
import * as path from "node:path";
import { callPlugin, sandboxOf } from "../lab/runtime.ts";
import { eventually } from "../lab/mod.ts";
import { type Figure, figure } from "./figures.ts";
import { memoryOf } from "./process_memory.ts";

const SERVER = new URL("./instant_server.ts", import.meta.url).pathname;

export interface PluginPrograms {
  readonly coil: string;
  readonly empty: string;
  readonly dir: string;
}

async function callOnce(program: string, socket: string): Promise<number> {
  const { wallMs, code, stdout } = await callPlugin({
    plugin: program,
    command: "ADD",
    config: {
      cniVersion: "1.0.0",
      name: "bench",
      type: "coil",
      socket,
    },
    sandbox: sandboxOf("none", { namespace: "default", name: "pod" }),
  });
  if (code !== 0) throw new Error(`Cannot run "${program}": ${stdout}`);
  return wallMs;
}

/** `plugin.rpc` and `plugin.empty`, in turn. */
export async function pluginTimes(
  programs: PluginPrograms,
  rounds: number,
): Promise<Figure[]> {
  const socket = path.join(programs.dir, "instant.sock");
  const server = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", SERVER, socket],
  }).spawn();
  try {
    await eventually("the server", () => callOnce(programs.coil, socket));
    const rpc: number[] = [];
    const empty: number[] = [];
    for (let i = 0; i < rounds; i++) {
      rpc.push(await callOnce(programs.coil, socket));
      empty.push(await callOnce(programs.empty, socket));
    }
    return [
      figure("plugin.rpc", "ms", rpc),
      figure("plugin.empty", "ms", empty),
      ...await pluginMemory(programs),
    ];
  } finally {
    server.kill("SIGTERM");
    await server.status;
  }
}

/** Memory of a plugin that waits for its answer: the listener never accepts. */
async function pluginMemory(programs: PluginPrograms): Promise<Figure[]> {
  const socket = path.join(programs.dir, "silent.sock");
  using _listener = Deno.listen({ transport: "unix", path: socket });
  const child = new Deno.Command(programs.coil, {
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "bench",
      CNI_NETNS: "/run/netns/none",
      CNI_IFNAME: "eth0",
      CNI_PATH: programs.dir,
    },
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  const config = { cniVersion: "1.0.0", name: "bench", type: "coil", socket };
  await writer.write(new TextEncoder().encode(JSON.stringify(config)));
  await writer.close();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const { residentMiB, anonymousMiB } = memoryOf(child.pid);
  child.kill("SIGKILL");
  await child.status;
  return [
    figure("rss.plugin", "MiB", [residentMiB]),
    figure("anonymous.plugin", "MiB", [anonymousMiB]),
  ];
}
