import assert from "node:assert/strict";
import { awaitedLater, eventually, sleep } from "../lab/mod.ts";
import { CoildLab } from "./coild_lab.ts";
import { addUntilRequested } from "./timed_out_add.ts";

const BLOCKS = "/apis/coil.cybozu.com/v2/addressblocks";
const MERGE = { contentType: "application/merge-patch+json" };
const PATIENT = [
  "--cooldown=0s",
  "--block-request-timeout=1h",
  "--block-return-delay=0s",
  "--low-water=0",
];
/** So is who calls: the API server may take minutes to come back. */
const CALL = { timeoutMs: 3_600_000 };
const IMPATIENT = ["--cooldown=0s", "--block-request-timeout=500ms"];
const USER = "system:serviceaccount:kube-system:coild";

Deno.test("coild outlives outages in the middle of its requests", async (t) => {
  await using lab = await CoildLab.start({
    name: "coildoutage",
    audit: "metadata",
  });
  const { granter, plane } = lab;
  const node = lab.node();
  await lab.createPool("default", [{ ipv4: "10.126.0.0/24" }], 1);
  let coild = await lab.startCoild(node, PATIENT);
  const hasRequest = async (pool: string) => {
    const requests = await lab.list("blockrequests");
    return requests.some(({ metadata: { name } }) =>
      name.startsWith(`req-${pool}-`)
    );
  };
  /** Waits until coild has a request for a block of a pool. */
  const requested = (pool: string) =>
    eventually("the request", () => hasRequest(pool));
  const noRequests = () =>
    eventually(
      "used requests to be gone",
      async () => (await lab.list("blockrequests")).length === 0,
    );

  await t.step(
    "an ADD that waits for a block is served when the controller comes back",
    async () => {
      const pod = await lab.createPod("waits");
      const adding = awaitedLater(coild.addresses(pod, CALL));
      await requested("default");
      await sleep(1_500);
      granter.start();
      assert.equal((await adding).length, 1);
      await granter.stop();
      await coild.del(pod);
    },
  );

  await t.step(
    "an empty block goes back although others keep changing it",
    async () => {
      granter.start();
      const pod = await lab.createPod("conflict");
      await coild.add(pod);
      await granter.stop();
      const name = granter.granted.at(-1) ?? "";
      const stop = new AbortController();
      const writers = Array.from({ length: 4 }, async (_, writer) => {
        for (let n = 0; !stop.signal.aborted; n++) {
          // Answered with "not found" once the block is gone.
          await plane.request("PATCH", `${BLOCKS}/${name}`, {
            metadata: { annotations: { [`writer${writer}`]: `${n}` } },
          }, MERGE).catch(() => stop.abort());
        }
      });
      await coild.del(pod);
      try {
        await eventually(
          "the block to be gone",
          async () => !(await lab.blocks()).includes(name),
        );
      } finally {
        stop.abort();
        await Promise.all(writers);
      }
    },
  );

  await t.step(
    "the API server is killed while a block request is under way, and comes back: the same ADD is served",
    async () => {
      const before = granter.granted.length;
      await noRequests();
      const pod = await lab.createPod("cut");
      const adding = awaitedLater(coild.addresses(pod, CALL));
      await requested("default");
      await plane.killApiServer();
      await sleep(500);
      await plane.startApiServer();
      granter.start();
      assert.equal((await adding).length, 1);
      await granter.stop();
      assert.equal(granter.granted.length, before + 1);
      await coild.check(pod);
      await coild.del(pod);
    },
  );

  await t.step(
    "410 Gone: what was granted and changed while the watches were cut is taken over",
    async () => {
      await coild[Symbol.asyncDispose]();
      coild = await lab.startCoild(node, IMPATIENT);
      await lab.createPool("late", [{ ipv4: "10.128.0.0/28" }], 2);
      await lab.createNamespace("late", { "coil.cybozu.com/pool": "late" });
      const pod = await lab.createPod("late", { namespace: "late" });
      await addUntilRequested(coild, pod, () => hasRequest("late"));
      const before = granter.granted.length;
      // It hears nothing of what follows.
      Deno.kill(coild.process.pid, "SIGSTOP");
      granter.start();
      await eventually(
        "the answer",
        () => granter.granted.length === before + 1,
      );
      await granter.stop();
      await lab.createPool("gap", [{ ipv4: "10.127.0.0/28" }], 2);
      await lab.createNamespace("gap", { "coil.cybozu.com/pool": "gap" });
      // Twice: the watch cache of the last one begins after all that.
      for (let n = 0; n < 2; n++) {
        await plane.killApiServer();
        await plane.startApiServer();
      }
      const since = new Date();
      Deno.kill(coild.process.pid, "SIGCONT");
      const blocks = 'coil_coild_blocks{pool="late"}';
      await eventually(
        "the block to be adopted",
        async () => await coild.metric(blocks) === 1,
      );
      await coild.add(pod);
      assert.equal(granter.granted.length, before + 1);
      await eventually("a new list, for the version is too old", async () => {
        const requests = await plane.auditRequests({ since, user: USER });
        return requests.some(({ uri }) =>
          uri.startsWith("/api/v1/namespaces?") &&
          uri.includes("sendInitialEvents=true")
        );
      });
      granter.start();
      const other = await lab.createPod("gap", { namespace: "gap" });
      await eventually("the new pool to be known", async () => {
        const [address] = await coild.addresses(other);
        assert.match(address ?? "", /^10\.127\.0\./);
        return true;
      });
      await coild.del(pod);
      await coild.del(other);
    },
  );

  await t.step(
    "coil-controller is killed, and an ADD that waits for a block is served when it is back",
    async () => {
      await granter.stop();
      await coild[Symbol.asyncDispose]();
      coild = await lab.startCoild(node, PATIENT);
      const first = await lab.startController();
      await lab.createPool("real", [{ ipv4: "10.129.0.0/28" }], 1);
      await lab.createNamespace("real", { "coil.cybozu.com/pool": "real" });
      const one = await lab.createPod("one", { namespace: "real" });
      const two = await lab.createPod("two", { namespace: "real" });
      const three = await lab.createPod("three", { namespace: "real" });
      // A block of two.
      const given = [
        ...await coild.addresses(one),
        ...await coild.addresses(two),
      ];
      await noRequests();
      await first.kill9();
      const adding = awaitedLater(coild.addresses(three, CALL));
      await requested("real");
      await lab.startController();
      given.push(...await adding);
      assert.equal(new Set(given).size, 3, `${given}`);
      for (const pod of [one, two, three]) await coild.del(pod);
    },
  );

  await coild[Symbol.asyncDispose]();
});
