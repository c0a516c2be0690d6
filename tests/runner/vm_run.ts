import { buildExecutable } from "../../deploy/executable/mod.ts";
import { cleanUp, type Log } from "../lab/mod.ts";
import { ensurePeerCoil } from "../lab/peer_coil.ts";
import { ensureVm, runInVm } from "../lab/vm/mod.ts";
import { LIMITS } from "./stall.ts";
import { PEER_VARIABLE } from "../vm/e2e_peer.ts";
import { HOST_LAB, startHostLab } from "../vm/host_lab.ts";

/** Runs deno with these arguments in a virtual machine, beside a control plane of this machine's, of which each lane has its own; the report's directory is shared. */
export async function runInTestVm(
  args: readonly string[],
  options: {
    readonly reportDir?: string;
    readonly output: (bytes: Uint8Array) => void;
    readonly signal: AbortSignal;
    readonly lane?: number;
    readonly log: Log;
  },
): Promise<boolean> {
  const { reportDir, output, signal, lane = 0, log } = options;
  const vm = await ensureVm({ log });
  const executable = await buildExecutable({ log });
  const peer = await ensurePeerCoil({ log });
  await warmCache(args);
  const name = `${HOST_LAB}${lane || ""}`;
  await using lab = await startHostLab({ executable, log, name });
  running.add(name);
  using _ended = { [Symbol.dispose]: () => running.delete(name) };
  const status = await runInVm(vm, {
    command: [Deno.execPath(), ...args],
    shares: reportDir === undefined ? [] : [reportDir],
    network: lab.network,
    env: {
      ...lab.env,
      COIL_EXECUTABLE: executable,
      [PEER_VARIABLE]: peer.binDir,
      COIL_TEST_STRICT: "1",
      ...(Deno.stdout.isTerminal() ? {} : { NO_COLOR: "1" }),
    },
    timeoutMs: LIMITS.totalMs,
    merged: true,
  }, { log, stdout: output, signal });
  return status === 0;
}

/** Reads and transpiles the modules here: what the machine does itself goes with it. */
async function warmCache(args: readonly string[]): Promise<void> {
  await new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", "--no-run"],
      ...args.slice(1).filter((arg) => !arg.startsWith("--junit-path")),
    ],
    stdout: "null",
    stderr: "null",
  }).output(); // what does not load shows in the machine
}

/** Names of the control planes that are this process', and not those of another run of the tests. */
const running = new Set<string>();

/** Removes the control planes of a run that is cut short. */
export async function cleanUpVmLabs(log: Log): Promise<void> {
  for (const name of running) await cleanUp(name, { log });
}
