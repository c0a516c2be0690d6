// Jobs that come and go for long, at a pace that leaves the processors to others.
import assert from "node:assert/strict";
import { sleep, TaskGroup } from "../../lib/async/mod.ts";
import { hostPort } from "../../lib/inet/mod.ts";
import { HUSK_ALIAS_PREFIX, LINK_ALIAS_PREFIX } from "../../lib/names/mod.ts";
import { assertAgreement, assertUnique } from "../e2e/agreement.ts";
import { Installation } from "../e2e/installation.ts";
import { HTTP_PORT, podSpec } from "../e2e/pods.ts";
import type { ClusterNode } from "../lab/cluster/mod.ts";

/** How long jobs come and go. */
const CHURN_SECONDS = Number(Deno.env.get("COIL_E2E_CHURN_SECONDS") ?? 600);
/** Jobs at a time, and pods of each. */
const [ROWS, JOB_PODS] = [3, 6];
/** From the start of a job to that of the next one of its row, unless it takes longer. */
const JOB_EVERY_MS = 40_000;
const LOOK_EVERY_MS = 3_000;
/** A third of those that there is time for; a machine that is slow takes more time. */
const LEAST_JOBS = Math.max(
  1,
  Math.floor(CHURN_SECONDS * 1000 / (JOB_EVERY_MS / ROWS) / 3),
);
const STEP_MS = 60_000;

let site: Installation;

Deno.test.beforeAll(async () => {
  site = await Installation.create({
    name: "churn",
    nodes: 2,
    by: "overlay ipam",
  });
});

Deno.test.afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
});

/** Jobs that come and go, and how many of them have gone. */
class Churn {
  readonly #urls: readonly string[];
  /** By performance.now(). */
  readonly #end = performance.now() + CHURN_SECONDS * 1000;
  jobs = 0;

  /** Whether there is nothing left to do at a time. */
  #isOver(ms: number): boolean {
    return ms >= this.#end && this.jobs >= LEAST_JOBS;
  }

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  /** Runs one job after the other, a row's share of the pace later than those of the row before. */
  async runRow(row: number, signal: AbortSignal): Promise<void> {
    let start = performance.now() + row * JOB_EVERY_MS / ROWS;
    for (let number = row; !this.#isOver(start); number += ROWS) {
      await sleep(Math.max(0, start - performance.now()), { signal });
      await runJob(`job-${number}`, this.#urls[number % this.#urls.length]);
      this.jobs++;
      start = Math.max(start + JOB_EVERY_MS, performance.now());
    }
  }

  /** Looks again and again, each minute as a step. */
  async watch(t: Deno.TestContext, signal: AbortSignal): Promise<void> {
    for (let minute = 1; !this.#isOver(performance.now()); minute++) {
      const isGood = await t.step({
        name: `minute ${minute}: no two pods have one address`,
        fn: () => this.#look(signal),
        // Jobs go on beside it.
        sanitizeOps: false,
        sanitizeResources: false,
      });
      assert.ok(isGood, `in minute ${minute} two pods have one address`);
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const end = performance.now() + STEP_MS;
    while (performance.now() < end && !this.#isOver(performance.now())) {
      await assertUnique(site);
      await sleep(LOOK_EVERY_MS, { signal });
    }
  }
}

/** Runs a Job whose pods ask the server once and end, and removes it with its pods. */
async function runJob(name: string, url: string = ""): Promise<void> {
  await site.plane.apply({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: "default" },
    spec: {
      parallelism: JOB_PODS,
      completions: JOB_PODS,
      backoffLimit: 0,
      template: {
        spec: { ...podSpec({ args: ["once", url] }), restartPolicy: "Never" },
      },
    },
  });
  await site.plane.kubectl(
    ...["wait", "--for=condition=Complete", `job/${name}`, "--timeout=600s"],
  );
  await site.plane.kubectl(
    ...["delete", "job", name, "--cascade=foreground", "--timeout=300s"],
  );
}

async function podLinks(node: ClusterNode): Promise<readonly string[]> {
  const text = await node.run("ip", ["-j", "link", "show"]);
  return (JSON.parse(text) as { ifalias?: string }[])
    .map(({ ifalias = "" }) => ifalias)
    .filter((alias) =>
      [LINK_ALIAS_PREFIX, HUSK_ALIAS_PREFIX].some((p) => alias.startsWith(p))
    );
}

Deno.test(`jobs come and go for ${CHURN_SECONDS} s: not one address is lost or doubled`, async (t) => {
  const servers = await Promise.all(
    site.nodes.map(({ name: node }) =>
      site.pods.run({ name: `server-${node}`, node })
    ),
  );
  const churn = new Churn(
    servers.flatMap(({ addresses }) => addresses)
      .map((address) => `http://${hostPort(address, HTTP_PORT)}/`),
  );
  await using group = new TaskGroup();
  for (let row = 0; row < ROWS; row++) {
    group.run(`row ${row}`, (signal) => churn.runRow(row, signal));
  }
  group.run("watch", (signal) => churn.watch(t, signal));
  await group.wait();
  const { jobs } = churn;
  await t.step(
    `${jobs} jobs of ${JOB_PODS} pods came and went: kernel, API server, runtime and coild agree`,
    async () => {
      await assertAgreement(site);
      await site.pods.remove(...servers);
      await assertAgreement(site);
      for (const node of site.nodes) {
        assert.deepEqual(await podLinks(node), [], `links of ${node.name}`);
      }
    },
  );
});
