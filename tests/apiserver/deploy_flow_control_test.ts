// API Priority and Fairness on a real API server: whose requests have which
// share of it, and that a flood of one leaves the others theirs.
import assert from "node:assert/strict";
import { type ControlPlane, eventually, startCoilPlane } from "../lab/mod.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;
const FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1";
const PODS = "/api/v1/pods";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/** So many pods make a list that takes the server a while. */
const PODS_OF_CLUSTER = 300;
/** Who floods the API server, and by how many requests: more than the level has seats, fewer than its queues hold. */
const FLOODS = [
  { account: "coild", requests: 600 },
  { account: "coil-controller", requests: 300 },
] as const;
/** So long the API server lets a request wait: a quarter of its --request-timeout. */
const WAIT_LIMIT_MS = 15_000;
/** Under which priority level each account's requests fall. */
const LEVELS = {
  "coild": "coil-nodes",
  "coil-controller": "coil-control-plane",
  "bystander": "workload-high",
} as const;
type Account = keyof typeof LEVELS;

interface NamedObject {
  readonly metadata: { readonly name: string; readonly uid: string };
}

interface Answer extends Pick<Response, "ok" | "status" | "headers"> {
  readonly tookMs: number;
}

class Cluster implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly #http: Deno.HttpClient;
  readonly #tokens = new Map<string, string>();

  private constructor(plane: ControlPlane) {
    this.plane = plane;
    this.#http = Deno.createHttpClient({
      caCerts: [plane.ca],
      // A connection for each: one of HTTP/2 has room for 250 requests.
      http2: false,
    });
  }

  static async start(): Promise<Cluster> {
    const plane = await startCoilPlane({ name: "flows" });
    await plane.kubectl("apply", "-k", `${DEPLOY}policies`);
    await plane.kubectl(
      ...["-n", "kube-system", "create", "serviceaccount", "bystander"],
    );
    return new Cluster(plane);
  }

  /** A GET by an account of kube-system; returns when the whole answer has come. */
  async get(account: string, path: string): Promise<Answer> {
    const authorization = `Bearer ${await this.#token(account)}`;
    const begun = performance.now();
    const response = await fetch(`${this.plane.url}${path}`, {
      client: this.#http,
      headers: { authorization },
    });
    await response.arrayBuffer();
    const { ok, status, headers } = response;
    return { ok, status, headers, tookMs: performance.now() - begun };
  }

  /** The FlowSchema that an account's request falls under. */
  async flowSchemaOf(account: string, path: string): Promise<string> {
    const { headers } = await this.get(account, path);
    const uid = headers.get("x-kubernetes-pf-flowschema-uid");
    const { items } = await this.plane.request(
      "GET",
      `${FLOW_CONTROL}/flowschemas`,
    ) as { items: NamedObject[] };
    return items.find(({ metadata }) => metadata.uid === uid)?.metadata.name ??
      `${uid}`;
  }

  /** A figure of the API server about one priority level, summed over its other labels. */
  async figure(
    name: string,
    level: string,
    reason: string = "",
  ): Promise<number> {
    const text = await this.plane.kubectl("get", "--raw", "/metrics");
    return text.split("\n")
      .filter((line) =>
        line.startsWith(`${name}{`) &&
        line.includes(`priority_level="${level}"`) && line.includes(reason)
      )
      .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  async #token(name: string): Promise<string> {
    const known = this.#tokens.get(name);
    if (known !== undefined) return known;
    const token = await this.plane.serviceAccountToken({
      namespace: "kube-system",
      name,
    });
    this.#tokens.set(name, token);
    return token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.close();
    await this.plane[Symbol.asyncDispose]();
  }
}

Deno.test("Coil's requests have their own shares of the API server", async (t) => {
  await using cluster = await Cluster.start();
  for (
    const [account, path, schema] of [
      ["coild", PODS, "coil-nodes"],
      ["coil-router", "/api/v1/nodes", "coil-nodes"],
      ["coil-controller", PODS, "coil-control-plane"],
      // As before Coil came.
      [
        "coil-controller",
        `${LEASES}/coil-ipam-leader`,
        "system-leader-election",
      ],
      ["bystander", PODS, "kube-system-service-accounts"],
    ] as const
  ) {
    await t.step(`${path} of ${account}: ${schema}`, async () => {
      // They come into force one by one.
      await eventually(schema, async () => {
        assert.equal(await cluster.flowSchemaOf(account, path), schema);
        return true;
      });
    });
  }

  await createPods(cluster.plane);
  for (const flood of FLOODS) {
    await t.step(
      `a flood of ${flood.account} waits, and no other`,
      async () => {
        await assertOnlyFloodWaits(cluster, flood);
      },
    );
  }
});

async function createPods(plane: ControlPlane): Promise<void> {
  for (let from = 0; from < PODS_OF_CLUSTER; from += 50) {
    await Promise.all(
      Array.from(
        { length: 50 },
        (_, i) =>
          plane.request("POST", "/api/v1/namespaces/default/pods", {
            metadata: {
              name: `pod-${from + i}`,
              annotations: { filler: "x".repeat(1_000) },
            },
            spec: { containers: [{ name: "main", image: "none" }] },
          }),
      ),
    );
  }
}

/** The others ask all the time while one floods the API server with lists of all pods. */
async function assertOnlyFloodWaits(
  cluster: Cluster,
  { account, requests }: typeof FLOODS[number],
): Promise<void> {
  const others = (Object.keys(LEVELS) as Account[])
    .filter((name) => name !== account);
  const before = await levelFigures(cluster);
  let isOver = false;
  const flood = Promise.all(
    Array.from({ length: requests }, () => cluster.get(account, PODS)),
  ).finally(() => isOver = true);
  let answered = 0;
  while (!isOver) {
    for (const other of others) {
      const { ok, status } = await cluster.get(other, `${PODS}?limit=1`);
      assert.ok(ok || status === 403, `${other}: ${status}`);
      if (!isOver) answered++;
    }
  }
  const answers = await flood;
  const after = await levelFigures(cluster);
  assert.ok(answers.some(({ ok }) => ok), "none of the flood was served");
  // A busy machine turns away those that have waited too long, and none because the queue is full.
  assert.equal(after[account].crowdedOut, before[account].crowdedOut);
  for (const { status, tookMs } of answers.filter(({ ok }) => !ok)) {
    assert.equal(status, 429);
    assert.ok(tookMs >= WAIT_LIMIT_MS, `refused after ${tookMs} ms`);
  }
  assert.ok(answered > 4, `${answered} requests of others were answered`);
  // They went past those that waited.
  const waitedS = (name: Account) => after[name].waitedS - before[name].waitedS;
  for (const other of others) {
    assert.ok(
      waitedS(other) < waitedS(account) / 100,
      `${other} waited for ${waitedS(other)} s, ${account} for ${
        waitedS(account)
      } s`,
    );
  }
}

interface LevelFigures {
  /** All requests together in the level's queues. */
  readonly waitedS: number;
  /** Rejected at once, because the queues were full. */
  readonly crowdedOut: number;
}

async function levelFigures(
  cluster: Cluster,
): Promise<Record<Account, LevelFigures>> {
  const waits = "apiserver_flowcontrol_request_wait_duration_seconds_sum";
  const rejections = "apiserver_flowcontrol_rejected_requests_total";
  const entries = Object.entries(LEVELS).map(async ([account, level]) => [
    account,
    {
      waitedS: await cluster.figure(waits, level),
      crowdedOut: await cluster.figure(
        rejections,
        level,
        'reason="queue-full"',
      ),
    },
  ]);
  return Object.fromEntries(await Promise.all(entries));
}
