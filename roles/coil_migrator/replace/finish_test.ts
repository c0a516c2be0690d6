import assert from "node:assert/strict";
import { readCommandLine } from "../../../lib/flags/mod.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import { FakeTransport } from "../../../lib/kube/testing.ts";
import { REPLACE_FLAGS } from "../command/flags.ts";
import { finish } from "./finish.ts";
import { replaceContext } from "./context.ts";

const GONE = {
  status: 404,
  body: { kind: "Status", status: "Failure", reason: "NotFound" },
};

/** Reserved blocks `INDEX NODE`, pods of coild `NODE ready|not`, and the record. */
class FakeCluster {
  readonly record: Record<string, string>;
  readonly #blocks: Map<string, unknown>;
  readonly #coild: Map<string, unknown>;

  constructor(
    options: {
      readonly blocks: readonly string[];
      readonly coild: readonly string[];
      readonly record: Readonly<Record<string, string>>;
    },
  ) {
    this.record = { ...options.record };
    this.#blocks = new Map(options.blocks.map((line) => {
      const [index = "", node = ""] = line.split(" ");
      const name = `default-${index}-v1`;
      const labels = {
        "coil.cybozu.com/pool": "default",
        "coil.cybozu.com/node": node,
        "coil.cybozu.com/reserved": "true",
      };
      const ipv4 = `10.64.0.${8 * Number(index)}/29`;
      const metadata = { name, labels, uid: name, resourceVersion: "1" };
      return [name, { metadata, index: Number(index), ipv4 }];
    }));
    this.#coild = new Map(options.coild.map((line) => {
      const [nodeName = "", word] = line.split(" ");
      const name = `coild-${nodeName}`;
      const status = word === "ready" ? "True" : "False";
      return [name, {
        metadata: { name, namespace: "kube-system", uid: name },
        spec: { nodeName, hostNetwork: true },
        status: { conditions: [{ type: "Ready", status }] },
      }];
    }));
  }

  get blocks(): string[] {
    return [...this.#blocks.keys()];
  }

  /** Pods of coild that were not deleted. */
  get coild(): string[] {
    return [...this.#coild.keys()];
  }

  readonly transport = new FakeTransport(({ method, path, body }) => {
    const [place = ""] = path.split("?");
    if (place.endsWith("/configmaps/coil-migration")) {
      if (method === "PATCH") this.#note(JSON.parse(String(body)).data);
      return { body: { data: this.record } };
    }
    const objects = place.includes("/addressblocks")
      ? this.#blocks
      : place.includes("/namespaces/kube-system/pods")
      ? this.#coild
      : new Map<string, unknown>();
    const [, name] = /\/(?:addressblocks|pods)\/([^/]+)$/.exec(place) ?? [];
    if (name === undefined) {
      return { body: { metadata: {}, items: [...objects.values()] } };
    }
    if (method === "DELETE") objects.delete(name);
    else if (!objects.has(name)) return GONE;
    return { body: objects.get(name) ?? {} };
  });

  #note(changes: Readonly<Record<string, string | null>>): void {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) delete this.record[key];
      else this.record[key] = value;
    }
  }

  async finish(
    { signal, onText }: {
      readonly signal: AbortSignal;
      readonly onText: (text: string) => void;
    },
  ): Promise<number> {
    const info = { program: "replace", version: "1", about: "" };
    const line = readCommandLine(REPLACE_FLAGS, ["--yes"], info);
    assert.equal(line.kind, "run");
    if (line.kind !== "run") return -1;
    using client = new KubeClient(this.transport);
    const terminal = {
      isInteractive: false,
      now: () => new Date(),
      out: () => {},
      err: onText,
      ask: () => Promise.resolve(undefined),
    };
    const { values } = line;
    return await finish(
      replaceContext({ values, client, terminal, signal, pollMs: 1 }),
    );
  }
}

Deno.test("finish() releases the blocks of nodes whose coild is ready, and keeps the others", async () => {
  const cluster = new FakeCluster({
    blocks: ["0 n1", "1 n2", "2 n3"],
    coild: ["n1 ready", "n2 not"],
    record: { dumpedAt: "t", v1RemovedAt: "t" },
  });
  let text = "";
  const { signal } = new AbortController();
  const onText = (more: string) => void (text += more);
  assert.equal(await cluster.finish({ signal, onText }), 3);
  assert.deepEqual(cluster.blocks, ["default-1-v1", "default-2-v1"]);
  assert.match(text, /Kept 2 reserved blocks .* not ready on n2, n3/);
  assert.equal(cluster.record["finishedAt"], undefined);
  // It restarts with its blocks gone.
  assert.deepEqual(cluster.coild, ["coild-n2"]);
});

Deno.test("finish() of a second round is not done before coild is restarted", async () => {
  const record = { dumpedAt: "t", v1RemovedAt: "t", removingBlocksAt: "t" };
  const cluster = new FakeCluster({
    blocks: ["0 n1"],
    coild: ["n1 ready"],
    record: { ...record, blocksRemovedAt: "t", finishedAt: "t" },
  });
  const stop = new AbortController();
  const interrupted = cluster.finish({
    signal: stop.signal,
    onText: (text) => {
      if (text.includes(" removed")) stop.abort(new Error("Ctrl-C"));
    },
  });
  await assert.rejects(interrupted, /Ctrl-C/);
  assert.deepEqual(cluster.blocks, []);
  assert.deepEqual(cluster.coild, ["coild-n1"]);
  assert.equal(cluster.record["finishedAt"], undefined);
  const { signal } = new AbortController();
  assert.equal(await cluster.finish({ signal, onText: () => {} }), 0);
  assert.deepEqual(cluster.coild, []);
  assert.notEqual(cluster.record["finishedAt"], undefined);
});
