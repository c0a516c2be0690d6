/**
 * All of coild as a node starts it, with an API server in memory and the
 * controller's half for addresses: one process, in a network namespace that
 * plays the node.
 *
 * @module
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { startTimer, TaskGroup } from "../../lib/async/mod.ts";
import { AddResponseSchema, CNIArgsSchema } from "../../lib/cnirpc/mod.ts";
import { askAddresses } from "../../lib/cnirpc/inspection/mod.ts";
import { callUnary } from "../../lib/grpc/testing.ts";
import {
  type CoreV1Event,
  type EventInfo,
  type EventRecorder,
  KubeClient,
  KubeMetrics,
  type KubeObject,
  type ObjectMeta,
  type TransportRequest,
} from "../../lib/kube/mod.ts";
import { MemoryApi, serveTransport } from "../../lib/kube/testing.ts";
import { NODE_NAME_ENV } from "../../lib/names/mod.ts";
import { Registry } from "../../lib/telemetry/mod.ts";
import { askCoild } from "../../roles/coil/ask.ts";
import { main } from "../../roles/coild/mod.ts";
import { IpamMetrics } from "../../roles/coil_controller/ipam/metrics.ts";
import { openIpam } from "../../roles/coil_controller/ipam_part.ts";
import { TextLineStream } from "../lab/lines.ts";
import { eventually, sleep } from "../lab/wait.ts";
import { type TempNetns, tempNetns } from "./testing.ts";

const SELF = new URL(import.meta.url).pathname;

/** A busy machine takes longer for a block than the 10 s that an ADD waits for one by default. */
const PATIENT = "--block-request-timeout=100s";

/** A start that has not failed by then does not. */
const FAILURE_MS = 60_000;

/** How the API server begins: a list of {@linkcode Change} and {@linkcode Delay}. */
const BEGINNING_ENV = "COIL_TEST_BEGINNING";

/** What the process reads from its standard input, a line of JSON. */
type Message = Change | Delay | "events" | "delayed";

/** A change of what the API server has. */
export interface Change {
  readonly plural: string;
  /** Stored; absent: that of the name goes. */
  readonly object?: KubeObject;
  readonly name?: string;
}

/** How long the API server takes for each answer from then on. */
interface Delay {
  readonly delayMs: number;
}

/** The network configuration of pods. */
const CONFIG = { cniVersion: "1.1.0", name: "net", type: "coil" };

/** What a runtime calls with. */
export interface Call {
  readonly containerId: string;
  readonly pod: string;
  /** Absent: none is given, as with some DELs. */
  readonly netns?: TempNetns;
}

/** A node "n1" with coild on it, and pool "default" of blocks of 2 addresses. */
export class WholeCoild implements AsyncDisposable {
  readonly host: TempNetns;
  readonly #dir: string;
  #process: Deno.ChildProcess | undefined;
  #input: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #output: ReadableStreamDefaultReader<string> | undefined;

  private constructor(host: TempNetns, dir: string) {
    this.host = host;
    this.#dir = dir;
  }

  static async start(...flags: readonly string[]): Promise<WholeCoild> {
    const host = await tempNetns("node");
    const coild = new WholeCoild(host, await Deno.makeTempDir());
    await host.ip("link", "add", "node0", "type", "bridge");
    await host.ip("address", "add", "192.0.2.1/24", "dev", "node0");
    await host.ip("link", "set", "node0", "up");
    coild.restart(flags);
    return coild;
  }

  /** Of its gRPC socket; the others are beside it. */
  get socketPath(): string {
    return `${this.#dir}/coild.sock`;
  }

  get #log(): string {
    return `${this.#dir}/log`;
  }

  /** All that it has logged. */
  async logged(): Promise<string> {
    return await Deno.readTextFile(this.#log);
  }

  /** Starts it again, in a cluster that differs by this from the first one. */
  restart(
    flags: readonly string[],
    beginning: readonly (Change | Delay)[] = [],
  ): void {
    this.#process = this.#spawn(flags, {
      [BEGINNING_ENV]: JSON.stringify(beginning),
    });
    this.#input = this.#process.stdin.getWriter();
    const lines = this.#process.stdout.pipeThrough(new TextLineStream());
    this.#output = lines.getReader();
  }

  /** The exit code of a start beside it, which fails; 0 when it does not. */
  async failing(env: Readonly<Record<string, string>> = {}): Promise<number> {
    const noPorts = ["--metrics-addr=0", "--health-addr=0"];
    const stop = new AbortController();
    using _timer = startTimer(FAILURE_MS, () => stop.abort());
    const { stdin, stdout, status } = this.#spawn(noPorts, env, stop.signal);
    const { code } = await status;
    await stdin.close().catch(() => {});
    await stdout.cancel();
    return code;
  }

  #spawn(
    flags: readonly string[],
    env: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Deno.ChildProcess {
    const script = `exec nsenter --net=${this.host.path} "$@" 2>>${this.#log}`;
    return new Deno.Command("sh", {
      args: [
        ...["-c", script, "sh", Deno.execPath(), "run", "-A", "--no-check"],
        ...[SELF, `--socket=${this.socketPath}`, PATIENT, ...flags],
      ],
      env: { [NODE_NAME_ENV]: "n1", ...env },
      stdin: "piped",
      stdout: "piped",
      ...(signal && { signal }),
    }).spawn();
  }

  /** Changes what the API server has. */
  async change(change: Change): Promise<void> {
    await this.#say(change);
  }

  /** Lets the API server take so long for each answer to it. */
  async delayAnswers(delayMs: number): Promise<void> {
    await this.#say({ delayMs });
  }

  /** The reasons of the Events that it has written. */
  async eventReasons(): Promise<readonly string[]> {
    return JSON.parse(await this.#say("events"));
  }

  /** The paths of the requests that wait for their answers because of {@linkcode delayAnswers}. */
  async delayed(): Promise<readonly string[]> {
    return JSON.parse(await this.#say("delayed"));
  }

  async #say(message: Message): Promise<string> {
    const line = `${JSON.stringify(message)}\n`;
    await this.#input?.write(new TextEncoder().encode(line));
    return (await this.#output?.read())?.value ?? "";
  }

  /** Ends it as a node does, and returns its exit code. */
  async stop(): Promise<number | undefined> {
    const process = this.#process;
    if (process === undefined) return undefined;
    this.#process = undefined;
    try {
      process.kill("SIGTERM");
    } catch (error) {
      // It has ended by itself.
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#input?.close().catch(() => {});
    await this.#output?.cancel();
    return (await process.status).code;
  }

  /** Calls it as the plugin does. */
  async call(
    method: "Add" | "Del" | "Check" | "Status",
    call?: Call,
  ): Promise<Uint8Array> {
    const args = create(CNIArgsSchema, {
      containerId: call?.containerId ?? "",
      ifname: "eth0",
      netns: call?.netns?.path ?? "",
      args: { K8S_POD_NAME: call?.pod ?? "", K8S_POD_NAMESPACE: "team" },
      stdinData: new TextEncoder().encode(JSON.stringify(CONFIG)),
    });
    return await callUnary({
      socketPath: this.socketPath,
      method: `/pkg.cnirpc.CNI/${method}`,
      message: toBinary(CNIArgsSchema, args),
      timeoutMs: 2 * FAILURE_MS,
    });
  }

  /** The exit code of a STATUS that comes by the plugin's door. */
  async launch(): Promise<number | undefined> {
    const answer = await askCoild({
      socketPath: this.socketPath,
      env: { CNI_COMMAND: "STATUS", CNI_PATH: "/opt/cni/bin" },
      stdin: new TextEncoder().encode(JSON.stringify(CONFIG)),
    });
    return answer?.exitCode;
  }

  /** The addresses that an ADD gives. */
  async add(call: Call): Promise<string[]> {
    const { result } = fromBinary(
      AddResponseSchema,
      await this.call("Add", call),
    );
    const { ips } = JSON.parse(new TextDecoder().decode(result));
    return (ips as { address: string }[]).map(({ address }) => address);
  }

  /** The addresses that it shows administrators as used, by container. */
  async shown(): Promise<Readonly<Record<string, readonly string[]>>> {
    const signal = AbortSignal.timeout(FAILURE_MS);
    const { table } = await askAddresses(this.socketPath, { signal });
    return Object.fromEntries(
      table.filter(({ state }) => state === "used")
        .map(({ containerId, addresses }) => [containerId, addresses]),
    );
  }

  /** Resolves when it serves ADD. */
  async ready(): Promise<void> {
    try {
      await eventually("coild to be ready", async () => {
        await this.call("Status");
        return true;
      });
    } catch (cause) {
      throw new Error(await this.logged(), { cause });
    }
  }

  /** What it answers at one of its two ports, with the status in front. */
  async get(port: 9384 | 9385, path: string): Promise<string> {
    const url = `http://127.0.0.1:${port}${path}`;
    return await this.host.exec("curl", "-sw", "\\n%{http_code}", url);
  }

  /** Value of a sample of its metrics; undefined when there is none. */
  async metric(sample: string): Promise<number | undefined> {
    const text = await this.get(9384, "/metrics");
    const line = text.split("\n").find((l) => l.startsWith(`${sample} `));
    return line === undefined ? undefined : Number(line.split(" ").at(-1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.host[Symbol.asyncDispose]();
    await Deno.remove(this.#dir, { recursive: true });
  }
}

/** The cluster: the node, its pool, a namespace and two pods. */
function fill({ api }: Server): void {
  const address = { type: "InternalIP", address: "192.0.2.1" };
  api.put("nodes", {
    metadata: { name: "n1" },
    status: { addresses: [address] },
  });
  api.put("namespaces", { metadata: { name: "team" } });
  api.put("addresspools", {
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: { name: "default" },
    spec: { blockSizeBits: 1, subnets: [{ ipv4: "10.64.0.0/28" }] },
  });
  for (const name of ["a", "b", "c"]) {
    api.put("pods", {
      metadata: { namespace: "team", name, uid: `uid-of-${name}` },
      spec: { nodeName: "n1", containers: [] },
    });
  }
}

function make(server: Server, message: Change | Delay): void {
  if ("delayMs" in message) {
    server.delayMs = message.delayMs;
    return;
  }
  const { plural, object, name = "" } = message;
  if (object !== undefined) server.api.put(plural, object);
  else server.api.remove(`${plural}/${name}`);
}

function reasonsIn(api: MemoryApi): (string | undefined)[] {
  return api.keys.filter((key) => key.startsWith("events/"))
    .map((key) => api.get<CoreV1Event>(key)?.reason);
}

/** The API server as coild has it. */
class Server {
  readonly api = new MemoryApi();
  delayMs = 0;
  readonly delayed = new Set<TransportRequest>();

  async stream(request: TransportRequest): ReturnType<MemoryApi["stream"]> {
    if (this.delayMs > 0) {
      this.delayed.add(request);
      await sleep(this.delayMs);
      this.delayed.delete(request);
    }
    return await this.api.stream(request);
  }
}

async function follow(server: Server): Promise<void> {
  const lines = Deno.stdin.readable.pipeThrough(new TextLineStream());
  for await (const line of lines) {
    const message: Message = JSON.parse(line);
    const isDelayed = message === "delayed";
    if (!isDelayed && message !== "events") make(server, message);
    const said = isDelayed
      ? [...server.delayed].map(({ path }) => path)
      : reasonsIn(server.api);
    const answer = `${JSON.stringify(said)}\n`;
    await Deno.stdout.write(new TextEncoder().encode(answer));
  }
}

function startController(api: MemoryApi, group: TaskGroup): void {
  const registry = new Registry();
  const event = (_: ObjectMeta, __: EventInfo) => {};
  const lead = openIpam({
    client: new KubeClient(api, { fieldManager: "coil-controller" }),
    events: { event } as unknown as EventRecorder,
    metrics: new IpamMetrics(registry),
    kubeMetrics: new KubeMetrics(registry),
    gcIntervalMs: 3_600_000,
    nodeGraceMs: 3_600_000,
    concurrentRequests: 4,
    nodeAddressFactor: 0,
    maxPodsPerNode: 1000,
    heap: { note() {} },
  }, group);
  group.run("leader", lead);
}

if (import.meta.main) {
  const server = new Server();
  fill(server);
  const beginning: (Change | Delay)[] = JSON.parse(
    Deno.env.get(BEGINNING_ENV) ?? "[]",
  );
  for (const each of beginning) make(server, each);
  await using group = new TaskGroup();
  startController(server.api, group);
  await using served = await serveTransport(server);
  Deno.env.set("KUBECONFIG", served.kubeconfig);
  follow(server).catch(() => Deno.exit(2));
  await main(Deno.args, { program: "coild" });
}
