// The only API server ends and comes back: how long until the coilds of many
// nodes are in step with it, and how long another program waits in the meantime.
import type { CoilCluster } from "../../lab/coil.ts";
import {
  type ControlPlane,
  eventually,
  inNetns,
  sleep,
} from "../../lab/mod.ts";
import { LARGE, namespacesOfNode } from "../../scale/size.ts";
import { type Figure, figure } from "../figures.ts";
import { many } from "../many.ts";
import { processorSeconds } from "../process_memory.ts";
import { Bystander } from "./bystander.ts";
import type {
  Answer,
  ChangedKey,
  Question,
  WatchingNode,
} from "./daemon_watches.ts";
import type { BigNode } from "./objects.ts";
import { storePodsElsewhere } from "./stored.ts";
import { waitFigures } from "./waits.ts";

const FLOW_CONTROL =
  new URL("../../../deploy/policies/flow_control.yaml", import.meta.url)
    .pathname;
const WORKER = new URL("./daemon_watches.ts", import.meta.url);
/** Each has a thread. */
const WORKERS = 2;
const WIDTH = 8;
const NAMESPACES = 1_000;
const PODS_EACH = 30;
/** From when the server's port is open again. */
const WINDOW_MS = 60_000;
/** Before the server ends. */
const BEFORE_MS = 20_000;
const SETTLE_MS = 15_000;
/** etcd's JSON gateway (etcd documentation, "gRPC gateway"). */
const PUT = "http://127.0.0.1:2379/v3/kv/put";
/** Changed when the server is back. */
const CHANGED: readonly ChangedKey[] = [
  ["namespaces", "many-0"],
  ["addresspools", "pool-0"],
];

export interface RestartBench {
  readonly cluster: CoilCluster;
  /** Those whose coilds watch. */
  readonly nodes: readonly BigNode[];
  readonly log: (text: string) => void;
}

/**
 * Restarts the API server of a cluster without Coil's programs, and beside these
 * nodes' coilds: without Coil's priority levels (`shared`) and with them; then
 * with the levels and the controller alone.
 */
export async function restartFigures(bench: RestartBench): Promise<Figure[]> {
  const { cluster, nodes, log } = bench;
  const { plane } = cluster;
  const watching = await prepare(bench);
  await using bystander = await Bystander.start(plane);
  const measure = (name: string, daemons: readonly DaemonWorker[]) =>
    restart(bench, { name: `restart.${name}`, daemons, bystander });
  await plane.kubectl("delete", "--ignore-not-found", "-f", FLOW_CONTROL);
  await cluster.controller?.stop();
  const figures = await measure("bare", []);
  await cluster.startController();
  log(`the coilds of ${nodes.length} nodes`);
  {
    using daemons = await Daemons.open(plane, watching);
    figures.push(...await measure(`${nodes.length}.shared`, daemons.workers));
    await plane.kubectl("apply", "-f", FLOW_CONTROL);
    figures.push(...await measure(`${nodes.length}`, daemons.workers));
  }
  figures.push(...await measure("none", []));
  return figures;
}

/** As many namespaces and pools as a large cluster has, and these nodes' pods and tokens. */
async function prepare(
  { cluster: { plane }, nodes, log }: RestartBench,
): Promise<WatchingNode[]> {
  log(`${NAMESPACES} namespaces, ${PODS_EACH * nodes.length} pods`);
  await many(
    NAMESPACES,
    WIDTH,
    (i) =>
      plane.request("POST", "/api/v1/namespaces", {
        metadata: { name: `many-${i}` },
      }),
  );
  await plane.apply(
    ...Array.from({ length: LARGE.pools }, (_, i) => ({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name: `pool-${i}` },
      spec: { blockSizeBits: 5, subnets: [{ ipv4: `10.150.${i}.0/24` }] },
    })),
  );
  await storePodsElsewhere(plane, PODS_EACH * nodes.length, {
    nodes: nodes.map(({ name }) => name),
  });
  const watching: WatchingNode[] = [];
  const count = Math.round(namespacesOfNode(LARGE));
  await many(nodes.length, WIDTH, async (i) => {
    const name = nodes[i]?.name ?? "";
    const token = await plane.serviceAccountToken({
      namespace: "kube-system",
      name: "coild",
      node: name,
    });
    const egressNamespaces = Array.from(
      { length: count },
      (_, n) => `many-${(i + n) % LARGE.egressNamespaces}`,
    );
    watching[i] = { name, token, egressNamespaces };
  });
  return watching;
}

/** Workers with the coilds' watches. */
class Daemons implements Disposable {
  readonly workers: DaemonWorker[] = [];

  static async open(
    { url: server, ca }: ControlPlane,
    nodes: readonly WatchingNode[],
  ): Promise<Daemons> {
    using undo = new DisposableStack();
    const daemons = undo.use(new Daemons());
    for (let i = 0; i < WORKERS; i++) daemons.workers.push(new DaemonWorker());
    await Promise.all(
      daemons.workers.map((worker, i) =>
        worker.ask({
          ask: "open",
          server,
          ca,
          nodes: nodes.filter((_, n) => n % WORKERS === i),
        })
      ),
    );
    undo.move();
    return daemons;
  }

  [Symbol.dispose](): void {
    for (const worker of this.workers) worker.end();
  }
}

class DaemonWorker {
  readonly #worker = new Worker(WORKER, { type: "module" });

  ask(question: Question): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#worker.onmessage = ({ data }) => resolve(data);
    this.#worker.onerror = ({ message }) => reject(new Error(message));
    this.#worker.postMessage(question);
    return promise;
  }

  end(): void {
    this.#worker.terminate();
  }
}

interface Restart {
  /** Of the figures. */
  readonly name: string;
  readonly daemons: readonly DaemonWorker[];
  readonly bystander: Bystander;
}

async function restart(
  bench: RestartBench,
  { name, daemons, bystander }: Restart,
): Promise<Figure[]> {
  const { cluster: { plane }, log } = bench;
  await sleep(SETTLE_MS);
  const beginMs = Date.now();
  await sleep(BEFORE_MS);
  log(`${name}: the API server ends`);
  const killMs = Date.now();
  await plane.killApiServer();
  const version = await nextVersion(plane);
  const stepping = Promise.all(
    daemons.map((worker) =>
      worker.ask({ ask: "step", version, changed: CHANGED })
    ),
  );
  const [portMs] = await Promise.all([
    portOpens(plane),
    plane.startApiServer(),
  ]);
  const readyMs = Date.now();
  if (daemons.length > 0) await change(bench);
  const answers = await stepping;
  const busyS = serverSeconds(plane);
  const after = { fromMs: portMs, toMs: portMs + WINDOW_MS };
  await sleep(Math.max(0, after.toMs - Date.now()));
  log(await levelLines(plane));
  const before = { fromMs: beginMs, toMs: killMs };
  return [
    figure(`${name}.port`, "s", [(portMs - killMs) / 1000]),
    figure(`${name}.ready`, "s", [(readyMs - killMs) / 1000]),
    // Until all are in step, and in the whole minute.
    figure(`${name}.server.step`, "s", [busyS]),
    figure(`${name}.server`, "s", [serverSeconds(plane)]),
    ...stepFigures(name, killMs, answers),
    ...waitFigures(`${name}.before`, bystander.asked, before),
    ...waitFigures(`${name}.after`, bystander.asked, after),
  ];
}

/** Waits until the API server's port accepts a connection; returns when, in ms since 1970. */
async function portOpens({ url }: ControlPlane): Promise<number> {
  const { hostname, port } = new URL(url);
  return await eventually("the API server's port", async () => {
    using _connection = await Deno.connect({ hostname, port: Number(port) });
    return Date.now();
  }, { timeoutMs: WINDOW_MS });
}

/** Processor time since its start. */
function serverSeconds({ apiServer }: ControlPlane): number {
  if (apiServer === undefined) throw new Error("No API server runs");
  return processorSeconds(apiServer.pid);
}

/** Writes to etcd what the API server does not read: the version is later than all that it has told. */
async function nextVersion({ netns }: ControlPlane): Promise<number> {
  const put = JSON.stringify({ key: btoa("/bench/restart"), value: btoa("") });
  const answer = await inNetns(netns, "curl", [
    ...["--silent", "--show-error", "--fail", "--data", put, PUT],
  ]);
  return Number(/"revision":"(\d+)"/.exec(answer)?.[1]);
}

/** Each node's Node, a namespace and a pool get an annotation. */
async function change(
  { cluster: { plane }, nodes }: RestartBench,
): Promise<void> {
  const paths = [
    "/api/v1/namespaces/many-0",
    "/apis/coil.cybozu.com/v2/addresspools/pool-0",
    ...nodes.map(({ name }) => `/api/v1/nodes/${name}`),
  ];
  const annotations = { changed: new Date().toISOString() };
  await many(
    paths.length,
    WIDTH,
    (i) =>
      eventually("an object changed", async () => {
        await plane.request("PATCH", paths[i] ?? "", {
          metadata: { annotations },
        }, { contentType: "application/merge-patch+json" });
        return true;
      }),
  );
}

function stepFigures(
  name: string,
  killMs: number,
  answers: readonly Answer[],
): Figure[] {
  const times = answers.flatMap(({ atMs }) => atMs)
    .map((atMs) => (atMs - killMs) / 1000);
  if (times.length === 0) return [];
  const counts = new Map<string, number>();
  for (const { requests } of answers) {
    for (const [what, count] of Object.entries(requests)) {
      counts.set(what, (counts.get(what) ?? 0) + count);
    }
  }
  return [
    figure(`${name}.first`, "s", [Math.min(...times)]),
    figure(`${name}.step`, "s", times, { target: "≤ 60" }),
    ...[...counts].sort().map(([what, count]) =>
      figure(`${name}.${what}`, "requests", [count])
    ),
  ];
}

/** What API Priority and Fairness counted since the start. */
async function levelLines(plane: ControlPlane): Promise<string> {
  const text = await plane.kubectl("get", "--raw", "/metrics");
  return text.split("\n").filter((line) =>
    /^apiserver_flowcontrol_(request_wait_duration_seconds_(sum|count)|rejected_requests_total|work_estimated_seats_(sum|bucket)|request_execution_seconds_(sum|count)|nominal_limit_seats|current_limit_seats)\{/
      .test(line) && /coil-|workload-high|system"|leader/.test(line)
  ).join("\n");
}
