/** What `coild_recording_main.ts` wrote, read by tests. */
import type { Sandbox } from "./coild_lab.ts";

/** Environment variable of the directory that pods' egress is written to. */
export const PLANE_DIR_ENV = "COIL_TEST_PLANE_DIR";

/** The kinds of routes that refuse; in originating-only mode it is another one. */
export const REFUSING: readonly string[] = ["unreachable", "reject"];

/** The begin or the end of a change. */
export interface RecordedCall {
  readonly what: "apply" | "clear";
  /** Of the pod's network namespace. */
  readonly inode: string;
  readonly edge: "begin" | "end";
  /** Whether it was told that the namespace is new. */
  readonly isFresh: boolean;
  /** The pod's ends of its tunnels. */
  readonly locals: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What goes wrong while the file of that name is there; `held` changes go on when it is gone. */
export type Fault = "unsupported" | "broken" | "held";

/** Reads what pods have. */
export class RecordedPlane implements AsyncDisposable {
  readonly dir: string;

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async create(): Promise<RecordedPlane> {
    return new RecordedPlane(await Deno.makeTempDir());
  }

  /** What a pod has: tunnels, routes and senders in words; undefined when it is no client. */
  async of(sandbox: Sandbox): Promise<RecordedClient | undefined> {
    try {
      const text = await Deno.readTextFile(
        `${this.dir}/${await inodeOf(sandbox)}.json`,
      );
      return clientOf(JSON.parse(text));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** The changes of a pod's network namespace, and of earlier ones of its number. */
  async callsOf(sandbox: Sandbox): Promise<RecordedCall[]> {
    const inode = await inodeOf(sandbox);
    return (await this.calls()).filter((call) => call.inode === inode);
  }

  /** How often a pod's network was changed. */
  async changes(sandbox: Sandbox): Promise<number> {
    const calls = await this.callsOf(sandbox);
    return calls.filter(({ edge }) => edge === "begin").length;
  }

  async calls(): Promise<RecordedCall[]> {
    const text = await Deno.readTextFile(`${this.dir}/calls`).catch(() => "");
    // The last line may not be whole yet.
    return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
  }

  /** Makes things go wrong until disposed. */
  async fault(fault: Fault): Promise<AsyncDisposable> {
    const file = `${this.dir}/${fault}`;
    await Deno.writeTextFile(file, "");
    return { [Symbol.asyncDispose]: () => Deno.remove(file) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** A client in words. */
export interface RecordedClient {
  /** `<name> <local> > <remote> <source port>`. */
  readonly tunnels: readonly string[];
  /** `<table> <destination> <tunnel or refused>`, without routes that only let tunnelled packets pass. */
  readonly routes: readonly string[];
  readonly senders: readonly string[];
  /** `<how many are ready> of <addresses>` of the gateways that it chooses from, for each Egress and family. */
  readonly choices: readonly string[];
  readonly port: number;
  readonly originatingOnly: boolean;
}

interface PlanJson {
  readonly choices: readonly {
    readonly ready: readonly number[];
    readonly all: readonly string[];
  }[];
  readonly tunnels: readonly {
    readonly name: string;
    readonly local: string;
    readonly remote: string;
    readonly sourcePort: number | "auto";
  }[];
  readonly routes: readonly {
    readonly table: number;
    readonly destination: string;
    readonly kind: string;
  }[];
  readonly senders: readonly string[];
  readonly port: number;
  readonly originatingOnly: boolean;
}

function clientOf(plan: PlanJson): RecordedClient {
  const { tunnels, routes, senders, choices, port, originatingOnly } = plan;
  return {
    tunnels: tunnels.map(({ name, local, remote, sourcePort }) =>
      `${name} ${local} > ${remote} ${sourcePort}`
    ),
    routes: routes.filter(({ kind }) => kind !== "throw")
      .map(({ table, destination, kind }) =>
        `${table} ${destination} ${REFUSING.includes(kind) ? "refused" : kind}`
      ),
    // The Services' addresses are senders as well, and in the tunnels already.
    senders: senders.filter((sender) =>
      tunnels.every(({ remote }) => remote !== sender)
    ),
    choices: choices.map(({ ready, all }) =>
      `${ready.length} of ${all.join()}`
    ),
    port,
    originatingOnly,
  };
}

async function inodeOf({ netns }: Sandbox): Promise<string> {
  return `${(await Deno.stat(`/run/netns/${netns}`)).ino}`;
}
