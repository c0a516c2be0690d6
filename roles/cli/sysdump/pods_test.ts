import assert from "node:assert/strict";
import type { V1Pod } from "../../../lib/kube/mod.ts";
import { Collection } from "../archive/collection.ts";
import type { Exec } from "../base/kubectl.ts";
import { collectPods, nodesWithoutCoild } from "./pods.ts";

const running = { running: {} };
const ended = { terminated: { exitCode: 1 } };

function pod(name: string, statuses: readonly object[]): V1Pod {
  return {
    metadata: {
      namespace: "kube-system",
      name,
      labels: { "app.kubernetes.io/component": "coild" },
    },
    spec: {
      nodeName: "node1",
      containers: [{
        name: "coild",
        ports: [{ name: "metrics", containerPort: 9384 }],
      }],
    },
    status: { containerStatuses: statuses },
  } as unknown as V1Pod;
}

const REPORT = { version: "1", files: { "rules.txt": "all" }, missing: [] };

/** The files, what is missing, and what was asked for. */
async function collect(
  one: V1Pod,
  answer: Awaited<ReturnType<Exec>>,
): Promise<{ files: string[]; missing: string[]; asked: string[] }> {
  const files: string[] = [];
  const asked: string[] = [];
  const { signal } = new AbortController();
  const collection = new Collection({
    archive: {
      add: async (path) => files.push(path) > 0,
      finish: async () => {},
    },
    redactor: undefined,
    signal,
    startedAt: new Date(),
  });
  await collectPods([one], collection, {
    client: {
      raw: async (path) => {
        asked.push(path);
        return "log";
      },
    },
    exec: async (_, args) => {
      asked.push(args.join(" "));
      return answer;
    },
    logLines: 7,
    signal,
    onDone: () => {},
  });
  const missing = collection.missing.map(({ what, why }) => `${what}: ${why}`);
  return { files, missing, asked };
}

const GOOD = { code: 0, stdout: JSON.stringify(REPORT), stderr: "" };

Deno.test("of a pod there are its logs, the previous one too, and what it says", async () => {
  const { files, missing, asked } = await collect(
    pod("a", [{
      name: "coild",
      restartCount: 1,
      state: running,
      lastState: ended,
    }]),
    GOOD,
  );
  const folder = "nodes/node1/kube-system/a";
  assert.deepEqual(files, [
    `${folder}/coild.log`,
    `${folder}/coild.previous.log`,
    `${folder}/rules.txt`,
  ]);
  assert.deepEqual(missing, []);
  const path = "/api/v1/namespaces/kube-system/pods/a/log?container=coild";
  const query = "&tailLines=7&limitBytes=16777216";
  assert.deepEqual(asked, [
    path + query,
    `${path}${query}&previous=true`,
    "sysdump --local --component=coild --metrics-port=9384",
  ]);
});

for (
  const [what, state, answer, why] of [
    [
      "that waits",
      { waiting: {} },
      GOOD,
      /^.*: container "coild" is not running$/,
    ],
    ["of an older version", running, { ...GOOD, code: 2 }, /too old/],
    [
      "that is not reached",
      running,
      { code: 1, stdout: "", stderr: "x\nerror: no route\n" },
      /^Pod kube-system\/a: its own report: error: no route$/,
    ],
    [
      "that says something else",
      running,
      { ...GOOD, stdout: "{}" },
      /not a report/,
    ],
  ] as const
) {
  Deno.test(`a pod ${what} is named as missing`, async () => {
    const { missing } = await collect(
      pod("a", [{ name: "coild", restartCount: 0, state }]),
      answer,
    );
    assert.equal(missing.length, 1);
    assert.match(missing[0] ?? "", why);
  });
}

Deno.test("a container that never ran has no log", async () => {
  const waiting = { name: "coild", restartCount: 0, state: { waiting: {} } };
  const { asked } = await collect(pod("a", [waiting]), GOOD);
  assert.deepEqual(asked, []);
});

Deno.test("nodesWithoutCoild() names Linux nodes without coild's pod", () => {
  const node = (name: string, os?: string) => ({
    metadata: {
      name,
      ...(os === undefined ? {} : { labels: { "kubernetes.io/os": os } }),
    },
  });
  const nodes = [node("node1"), node("node2", "linux"), node("w", "windows")];
  assert.deepEqual(nodesWithoutCoild(nodes, [pod("a", [])]), ["node2"]);
});
