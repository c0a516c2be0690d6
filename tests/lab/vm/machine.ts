import * as path from "node:path";
import { GUEST_DIR } from "./files.ts";
import type { VmKernel } from "./kernel.ts";
import type { VmNetwork } from "../network.ts";

const MEMORY_MIB = 3072;

/** How a {@link Machine} starts. */
export interface MachineOptions {
  readonly kernel: VmKernel;
  /** Directory of this machine's job, console and exit status. */
  readonly dir: string;
  readonly network?: VmNetwork;
  /** More for the kernel's command line. */
  readonly kernelArgs?: readonly string[];
}

/** A running kernel. It dies with this process, however that ends, and all that it runs with it. */
export class Machine implements AsyncDisposable {
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  readonly #dir: string;
  readonly #child: Deno.ChildProcess;

  constructor(options: MachineOptions) {
    const { dir, network } = options;
    this.#dir = dir;
    // Its processes are the host's as well: they end with the namespace.
    const [command = "", ...args] = [
      ...(network === undefined
        ? []
        : ["nsenter", `--net=/run/netns/${network.netns}`]),
      ...["setpriv", "--pdeathsig", "KILL"],
      ...["unshare", "--pid", "--fork", "--kill-child=KILL"],
      ...["sh", "-c", 'exec "$@" 3>"$0"', path.join(dir, "console")],
      ...linuxArguments(options),
    ];
    this.#child = new Deno.Command(command, {
      args,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.stdout = this.#child.stdout;
    this.stderr = this.#child.stderr;
  }

  /** Waits for its end, and returns the command's exit status; undefined when the command did not end. */
  async status(): Promise<number | undefined> {
    await this.#child.status;
    const file = path.join(this.#dir, "status");
    const text = await Deno.readTextFile(file).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return "";
      throw error;
    });
    return /^\d+\n$/.test(text) ? Number(text) : undefined;
  }

  /** The end of the kernel's console, for errors. */
  async lastWords(lines: number): Promise<string> {
    const file = path.join(this.#dir, "console");
    const console = (await Deno.readTextFile(file)).replaceAll("\r", "");
    const tail = console.trimEnd().split("\n").slice(-lines);
    return tail.map((line) => `  console: ${line}`).join("\n");
  }

  /** Ends the machine at once, without asking the guest. */
  end(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end();
    await this.#child.status;
  }
}

/** The program of the kernel and its command line. */
function linuxArguments(
  { kernel, dir, network, kernelArgs = [] }: MachineOptions,
): string[] {
  return [
    ...[kernel.program, `mem=${MEMORY_MIB}M`, `uml_dir=${dir}`],
    // Its programs run by themselves, and under ptrace only where they cannot.
    ...[
      "seccomp=auto",
      "noreboot",
      "rcupdate.rcu_expedited=1",
      "panic=-1",
      "oops=panic",
    ],
    ...["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"],
    ...["console=tty0", "quiet", "loglevel=7"],
    ...["con=null", "con0=null,fd:3", "ssl=null"],
    ...["ssl0=null,fd:1", "ssl1=null,fd:2"],
    ...(network === undefined
      ? []
      : [`vec0:transport=raw,ifname=${network.link},depth=64`]),
    ...kernelArgs,
    `init=${path.join(GUEST_DIR, "init")}`,
    // What the kernel does not know goes to the guest's environment.
    `COIL_VM_DIR=${dir}`,
  ];
}
