import { TextLineStream } from "../../../deploy/host/mod.ts";
import type { CloudConfig } from "./config.ts";
import type { CommandMessage, Commands, Endpoints } from "./control.ts";

/** The same commands, answered later. */
type Remote<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (...args: A) => Promise<Awaited<R>>
    : never;
};

/** A cloud in a process of its own, which ends when disposed, or with the caller. */
export class Cloud implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #client: Deno.HttpClient;
  readonly #dir: string;
  readonly endpoints: Endpoints;
  /** What to ask it for. */
  readonly ask: Remote<Commands>;

  private constructor(
    child: Deno.ChildProcess,
    options: { readonly dir: string; readonly endpoints: Endpoints },
  ) {
    this.#child = child;
    this.#dir = options.dir;
    this.endpoints = options.endpoints;
    this.#client = Deno.createHttpClient({
      // One that the peer has just closed would fail.
      poolMaxIdlePerHost: 0,
      proxy: { transport: "unix", path: this.socket },
    });
    this.ask = new Proxy({} as Remote<Commands>, {
      get: (_, command: keyof Commands) => (argument: unknown) =>
        this.#send({ command, argument }),
    });
  }

  /** Starts one, and returns when it answers. With a fabric, `netns` is the namespace of its own. */
  static async start(config: CloudConfig, netns?: string): Promise<Cloud> {
    const dir = await Deno.makeTempDir({ prefix: "coil-cloud-" });
    const configFile = `${dir}/config.json`;
    await Deno.writeTextFile(configFile, JSON.stringify(config));
    const main = new URL("main.ts", import.meta.url).pathname;
    const [command = "", ...args] = [
      ...(netns === undefined ? [] : ["nsenter", `--net=/run/netns/${netns}`]),
      ...[Deno.execPath(), "run", "-A", "--no-check"],
      ...[main, configFile, socketIn(dir)],
    ];
    const child = new Deno.Command(command, {
      args,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const lines = child.stdout.pipeThrough(new TextLineStream()).getReader();
    const { value } = await lines.read();
    await lines.cancel();
    if (value === undefined) {
      await child.stdin.close();
      const { code } = await child.status;
      await Deno.remove(dir, { recursive: true });
      throw new Error(`Cannot start a cloud: it ended with ${code}, see above`);
    }
    return new Cloud(child, { dir, endpoints: JSON.parse(value) });
  }

  /** The path of its control socket. */
  get socket(): string {
    return socketIn(this.#dir);
  }

  async #send(message: CommandMessage): Promise<unknown> {
    const response = await fetch("http://cloud/", {
      method: "POST",
      body: JSON.stringify(message),
      client: this.#client,
    });
    return await response.json();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    await this.#child.stdin.close();
    await this.#child.status;
    await Deno.remove(this.#dir, { recursive: true });
  }
}

function socketIn(dir: string): string {
  return `${dir}/control.sock`;
}
