import * as path from "node:path";
import { TextLineStream } from "../lines.ts";
import { within } from "./deadline.ts";
import { VmStartError } from "./errors.ts";
import type { VmPackages } from "./packages.ts";
import { Monitor } from "./monitor.ts";

/** Directories of the host that a machine has room for. */
export const SHARE_SLOTS = 4;
const MEMORY_MIB = 2048;
/** QEMU connects at once; a busy machine is slower. */
const CONNECT_MS = 60_000;
const PORTS = ["control", "stdout", "stderr"] as const;

/** What a machine is made of; a snapshot fits machines of the same kernel, initramfs and QEMU only. */
export interface VmImage {
  readonly packages: VmPackages;
  readonly initramfs: string;
}

/** How a {@link Machine} starts. */
export interface MachineOptions {
  readonly image: VmImage;
  /** Directory of this machine's sockets, console and job. */
  readonly dir: string;
  /** File with the machine's memory; what is shared is written to it. */
  readonly memory: { readonly file: string; readonly shared: boolean };
  /** Directories that the guest may write to. */
  readonly shares: readonly string[];
  /** Waits for a snapshot's state instead of booting. */
  readonly incoming?: boolean;
}

/**
 * QEMU's arguments: everything that has to be equal where a snapshot is made and where it is resumed.
 *
 * The CPU is emulated and needs no KVM. Five-level page tables and byte-wise string moves are slow in an emulated CPU.
 */
export function qemuArguments(options: MachineOptions): string[] {
  const { image, dir, memory } = options;
  const { file, shared } = memory;
  const socket = (name: string) =>
    `socket,id=${name},path=${path.join(dir, name)}`;
  return [
    ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
    "-machine",
    "pc,vmport=off,hpet=off,smm=off,usb=off,graphics=off,memory-backend=ram",
    ...["-accel", "tcg,thread=multi,tb-size=512"],
    ...["-cpu", "max,-la57,-erms,-fsrm", "-smp", "2", "-m", `${MEMORY_MIB}`],
    "-object",
    `memory-backend-file,id=ram,size=${MEMORY_MIB}M,mem-path=${file},share=${
      shared ? "on" : "off"
    }`,
    ...["-kernel", image.packages.kernel, "-initrd", image.initramfs],
    ...["-append", KERNEL_ARGUMENTS],
    ...["-chardev", `file,id=console,path=${path.join(dir, "console")}`],
    ...["-serial", "chardev:console"],
    ...["-chardev", socket("monitor"), "-mon", "monitor,mode=control"],
    ...["-device", "vmgenid,guid=auto"],
    ...["-device", "virtio-serial-pci,max_ports=8"],
    ...PORTS.flatMap((name, index) => [
      ...["-chardev", socket(name)],
      ...["-device", `virtserialport,chardev=${name},nr=${index + 1}`],
    ]),
    ...["-netdev", "user,id=net", "-device"],
    "virtio-net-pci,netdev=net,mac=52:54:00:12:34:56,romfile=",
    ...share("root", { path: "/", readOnly: true }),
    ...share("job", { path: path.join(dir, "job"), readOnly: true }),
    ...Array.from(
      { length: SHARE_SLOTS },
      (_, index) =>
        share(`share${index}`, {
          path: options.shares[index] ?? path.join(dir, "none"),
          readOnly: false,
        }),
    ).flat(),
  ];
}

/**
 * Without mitigations and zeroed allocations, for speed; with a periodic tick, so that a timer interrupt which the
 * emulation loses costs 4 ms and not a stalled CPU.
 */
const KERNEL_ARGUMENTS = [
  ...["console=ttyS0", "quiet", "loglevel=4", "panic=-1", "oops=panic"],
  ...["mitigations=off", "init_on_alloc=0", "tsc=reliable", "clocksource=tsc"],
  ...["no_timer_check", "nohz=off", "highres=off", "nowatchdog", "audit=0"],
  "random.trust_cpu=on",
].join(" ");

function share(
  name: string,
  what: { readonly path: string; readonly readOnly: boolean },
): string[] {
  const options = [
    ...["local", `id=${name}`, `path=${what.path}`],
    ...["security_model=passthrough", "multidevs=remap"],
    ...(what.readOnly ? ["readonly=on"] : []),
  ];
  return [
    ...["-fsdev", options.join()],
    ...["-device", `virtio-9p-pci,fsdev=${name},mount_tag=${name}`],
  ];
}

type Port = typeof PORTS[number];

/** A running QEMU with its ports connected. It dies with this process, however that ends. */
export class Machine implements AsyncDisposable {
  readonly monitor: Monitor;
  readonly #dir: string;
  readonly #child: Deno.ChildProcess;
  readonly #ports: Readonly<Record<Port, Deno.Conn>>;
  readonly #words: ReadableStreamDefaultReader<string>;
  readonly #errors: Promise<string>;

  private constructor(
    options: MachineOptions,
    running: {
      readonly child: Deno.ChildProcess;
      readonly errors: Promise<string>;
      readonly monitor: Deno.Conn;
      readonly ports: Readonly<Record<Port, Deno.Conn>>;
    },
  ) {
    this.#dir = options.dir;
    this.#child = running.child;
    this.#errors = running.errors;
    this.#ports = running.ports;
    this.monitor = new Monitor(running.monitor);
    this.#words = running.ports.control.readable
      .pipeThrough(new TextLineStream()).getReader();
  }

  /** Starts QEMU. @throws {VmStartError} when it ends at once. */
  static async start(options: MachineOptions): Promise<Machine> {
    const { dir, image } = options;
    await Deno.writeTextFile(path.join(dir, "console"), "");
    using listeners = new DisposableStack();
    const listen = (name: string) =>
      listeners.use(
        Deno.listen({ transport: "unix", path: path.join(dir, name) }),
      );
    // QEMU connects in the order of its arguments, before anything runs.
    const wanted = ["monitor", ...PORTS].map(listen);
    const child = new Deno.Command("setpriv", {
      args: [
        ...["--pdeathsig", "KILL", image.packages.qemu],
        ...qemuArguments(options),
        ...(options.incoming ? ["-incoming", "defer"] : []),
      ],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const errors = new Response(child.stderr).text();
    try {
      const conns = await within(
        CONNECT_MS,
        Promise.race([accepted(wanted), failure(child, errors)]),
      );
      const [monitor, control, stdout, stderr] = conns ?? [];
      if (!monitor || !control || !stdout || !stderr) {
        throw new VmStartError(
          `Cannot start QEMU: it does not connect within ${
            CONNECT_MS / 1000
          } s`,
        );
      }
      const ports = { control, stdout, stderr };
      return new Machine(options, { child, errors, monitor, ports });
    } catch (error) {
      await kill(child);
      await errors;
      throw error;
    }
  }

  get stdout(): ReadableStream<Uint8Array> {
    return this.#ports.stdout.readable;
  }

  get stderr(): ReadableStream<Uint8Array> {
    return this.#ports.stderr.readable;
  }

  /** The guest's next word on the control port; undefined when the machine is gone. */
  async nextWord(): Promise<string | undefined> {
    try {
      return (await this.#words.read()).value;
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  /** Says a word to the guest. */
  async say(word: string): Promise<void> {
    const bytes = new TextEncoder().encode(`${word}\n`);
    await this.#ports.control.write(bytes);
  }

  /** The end of the guest's console and of QEMU's own messages, for errors. */
  async lastWords(lines: number = 25): Promise<string> {
    const file = path.join(this.#dir, "console");
    const console = (await Deno.readTextFile(file)).replaceAll("\r", "");
    const tail = console.trimEnd().split("\n").slice(-lines);
    return tail.map((line) => `  console: ${line}`).join("\n");
  }

  /** Ends the machine at once, without asking the guest, and returns what QEMU wrote. */
  async end(): Promise<string> {
    await kill(this.#child);
    return (await this.#errors).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    this.monitor.close();
    await this.#words.cancel().catch(() => {});
    for (const conn of Object.values(this.#ports)) close(conn);
  }
}

/** One connection to each. */
async function accepted(
  listeners: readonly Deno.Listener[],
): Promise<Deno.Conn[]> {
  return await Promise.all(listeners.map((listener) => listener.accept()));
}

async function failure(
  child: Deno.ChildProcess,
  errors: Promise<string>,
): Promise<never> {
  await child.status;
  throw new VmStartError(`Cannot start QEMU: ${(await errors).trim()}`);
}

async function kill(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended
  }
  await child.status;
}

function close(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

/** Errors of a socket whose other end was killed. */
function isGone(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset ||
    error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.BadResource;
}
