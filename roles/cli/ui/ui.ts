import { TaskGroup } from "../../../lib/async/mod.ts";
import {
  type Call,
  type Command,
  CommandError,
  connect,
  defineCommand,
} from "../../../lib/command/mod.ts";
import { CLUSTER_FLAGS, defineFlags } from "../../../lib/flags/mod.ts";
import { ListenError, serveAt } from "../../../lib/telemetry/mod.ts";
import { Cluster } from "./cluster.ts";
import { Feed } from "./feed.ts";
import { newSecret, urlOf } from "./guard.ts";
import { serveSite } from "./site.ts";

const FLAGS = defineFlags({
  "port": {
    type: "int",
    default: 0,
    min: 0,
    max: 65_535,
    help: "Port of 127.0.0.1 to listen on; 0 chooses a free port",
  },
  ...CLUSTER_FLAGS,
});

/** All of the browser's connections come from one address. */
const LIMITS = { maxPerPeer: 64 };

/** `coil ui`: the cluster as a page, on this machine. */
export const UI: Command = defineCommand({
  path: "ui",
  about: "Show problems, pools, nodes and Egresses in a browser",
  flags: FLAGS,
  details:
    `Serves a page at 127.0.0.1 that shows problems, pools, nodes and Egresses, and
follows changes. It reads the API server with your kubeconfig and changes nothing.
Prints the URL, which is a secret: every user of this machine who has it sees what you
may read. Ctrl-C ends it.`,
  run: ui,
});

async function ui(
  { values, terminal, signal }: Call<typeof FLAGS>,
): Promise<void> {
  using client = await connect(values);
  await using tasks = new TaskGroup({ signal });
  const feed = new Feed();
  const secret = newSecret();
  const door = { port: 0, secret };
  const { port, finished } = listen(values.port, {
    handler: (request) => serveSite(request, { door, feed }),
    signal: tasks.signal,
  });
  door.port = port;
  await Cluster.start(client, { feed, tasks });
  terminal.out(`${urlOf(door)}\n`);
  tasks.run("server", () => finished);
  await tasks.wait();
}

/** @throws {CommandError} when the port is taken */
function listen(
  port: number,
  { handler, signal }: {
    readonly handler: (request: Request) => Response;
    readonly signal: AbortSignal;
  },
): ReturnType<typeof serveAt> {
  try {
    return serveAt(`127.0.0.1:${port}`, handler, {
      flag: "--port",
      limits: LIMITS,
      signal,
    });
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    throw new CommandError(error.message, { cause: error });
  }
}
