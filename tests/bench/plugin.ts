// The plugin's own time: its front and the whole program against a server that
// answers at once, beside an empty program of the same runtime.
import * as path from "node:path";
import { copyPlugin } from "../lab/plugin_file.ts";
import { eventually } from "../lab/mod.ts";
import { callPlugin, sandboxOf } from "../lab/runtime.ts";
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

/** `plugin.rpc`, `plugin.executable` and `plugin.empty`, in turn; and memory. */
export async function pluginTimes(
  programs: PluginPrograms,
  rounds: number,
): Promise<Figure[]> {
  const socket = path.join(programs.dir, "instant.sock");
  const server = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", SERVER, socket],
  }).spawn();
  try {
    const front = await placeFront(programs, socket);
    await eventually("the server", () => callOnce(programs.coil, socket));
    const times = {
      rpc: [] as number[],
      executable: [] as number[],
      empty: [] as number[],
    };
    for (let i = 0; i < rounds; i++) {
      times.rpc.push(await callOnce(front, socket));
      times.executable.push(await callOnce(programs.coil, socket));
      times.empty.push(await callOnce(programs.empty, socket));
    }
    return [
      figure("plugin.rpc", "ms", times.rpc),
      figure("plugin.executable", "ms", times.executable),
      figure("plugin.empty", "ms", times.empty),
      ...await pluginMemory(programs),
    ];
  } finally {
    server.kill("SIGTERM");
    await server.status;
  }
}

function placeFront(
  { coil: executable, dir }: PluginPrograms,
  socket: string,
): Promise<string> {
  const directory = `${dir}/${path.basename(socket)}.plugins`;
  return copyPlugin(directory, { executable, socket });
}

/** Memory of plugins that wait for their answer: the listeners never accept. */
async function pluginMemory(programs: PluginPrograms): Promise<Figure[]> {
  const socket = path.join(programs.dir, "silent.sock");
  using _grpc = Deno.listen({ transport: "unix", path: socket });
  using _fronts = Deno.listen({ transport: "unix", path: `${socket}.cni` });
  const front = await placeFront(programs, socket);
  return [
    ...await memoryWaiting("front", { program: front, socket }),
    ...await memoryWaiting("executable", { program: programs.coil, socket }),
  ];
}

async function memoryWaiting(
  name: string,
  { program, socket }: { readonly program: string; readonly socket: string },
): Promise<Figure[]> {
  const child = new Deno.Command(program, {
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "bench",
      CNI_NETNS: "/run/netns/none",
      CNI_IFNAME: "eth0",
      CNI_PATH: path.dirname(program),
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
    figure(`rss.${name}`, "MiB", [residentMiB]),
    figure(`anonymous.${name}`, "MiB", [anonymousMiB]),
  ];
}
