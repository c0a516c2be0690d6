// coil migrate replace, when all pods are replaced and it removes blocks and restarts coild: killed after each of its
// changes, and without an answer to each of its requests. Its state is in memory only, so a command that gets no further
// request through has been killed for all that the cluster sees; where it reads, it leaves what the change before left.
import assert from "node:assert/strict";
import { HttpTransport, KubeUnreachableError } from "../../lib/kube/mod.ts";
import { RECORD_NAME } from "../../roles/coil_migrator/cluster/record.ts";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "./controller_testing.ts";
import { migrate, type Output } from "./migrator_testing.ts";

const SYSTEM = "/api/v1/namespaces/kube-system";
const MERGE = { contentType: "application/merge-patch+json" };
/** More changes than there are. */
const MANY = 100;
const RESERVED = ["default-0-v1", "default-1-v1"];
const NODES = ["node1", "node2"];

class Killed extends Error {
  override readonly name = "Killed";
}

/** What becomes of a request, which is `METHOD PATH`; `killed` comes after it was carried out. */
type Fate = (
  request: string,
) => "answered" | "unsent" | "unanswered" | "killed";

/** Runs `fn` while requests of `coil migrate` have this fate; those of others go on. */
async function withFate(fate: Fate, fn: () => Promise<void>): Promise<void> {
  let isKilled = false;
  const { request, stream } = HttpTransport.prototype;
  const fateful = <T extends (typeof request) | (typeof stream)>(whole: T) =>
    async function (
      this: HttpTransport,
      ...args: Parameters<T>
    ): Promise<unknown> {
      const [{ headers, method, path }, options] = args;
      const send = () => Reflect.apply(whole, this, [args[0], options]);
      if (!headers["user-agent"]?.startsWith("coil-migrator/")) {
        return await send();
      }
      if (isKilled) throw new Killed();
      const become = fate(`${method} ${path}`);
      if (become === "unsent") throw new KubeUnreachableError("not sent");
      const answer = await send();
      if (become === "answered") return answer;
      await drop(answer);
      if (become === "unanswered") throw new KubeUnreachableError("no answer");
      isKilled = true;
      throw new Killed();
    };
  HttpTransport.prototype.request = fateful(request) as typeof request;
  HttpTransport.prototype.stream = fateful(stream) as typeof stream;
  try {
    await fn();
  } finally {
    Object.assign(HttpTransport.prototype, { request, stream });
  }
}

/** Ends a stream that the command is not to see. */
async function drop(
  answer: Awaited<ReturnType<HttpTransport["request" | "stream"]>>,
): Promise<void> {
  if (!("chunks" in answer)) return;
  for await (const _chunk of answer.chunks) return;
}

interface PodObject {
  readonly metadata: { readonly name: string; readonly uid: string };
}

/** A cluster whose pods are all of v2. */
class Site {
  readonly lab: ControllerLab;

  constructor(lab: ControllerLab) {
    this.lab = lab;
  }

  replace(): Promise<Output> {
    return migrate(this.lab.plane, ["replace", "--yes", "--interval=0s"]);
  }

  /** As it is after the last pod: two reserved blocks, one with the finalizer; a coild on each node. */
  async reset(): Promise<void> {
    const { plane } = this.lab;
    for (const { metadata } of await this.lab.blocks("default")) {
      await this.lab.returnBlock(metadata.name ?? "");
    }
    for (const [index, name] of RESERVED.entries()) {
      await plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "AddressBlock",
        metadata: {
          name,
          labels: {
            "coil.cybozu.com/pool": "default",
            "coil.cybozu.com/node": NODES[index],
            "coil.cybozu.com/reserved": "true",
          },
          ...(index === 1 && { finalizers: ["coil.cybozu.com"] }),
        },
        index,
        ipv4: `10.64.0.${8 * index}/29`,
      });
    }
    for (const { metadata } of await this.coilds()) {
      await plane.request("DELETE", `${SYSTEM}/pods/${metadata.name}`);
    }
    await this.ensureCoilds();
    await plane.kubectl(
      ...["delete", "cm", "-n", "kube-system", RECORD_NAME],
      "--ignore-not-found",
    );
    const at = "2026-01-01T00:00:00Z";
    await plane.request("POST", `${SYSTEM}/configmaps`, {
      metadata: { name: RECORD_NAME },
      data: { dumpedAt: at, v1RemovedAt: at, blocks: `${RESERVED.length}` },
    });
  }

  async coilds(): Promise<readonly PodObject[]> {
    const { items } = await this.lab.plane.request(
      "GET",
      `${SYSTEM}/pods`,
    ) as { readonly items: readonly PodObject[] };
    return items;
  }

  /** As the DaemonSet controller does. */
  async ensureCoilds(): Promise<void> {
    const names = (await this.coilds()).map(({ metadata }) => metadata.name);
    for (const node of NODES) {
      const name = `coild-${node}`;
      if (names.includes(name)) continue;
      await this.lab.plane.request("POST", `${SYSTEM}/pods`, {
        metadata: {
          name,
          labels: {
            "app.kubernetes.io/name": "coil",
            "app.kubernetes.io/component": "coild",
          },
        },
        spec: {
          nodeName: node,
          hostNetwork: true,
          terminationGracePeriodSeconds: 0,
          containers: [{ name: "coild", image: "none" }],
        },
      });
      await this.lab.plane.request("PATCH", `${SYSTEM}/pods/${name}/status`, {
        status: { conditions: [{ type: "Ready", status: "True" }] },
      }, MERGE);
    }
  }

  async reserved(): Promise<number[]> {
    const blocks = await this.lab.blocks("default");
    return blocks.filter(({ metadata }) =>
      metadata.labels?.["coil.cybozu.com/reserved"] === "true"
    ).map(({ index }) => index);
  }

  async record(): Promise<Readonly<Record<string, string>>> {
    const path = `${SYSTEM}/configmaps/${RECORD_NAME}`;
    const map = await this.lab.plane.request("GET", path) as {
      readonly data: Readonly<Record<string, string>>;
    };
    return map.data;
  }

  /** The controller gives the lowest block that nobody has. */
  async assertGranted(): Promise<void> {
    const taken = (await this.lab.blocks("default")).map((b) => b.index);
    const free = [0, 1, 2, 3].find((index) => !taken.includes(index));
    const answer = await this.lab.ask("default", "node1");
    assert.equal(answer, `block default-${free}`);
  }

  /** All is removed, and each coild that saw a reserved block has been restarted; `fresh` ones have seen none. */
  async assertDone(
    before: readonly PodObject[],
    fresh: readonly PodObject[],
  ): Promise<void> {
    assert.deepEqual(await this.reserved(), []);
    const { finishedAt, coildToRestart } = await this.record();
    assert.ok(finishedAt);
    assert.equal(coildToRestart, undefined);
    const left = new Set((await this.coilds()).map((pod) => pod.metadata.uid));
    for (const { metadata } of before) {
      assert.ok(!left.has(metadata.uid), `${metadata.name} was not restarted`);
    }
    for (const { metadata } of fresh) {
      assert.ok(left.has(metadata.uid), `${metadata.name} twice`);
    }
    await this.assertGranted();
  }
}

Deno.test("migrate replace, while it removes blocks: killed after each change, or without an answer, nothing is lost or done twice", async (t) => {
  const lab = await ControllerLab.start("migrate-cut", NODES);
  await using _lab = lab;
  const subnets = [{ ipv4: "10.64.0.0/27" }];
  await lab.createPool("default", { blockSizeBits: 3, subnets });
  await using _controller = lab.startController();
  await eventually("blocks to be served", async () => {
    return (await lab.blocks("default")).length === 0;
  });
  const site = new Site(lab);
  const seen = new Set<string>();

  await t.step("killed after each change, and run again", async () => {
    let isOver = false;
    for (let n = 1; n < MANY && !isOver; n++) {
      await site.reset();
      const before = await site.coilds();
      let changes = 0;
      const fate: Fate = (request) => {
        if (!request.startsWith("GET ")) changes++;
        return changes < n ? "answered" : "killed";
      };
      await withFate(fate, async () => {
        isOver = await site.replace().then(({ code, err }) => {
          assert.equal(code, 0, err);
          return true;
        }, (error) => {
          assert.ok(error instanceof Killed, String(error));
          return false;
        });
      });
      const { removingBlocksAt, blocksRemovedAt } = await site.record();
      const left = await site.reserved();
      seen.add(`${left.length} blocks`);
      assert.ok(left.length === 2 || removingBlocksAt !== undefined);
      assert.ok(left.length === 0 || blocksRemovedAt === undefined);
      await site.assertGranted();
      const kept = new Set(before.map(({ metadata }) => metadata.uid));
      await site.ensureCoilds();
      const fresh = (await site.coilds()).filter(({ metadata }) =>
        !kept.has(metadata.uid)
      );
      seen.add(`${fresh.length} restarted`);
      const again = await site.replace();
      assert.equal(again.code, 0, again.err);
      await site.assertDone(before, fresh);
    }
    assert.ok(isOver);
    assert.deepEqual([...seen].toSorted(), [
      ...["0 blocks", "0 restarted", "1 blocks", "1 restarted"],
      ...["2 blocks", "2 restarted"],
    ]);
  });

  for (const become of ["unsent", "unanswered"] as const) {
    await t.step(`each request ${become} the first time`, async () => {
      await site.reset();
      const before = await site.coilds();
      const lost = new Set<string>();
      const fate: Fate = (request) => {
        if (lost.has(request)) return "answered";
        lost.add(request);
        return become;
      };
      await withFate(fate, async () => {
        const { code, err } = await site.replace();
        assert.equal(code, 0, err);
      });
      const writes = [...lost].filter((request) => !request.startsWith("GET "));
      assert.ok(writes.length > 5, `${writes}`);
      await site.assertDone(before, []);
    });
  }
});
