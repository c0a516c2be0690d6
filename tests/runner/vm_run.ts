import { buildExecutable } from "../../deploy/executable/mod.ts";
import { cleanUp, type Log } from "../lab/mod.ts";
import { ensureVm, runInVm } from "../lab/vm/mod.ts";
import { HOST_LAB, startHostLab } from "../vm/host_lab.ts";

/** All tests of the suite, in a machine that computes some ten times slower, on a host that has more to do. */
const TIMEOUT_MS = 45 * 60_000;

/** Runs deno with these arguments in a virtual machine, beside a control plane of this machine's; the report's directory is shared. */
export async function runInTestVm(
  args: readonly string[],
  options: {
    readonly reportDir: string;
    readonly output: (bytes: Uint8Array) => void;
    readonly log: Log;
  },
): Promise<boolean> {
  const { reportDir, output, log } = options;
  const vm = await ensureVm({ log });
  const executable = await buildExecutable({ log });
  await warmCache(args);
  await using lab = await startHostLab({ executable, log });
  isRunning = true;
  using _ended = { [Symbol.dispose]: () => isRunning = false };
  const status = await runInVm(vm, {
    command: [Deno.execPath(), ...args],
    shares: [reportDir],
    env: {
      ...lab.env,
      COIL_EXECUTABLE: executable,
      COIL_TEST_STRICT: "1",
      ...(Deno.stdout.isTerminal() ? {} : { NO_COLOR: "1" }),
    },
    timeoutMs: TIMEOUT_MS,
    merged: true,
  }, { log, stdout: output });
  return status === 0;
}

/** Reads and transpiles the modules here: what the machine then does itself would take it a minute. */
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

/** Whether the control plane is this process', and not that of another run of the tests. */
let isRunning = false;

/** Removes the control plane of a run that is cut short. */
export async function cleanUpVmLab(log: Log): Promise<void> {
  if (isRunning) await cleanUp(HOST_LAB, { log });
}
