/**
 * Starts coild with pods' egress written to files instead of to the kernel,
 * which on many machines cannot make Foo-over-UDP tunnels. What a pod has is
 * in `<dir>/<inode of its network namespace>.json`, as it would be in the
 * kernel: it outlives coild.
 */
import type {
  ClientPlan,
  EndedConnections,
  KnownChoices,
} from "../../lib/egress/mod.ts";
import { sleep } from "../../lib/async/mod.ts";
import { Address, type Family, Prefix } from "../../lib/inet/mod.ts";
import { FouUnsupportedError } from "../../lib/netlink/mod.ts";
import {
  type AppliedPlan,
  type EgressPlane,
  main,
  type PlaneOptions,
} from "../../roles/coild/mod.ts";
import {
  PLANE_DIR_ENV,
  type RecordedCall,
  REFUSING,
} from "./recorded_plane.ts";

class RecordingPlane implements EgressPlane {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async prepare(families: readonly Family[]): Promise<void> {
    if (families.length === 0 || !await this.#isAsked("unsupported")) return;
    throw new FouUnsupportedError();
  }

  async apply(
    plan: ClientPlan,
    options: PlaneOptions & { readonly freshMtu?: number },
  ): Promise<AppliedPlan> {
    const locals = plan.tunnels.map(({ local }) => `${local}`).join();
    await this.#call("apply", { ...options, locals }, async (file) => {
      while (await this.#isAsked("held")) {
        await sleep(20);
      }
      // Half-done things stay, as in the kernel; of an empty plan nothing does.
      if (plan.families.length === 0) {
        await Deno.remove(file).catch(expectNotFound);
      } else await replaceFile(file, JSON.stringify(plan));
      if (await this.#isAsked("broken")) throw new Error("asked to fail");
    });
    return { awaitsAddress: false };
  }

  async choose(plan: ClientPlan, options: PlaneOptions): Promise<void> {
    await this.apply(plan, options);
  }

  async clear(options: PlaneOptions): Promise<boolean> {
    if (!await exists(this.#fileOf(options.netns.inode))) return false;
    await this.#call("clear", options, (file) => Deno.remove(file));
    return true;
  }

  async inspect(
    plan: ClientPlan,
    { netns }: PlaneOptions,
  ): Promise<readonly string[]> {
    const file = this.#fileOf(netns.inode);
    if (!await exists(file)) return ["all of it is missing"];
    const text = await Deno.readTextFile(file);
    return text === JSON.stringify(plan) ? [] : ["it is another one"];
  }

  async refused({ netns }: PlaneOptions): Promise<readonly Prefix[]> {
    const file = this.#fileOf(netns.inode);
    if (!await exists(file)) return [];
    const { routes } = JSON.parse(await Deno.readTextFile(file)) as {
      routes: { kind: string; destination: string }[];
    };
    return routes.filter(({ kind }) => REFUSING.includes(kind))
      .map(({ destination }) => Prefix.parse(destination));
  }

  endConnections(): Promise<EndedConnections> {
    return Promise.resolve({ aborted: 0, forgotten: 0 });
  }

  async choices(
    _plan: ClientPlan,
    { netns }: PlaneOptions,
  ): Promise<KnownChoices> {
    const file = this.#fileOf(netns.inode);
    if (!await exists(file)) return { chosen: new Map(), lost: new Set() };
    const { choices, tunnels } = JSON.parse(await Deno.readTextFile(file)) as {
      choices: { tunnel: string; all: string[]; lost: number[] }[];
      tunnels: { name: string; gateway: string }[];
    };
    const chosen = new Map<string, Address[]>();
    for (const { tunnel, all } of choices) {
      const of = tunnels.find(({ name }) => name === tunnel)?.gateway ?? "";
      chosen.set(of, [...chosen.get(of) ?? [], ...all.map(Address.parse)]);
    }
    return {
      chosen,
      lost: new Set(choices.flatMap(({ lost }) => lost)),
    };
  }

  #fileOf(inode: bigint): string {
    return `${this.#dir}/${inode}.json`;
  }

  async #isAsked(fault: string): Promise<boolean> {
    return await exists(`${this.#dir}/${fault}`);
  }

  async #call(
    what: RecordedCall["what"],
    { netns: { inode }, freshMtu, locals = "" }: PlaneOptions & {
      readonly freshMtu?: number;
      readonly locals?: string;
    },
    fn: (file: string) => Promise<void>,
  ): Promise<void> {
    const record = async (call: Omit<RecordedCall, "at">) => {
      const at = performance.timeOrigin + performance.now();
      const line = `${JSON.stringify({ ...call, at })}\n`;
      await Deno.writeTextFile(`${this.#dir}/calls`, line, { append: true });
    };
    const isFresh = freshMtu !== undefined;
    const call = { what, inode: `${inode}`, isFresh, locals };
    await record({ ...call, edge: "begin" });
    try {
      await fn(this.#fileOf(inode));
    } finally {
      await record({ ...call, edge: "end" });
    }
  }
}

/** Whole or not at all, even when this process is killed amid it. */
async function replaceFile(file: string, text: string): Promise<void> {
  const temporary = `${file}.${Deno.pid}`;
  await Deno.writeTextFile(temporary, text);
  await Deno.rename(temporary, file);
}

function expectNotFound(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

const dir = Deno.env.get(PLANE_DIR_ENV);
if (dir === undefined) throw new TypeError(`${PLANE_DIR_ENV} is not set`);
await main(Deno.args, { program: "coild", plane: new RecordingPlane(dir) });
