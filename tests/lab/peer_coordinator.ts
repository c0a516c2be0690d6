import * as path from "node:path";
import { ensureGoPrograms, type Log } from "./build.ts";
import { lockFile } from "./cache.ts";
import { type GoProgram, goProgramFile } from "./go_build.ts";

const VERSION = "v1.2.2";
const PEER: GoProgram = {
  output: "peer-coordinator/",
  about: `coordinator (Go) ${VERSION}`,
  packages: ["./cmd/coordinator"],
  module: {
    name: `github.com/spidernet-io/spiderpool@${VERSION}`,
    goMinimum: "1.25",
  },
};
/** Where upstream's plugin asks its agent; nothing can change it. */
const AGENT_SOCKET = "/run/spidernet/spiderpool.sock";
/** Held by the one that answers there: tests of several files run beside each other. */
const AGENT_LOCK = "/run/coil-test-spidernet.lock";

/** Builds upstream's plugin `coordinator` from its Go module when it is missing, and returns its path. */
export async function ensurePeerCoordinator(
  options: { readonly log?: Log } = {},
): Promise<string> {
  await ensureGoPrograms([PEER], options);
  return path.join(goProgramFile(PEER), "coordinator");
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
  readonly #lock: Disposable;

  private constructor(
    server: Deno.HttpServer<Deno.UnixAddr>,
    lock: Disposable,
  ) {
    this.#server = server;
    this.#lock = lock;
  }

  /** Waits for another one to end. */
  static async start(answer: AgentAnswer): Promise<AgentStub> {
    const lock = await lockFile(AGENT_LOCK);
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
    return new AgentStub(server, lock);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Deno.remove(path.dirname(AGENT_SOCKET), { recursive: true });
    this.#lock[Symbol.dispose]();
  }
}
