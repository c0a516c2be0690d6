// A host for the installer: its two directories, in a mount namespace of their
// own where a test needs other file systems.
import assert from "node:assert/strict";
import { addFront, compileFront } from "../../deploy/executable/elf/front.ts";
import {
  findSocketField,
  SOCKET_BYTES,
} from "../../roles/coil_installer/base/front.ts";
import { eventually } from "../lab/wait.ts";
import { pathOf } from "./testing.ts";

export const NAME = "10-coil.conflist";

/** What is installed, as its directory lists it. */
export const PROGRAMS: readonly string[] = ["coil"];

/** A list of plugins, as its file has it. */
export interface Conflist {
  readonly cniVersion: string;
  readonly cniVersions: readonly string[];
  readonly name: string;
  readonly plugins: readonly Readonly<
    { type: string } & Record<string, unknown>
  >[];
}

/** What is installed unless a test says otherwise. */
export const NETCONF: Conflist = {
  cniVersion: "1.0.0",
  cniVersions: ["1.0.0", "1.1.0"],
  name: "k8s-pod-network",
  plugins: [
    { type: "coil", socket: "/run/coild.sock" },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
};

/** For machines that are busy with other things. */
export const PATIENCE_MS = 120_000;

/** Name of what the installer has not finished. */
export function isTemporary(name: string): boolean {
  return name.startsWith(".coil-installer-");
}

/** One log record. */
export type LogRecord = Readonly<Record<string, unknown>> & {
  readonly level: string;
  readonly msg: string;
  readonly error?: string;
};

/** How a run ended. */
export interface Outcome {
  readonly code: number;
  readonly stderr: string;
  /** The lines of stderr, all of which must be records. */
  readonly records: readonly LogRecord[];
}

/** How to run it. */
export interface RunOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What runs it, such as `setpriv …`. */
  readonly prefix?: readonly string[];
  /** Instead of the one that was built. */
  readonly program?: string;
}

function recordsIn(stderr: string): readonly LogRecord[] {
  return stderr.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

/** A running installer. */
export class Run {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #stderr = "";
  #hasEnded = false;

  constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#reading = this.#read();
    child.status.then(() => this.#hasEnded = true);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async #read(): Promise<void> {
    for await (
      const text of this.#child.stderr.pipeThrough(new TextDecoderStream())
    ) {
      this.#stderr += text;
    }
  }

  get records(): readonly LogRecord[] {
    return recordsIn(this.#stderr);
  }

  kill(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended already
    }
  }

  async end(): Promise<Outcome> {
    const [{ code }] = await Promise.all([this.#child.status, this.#reading]);
    const stderr = this.#stderr;
    return {
      code,
      stderr,
      get records() {
        return recordsIn(stderr);
      },
    };
  }

  async until(msg: string): Promise<void> {
    await eventually(
      `record "${msg}"`,
      () => this.records.some((record) => record.msg === msg),
      { timeoutMs: PATIENCE_MS },
    );
  }
}

/** The host's directories. */
export class Host implements AsyncDisposable {
  readonly directory: string;
  readonly bin: string;
  readonly etc: string;
  /** Runs commands in the host's mount namespace. */
  #enter: readonly string[] = [];
  #keeper: Deno.ChildProcess | undefined;

  private constructor(directory: string) {
    this.directory = directory;
    this.bin = `${directory}/opt/cni/bin`;
    this.etc = `${directory}/etc/cni/net.d`;
  }

  /** With both directories, empty; without them `bare`. */
  static async make(
    { bare = false }: { readonly bare?: boolean } = {},
  ): Promise<Host> {
    const host = new Host(await Deno.makeTempDir({ prefix: "ct-installer-" }));
    await Deno.chmod(host.directory, 0o755);
    if (bare) return host;
    await Deno.mkdir(host.bin, { recursive: true });
    await Deno.mkdir(host.etc, { recursive: true });
    return host;
  }

  /** Gives the host a mount namespace, and makes mounts there by a script of sh. */
  async mount(script: string): Promise<void> {
    // Ends with its standard input, that is with this process at the latest.
    const keeper = new Deno.Command("unshare", {
      args: ["--mount", "--propagation", "private", "cat"],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#keeper = keeper;
    const writer = keeper.stdin.getWriter();
    await writer.write(new TextEncoder().encode("ready"));
    writer.releaseLock();
    const reader = keeper.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    this.#enter = ["nsenter", `--mount=/proc/${keeper.pid}/ns/mnt`];
    const [command = "", ...args] = this.#enter;
    const { success, stderr } = await new Deno.Command(command, {
      args: [...args, "sh", "-ec", script],
      env: { BIN: this.bin, ETC: this.etc },
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
  }

  /** A path of the host as this process sees it. */
  path(path: string): string {
    return this.#keeper === undefined
      ? path
      : `/proc/${this.#keeper.pid}/root${path}`;
  }

  /** The plugin that runtimes call. */
  get coil(): string {
    return this.path(`${this.bin}/coil`);
  }

  get conf(): string {
    return this.path(`${this.etc}/${NAME}`);
  }

  /** What the plugin, called where the host's runtime would, says of its versions; it must work. */
  async versions(): Promise<string> {
    const [command = "", ...args] = [...this.#enter, `${this.bin}/coil`];
    const { success, stdout, stderr } = await new Deno.Command(command, {
      args,
      env: { CNI_COMMAND: "VERSION" },
    }).output();
    const decoder = new TextDecoder();
    assert.ok(success, decoder.decode(stderr));
    return decoder.decode(stdout);
  }

  async start(options: RunOptions = {}): Promise<Run> {
    const { args = [], env = {}, prefix = [] } = options;
    const program = options.program ?? await pathOf("coil-installer");
    const [command = "", ...words] = [
      ...this.#enter,
      ...prefix,
      program,
      ...args,
    ];
    const child = new Deno.Command(command, {
      args: words,
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        CNI_ETC_DIR: this.etc,
        CNI_BIN_DIR: this.bin,
        CNI_NETCONF: JSON.stringify(NETCONF),
        ...env,
      },
      clearEnv: true,
      stdout: "null",
      stderr: "piped",
    }).spawn();
    return new Run(child);
  }

  async run(options: RunOptions = {}): Promise<Outcome> {
    const run = await this.start(options);
    return await run.end();
  }

  /** As `run`; it must succeed. */
  async install(options: RunOptions = {}): Promise<readonly LogRecord[]> {
    const { code, records } = await this.run(options);
    assert.equal(code, 0, JSON.stringify(records));
    return records;
  }

  /** As `run`; it must fail. What it says of that. */
  async fail(options: RunOptions = {}): Promise<string> {
    const { code, records } = await this.run(options);
    assert.equal(code, 1, JSON.stringify(records));
    const errors = records.filter(({ level }) => level === "error");
    assert.equal(errors.length, 1, JSON.stringify(records));
    return errors[0]?.error ?? "";
  }

  /** A configuration as JSON; ours unless another is named. */
  async config(name: string = NAME): Promise<Conflist> {
    return JSON.parse(
      await Deno.readTextFile(this.path(`${this.etc}/${name}`)),
    );
  }

  async write(name: string, contents: unknown): Promise<void> {
    const text = typeof contents === "string"
      ? contents
      : JSON.stringify(contents);
    await Deno.writeTextFile(this.path(`${this.etc}/${name}`), text);
  }

  async types(): Promise<string[]> {
    return (await this.config()).plugins.map(({ type }) => type);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#keeper !== undefined) {
      this.#keeper.kill("SIGKILL"); // its mounts go with it
      await this.#keeper.stdin.close().catch(() => {});
      await this.#keeper.stdout.cancel();
      await this.#keeper.status;
    }
    await Deno.remove(this.directory, { recursive: true });
  }
}

export function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

export async function modeOf(path: string): Promise<number> {
  return ((await Deno.lstat(path)).mode ?? 0) & 0o7777;
}

/** Messages of a run, in order. */
export function messages(records: readonly LogRecord[]): string[] {
  return records.map(({ msg }) => msg);
}

let tiny: Promise<string> | undefined;

/** An executable of some kilobytes, with a front, that answers VERSION: a plugin that is quick to copy. */
export function tinyPlugin(): Promise<string> {
  return tiny ??= compileTiny();
}

async function compileTiny(): Promise<string> {
  const path = `${await pathOf("coil")}-tiny`;
  const temporary = `${path}-${Deno.pid}`;
  const child = new Deno.Command("gcc", {
    args: ["-x", "c", "-pie", "-fPIE", "-o", temporary, "-"],
    stdin: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`
    #include <stdio.h>
    int main(void) {
      puts("{\\"cniVersion\\":\\"1.1.0\\",\\"supportedVersions\\":[\\"0.3.1\\",\\"0.4.0\\",\\"1.0.0\\",\\"1.1.0\\"]}");
      return 0;
    }`));
  await writer.close();
  assert.ok((await child.status).success, "gcc failed");
  const front = await compileFront();
  assert.ok(front);
  const bytes = addFront(await Deno.readFile(temporary), front);
  await Deno.writeFile(temporary, bytes);
  await Deno.rename(temporary, path);
  return path;
}

/** The installer with a plugin that is quick to copy. */
export async function quick(): Promise<{ env: Record<string, string> }> {
  return { env: { COIL_PATH: await tinyPlugin() } };
}

/** The socket that an installed plugin calls; its executable must have a front. */
export async function socketOf(plugin: string): Promise<string> {
  const { bytes, at } = await readPlugin(plugin);
  assert.ok(at !== undefined, "no front");
  const [socket] = new TextDecoder().decode(bytes.subarray(at)).split("\0", 1);
  return socket ?? "";
}

/** Whether two files have the same contents but for the socket that they call. */
export async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map(readPlugin));
  assert.ok(a && b);
  for (const { bytes, at } of [a, b]) {
    if (at !== undefined) bytes.fill(0, at, at + SOCKET_BYTES);
  }
  return a.bytes.length === b.bytes.length &&
    a.bytes.every((byte, i) => byte === b.bytes[i]);
}

async function readPlugin(path: string) {
  using file = await Deno.open(path);
  return {
    bytes: await Deno.readFile(path),
    at: await findSocketField(file),
  };
}
