// The executable as it is on a node, with somebody at coild's socket.
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { copyPlugin } from "../lab/plugin_file.ts";

export const CALL: Readonly<Record<string, string>> = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid0",
  CNI_NETNS: "/run/netns/none",
  CNI_IFNAME: "eth0",
  CNI_PATH: "/opt/cni/bin",
};

/** A directory that can be a root, with the executable in it and nothing else. */
export class OneFile implements AsyncDisposable {
  readonly root: string;
  readonly #isRoot: boolean;

  private constructor(root: string, isRoot: boolean) {
    this.root = root;
    this.#isRoot = isRoot;
  }

  /** The executable calls coild at a path in the directory, or at it as a root; or none yet. */
  static async make(
    { isRoot = false, isEmpty = false }: {
      readonly isRoot?: boolean;
      readonly isEmpty?: boolean;
    } = {},
  ): Promise<OneFile> {
    const one = new OneFile(await Deno.makeTempDir(), isRoot);
    if (isEmpty) return one;
    await copyPlugin(one.root, {
      executable: await buildExecutable(),
      socket: isRoot ? "/coild.sock" : one.socket,
    });
    return one;
  }

  get coil(): string {
    return `${this.root}/coil`;
  }

  get socket(): string {
    return `${this.root}/coild.sock`;
  }

  /** What starts the executable. */
  get command(): readonly string[] {
    return this.#isRoot ? ["chroot", this.root, "/coil"] : [this.coil];
  }

  get config(): string {
    const { socket } = this;
    return JSON.stringify({
      cniVersion: "1.0.0",
      name: "net",
      type: "coil",
      socket,
    });
  }

  /** Somebody at the socket. */
  listen(): Deno.UnixListener {
    return Deno.listen({ transport: "unix", path: `${this.socket}.cni` });
  }

  /** Answers each call with the name of its container, until it is disposed of. */
  answer(): AsyncDisposable & { readonly calls: number } {
    const listener = this.listen();
    let calls = 0;
    const serving = (async () => {
      const tasks: Promise<void>[] = [];
      for await (const connection of listener) {
        calls++;
        tasks.push(answerOne(connection));
      }
      await Promise.all(tasks);
    })();
    return {
      get calls() {
        return calls;
      },
      [Symbol.asyncDispose]: async () => {
        listener.close();
        await serving;
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

async function answerOne(connection: Deno.UnixConn): Promise<void> {
  using _connection = connection;
  const buffer = new Uint8Array(1 << 20);
  let length = 0;
  for (let size = 16; length < size;) {
    const count = await connection.read(buffer.subarray(length));
    if (count === null) return;
    length += count;
    const view = new DataView(buffer.buffer);
    if (length >= 16) {
      size = 16 + view.getUint32(8, true) + view.getUint32(12, true);
    }
  }
  const text = new TextDecoder().decode(buffer.subarray(16, length));
  const name = /CNI_CONTAINERID=([^\0]*)/.exec(text)?.[1] ?? "";
  await connection.write(answerOf(`"${name}"`)).catch(() => 0);
}

/** An answer as coild encodes it. */
export function answerOf(stdout: string): Uint8Array {
  const text = new TextEncoder().encode(stdout);
  const bytes = new Uint8Array(16 + text.length);
  bytes.set(new TextEncoder().encode("COILCNI1"));
  new DataView(bytes.buffer).setUint32(12, text.length, true);
  bytes.set(text, 16);
  return bytes;
}
