import * as path from "node:path";
import type { Log } from "./build.ts";
import { labDir, lockFile } from "./cache.ts";
import { run } from "./command.ts";
import { exists } from "./files.ts";
import { goBuildEnv, requireGo } from "./go.ts";

const MODULE = "github.com/spidernet-io/spiderpool";
const VERSION = "v1.2.2";
/** Where upstream's plugin asks its agent; nothing can change it. */
const AGENT_SOCKET = "/run/spidernet/spiderpool.sock";

/**
 * Builds upstream's plugin `coordinator` from its Go module, and returns its
 * path. In the module's own directory: what it requires does not fit beside
 * what the lab's module requires.
 */
export async function ensurePeerCoordinator(
  { log = () => {} }: { readonly log?: Log } = {},
): Promise<string> {
  const directory = path.join(labDir(), `peer-coordinator-${VERSION}`);
  const program = path.join(directory, "coordinator");
  await Deno.mkdir(directory, { recursive: true });
  using _lock = await lockFile(`${directory}.lock`, {
    onWait: () => log("waiting for another run that builds coordinator (Go)"),
  });
  if (await exists(program)) return program;
  log(`building coordinator (Go) ${VERSION}`);
  await requireGo(directory, "1.25");
  const env = goBuildEnv();
  const module = `${MODULE}@${VERSION}`;
  const answer = await run("go", ["mod", "download", "-json", module], {
    env,
    cwd: directory,
  });
  const { Dir: cwd } = JSON.parse(answer) as { Dir?: string };
  if (cwd === undefined) throw new Error(`Cannot find ${module}: ${answer}`);
  const part = `${program}.part`;
  const flags = ["-mod=readonly", "-trimpath", "-ldflags", "-s -w"];
  await run("go", ["build", ...flags, "-o", part, "./cmd/coordinator"], {
    env,
    cwd,
  });
  await Deno.rename(part, program);
  return program;
}

/** What the agent answers: the defaults of a SpiderCoordinator. */
export interface AgentAnswer {
  readonly serviceCIDR: readonly string[];
  readonly hijackCIDR?: readonly string[];
  readonly overlayPodCIDR?: readonly string[];
}

/** Spiderpool's agent, as far as the plugin asks it: it answers at once. */
export class AgentStub implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.UnixAddr>;

  private constructor(server: Deno.HttpServer<Deno.UnixAddr>) {
    this.#server = server;
  }

  static async start(answer: AgentAnswer): Promise<AgentStub> {
    await Deno.mkdir(path.dirname(AGENT_SOCKET), { recursive: true });
    await Deno.remove(AGENT_SOCKET).catch(() => {});
    const body = JSON.stringify({
      mode: "auto",
      tunePodRoutes: true,
      hostRuleTable: 500,
      podRPFilter: 0,
      txQueueLen: 0,
      vethMTU: 1500,
      hijackCIDR: [],
      overlayPodCIDR: [],
      ...answer,
    });
    const headers = { "content-type": "application/json" };
    const server = Deno.serve(
      { path: AGENT_SOCKET, onListen: () => {} },
      () => new Response(body, { headers }),
    );
    return new AgentStub(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Deno.remove(path.dirname(AGENT_SOCKET), { recursive: true });
  }
}
