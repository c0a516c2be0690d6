// What a block costs the API server, from the request to its return, and which
// watches coild opens for it.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { CoildLab } from "./coild_lab.ts";

/** Of so many blocks one costs no more than is needed, on a slow machine, too. */
const MOST_CYCLES = 10;

/** As a request in a line: `watch blockrequests req-default-node1`. */
function lineOf(
  { verb, resource, uri, name }: {
    readonly verb: string;
    readonly resource: string;
    readonly uri: string;
    readonly name?: string;
  },
): string {
  const { searchParams } = new URL(uri, "https://server");
  const selector = searchParams.get("fieldSelector") ??
    searchParams.get("labelSelector") ?? "";
  return [verb, resource, name ?? selector].filter((word) => word !== "")
    .join(" ");
}

Deno.test("a block costs seven requests, and its request is watched by name", async () => {
  await using lab = await CoildLab.start({
    name: "blockcycle",
    audit: "metadata",
  });
  // Blocks of one address: each ADD needs one, each DEL gives it back.
  await lab.createPool("default", [{ ipv4: "10.100.0.0/26" }], 0);
  lab.granter.start();
  await using coild = await lab.startCoild(lab.node(), [
    ...["--block-return-delay=1s", "--cooldown=0s", "--low-water=0"],
  ]);
  const noneLeft = () =>
    eventually("no block and no request", async () => {
      const left = [...await lab.blocks(), ...await lab.list("blockrequests")];
      return left.length === 0;
    });
  // Not the first one: the pool is looked up then.
  const first = await lab.createPod("first");
  await coild.add(first);
  await coild.del(first);
  await noneLeft();

  const user = "system:serviceaccount:kube-system:coild";
  /** What a block costs that is requested for a pod and returned after it, by requests in lines. */
  const cycle = async (name: string) => {
    const since = new Date();
    const pod = await lab.createPod(name);
    await coild.add(pod);
    await coild.del(pod);
    await noneLeft();
    return await eventually("the requests", async () => {
      const found = (await lab.plane.auditRequests({ since, user }))
        .filter(({ resource, stage, verb }) =>
          /^address|^blockrequest/.test(resource) &&
          // A watch that stays open has no other stage yet.
          (verb !== "watch" || stage === "ResponseStarted" ||
            stage === "ResponseComplete")
        );
      const lines = [
        ...new Set(
          found.map((one) => `${one.received.getTime()} ${lineOf(one)}`),
        ),
      ].map((line) => line.replace(/^\d+ /, ""));
      // The last ones of the block and of its request; the log follows the answers.
      const last = ["patch addressblocks", "delete blockrequests"];
      return last.every((start) =>
        lines.some((line) => line.startsWith(start))
      ) && lines;
    });
  };
  const request = "req-default-" + lab.node().name;
  const look = "get addressblocks default-0";
  let isBusy = true;
  for (let count = 1; isBusy; count++) {
    const lines = await cycle(`pod${count}`);
    // On a slow machine a request is looked at once more while it waits.
    const isAgain = (line: string, at: number) =>
      line === `get blockrequests ${request}` ||
      line.startsWith("watch") && lines.indexOf(line) !== at;
    const once = lines.filter((line, at) => !isAgain(line, at));
    // There, a block is looked for before it is taken in, now and then.
    isBusy = once.filter((line) => line === look).length === 3 &&
      count < MOST_CYCLES;
    assert.deepEqual(once.toSorted(), [
      `create blockrequests ${request}`,
      `delete addressblocks default-0`,
      `delete blockrequests ${request}`,
      ...Array(isBusy ? 3 : 2).fill(look),
      `patch addressblocks default-0`,
      `watch blockrequests ${request}`,
    ]);
  }
});
