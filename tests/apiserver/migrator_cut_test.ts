// coil migrate replace, when all pods are replaced and it removes blocks and restarts coild: killed after each of its
// changes, without an answer to each of its requests, and without an API server. Its state is in memory only, so a
// command that gets no further request through has been killed for all that the cluster sees; where it reads, it leaves
// what the change before left.
import assert from "node:assert/strict";
import { HttpTransport, KubeUnreachableError } from "../../lib/kube/mod.ts";
import { eventually, sleep } from "../lab/mod.ts";
import { FinishSite, REPLACE } from "./migrator_finish_site.ts";
import { MigratorProcess } from "./migrator_process.ts";
import type { Output } from "./migrator_testing.ts";

/** More changes than there are. */
const MANY = 100;

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

Deno.test("migrate replace, while it removes blocks: killed after each change, or without an answer, nothing is lost or done twice", async (t) => {
  await using site = await FinishSite.start("migrate-cut");
  await using process = await MigratorProcess.start(site.lab.plane);

  /** Runs it in this process, and lets it make so many changes. */
  const runHere = async (killAt: number): Promise<Output | undefined> => {
    let changes = 0;
    const fate: Fate = (request) => {
      if (!request.startsWith("GET ")) changes++;
      return changes < killAt ? "answered" : "killed";
    };
    let output: Output | undefined;
    await withFate(fate, async () => {
      output = await site.replace().catch((error) => {
        assert.ok(error instanceof Killed, String(error));
        return undefined;
      });
    });
    return output;
  };
  const runProcess = (killAt: number) => process.run(REPLACE, { killAt });

  for (
    const [what, run] of [
      ["cut off", runHere],
      ["as a process, killed by SIGKILL", runProcess],
    ] as const
  ) {
    await t.step(`${what} after each change, and run again`, async () => {
      const seen = new Set<string>();
      let output: Output | undefined;
      for (let n = 1; n < MANY && output === undefined; n++) {
        await site.reset();
        const before = await site.coilds();
        output = await run(n);
        assert.equal(output?.code ?? 0, 0, output?.err ?? "");
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
        const again = await run(Infinity);
        assert.equal(again?.code, 0, again?.err ?? "killed");
        await site.assertDone(before, fresh);
      }
      assert.ok(output !== undefined, "it never comes to its end");
      assert.deepEqual([...seen].toSorted(), [
        ...["0 blocks", "0 restarted", "1 blocks", "1 restarted"],
        ...["2 blocks", "2 restarted"],
      ]);
    });
  }

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

  await t.step("the API server is away while a block is removed", async () => {
    await site.reset();
    const before = await site.coilds();
    const { plane } = site.lab;
    const away = async () => {
      await plane.killApiServer();
      await sleep(2_000);
      await plane.startApiServer();
    };
    let outage: Promise<void> | undefined;
    const fate: Fate = (request) => {
      if (/^DELETE .*\/addressblocks\//.test(request)) outage ??= away();
      return "answered";
    };
    await withFate(fate, async () => {
      const { code, err } = await site.replace().finally(() => outage);
      assert.equal(code, 0, err);
    });
    assert.notEqual(outage, undefined);
    // The controller learns of the removal when its watch is there again; until then it gives other blocks.
    await eventually("all to be done", async () => {
      await site.assertDone(before, []);
      return true;
    });
  });
});
