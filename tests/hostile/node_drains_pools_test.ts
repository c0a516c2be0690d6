// A stolen token of one node's coild asks for block after block, within the
// policies: each request has the node's own name and is deleted when answered.
import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { ControllerLab } from "../apiserver/controller_testing.ts";
import {
  type Attempt,
  blockRequest,
  PolicyLab,
} from "../apiserver/policy_lab.ts";

/** 2 addresses for each of 110 pods in blocks of 32, and 4 blocks. */
const USUAL = 11;
const NODE = "node1";
const POOLS = 20;

let policies: PolicyLab;
let lab: ControllerLab;

Deno.test.beforeAll(async () => {
  policies = await PolicyLab.start("drains");
  lab = ControllerLab.on(policies.plane);
  await lab.createPool("big", { subnets: [{ ipv4: "10.128.0.0/20" }] });
  for (let n = 0; n < POOLS; n++) {
    await lab.createPool(`small${n}`, {
      subnets: [{ ipv4: `10.3.${n}.0/24` }],
    });
  }
});

Deno.test.afterAll(async () => {
  await policies[Symbol.asyncDispose]();
});

async function send(attempt: Attempt): Promise<void> {
  const caller = { account: "coild", pod: `coild-${NODE}` } as const;
  const { status, message } = await policies.attempt(caller, attempt);
  assert.ok(status < 300, `${status} ${message}`);
}

/** Asks with the node's token by all names that it may use, at once. Returns the answers. */
async function askThrice(pool: string): Promise<string[]> {
  return await Promise.all(["req", "req2", "req3"].map(async (start) => {
    const name = `${start}-${pool}-${NODE}`;
    const body = blockRequest(name, NODE, { pool });
    await send({ method: "POST", path: "/blockrequests", body });
    const answer = await lab.answer(name);
    await send({ method: "DELETE", path: `/blockrequests/${name}` });
    return answer;
  }));
}

Deno.test("a node's token that asks for block after block does not drain a pool", async (t) => {
  {
    await using _controller = lab.startController();
    await t.step("it gets what its pods can need, and then none", async () => {
      const answers: string[] = [];
      for (let round = 0; round < 10; round++) {
        answers.push(...await askThrice("big"));
      }
      const given = answers.filter((text) => text.startsWith("block "));
      assert.equal(given.length, USUAL, answers.join("\n"));
      assert.equal((await lab.blocks("big")).length, USUAL);
      assert.match(
        answers.at(-1) ?? "",
        /^failed node block limit: Node "node1" holds 11 blocks of AddressPool "big", and 11 are enough for 110 pods/,
      );
    });
    await t.step("an Event on the Node says so", async () => {
      const events = await eventually("the Event", async () => {
        const found = await lab.events(NODE);
        return found.length > 0 && found;
      });
      const [text = "", ...others] = events.map((event) => {
        const { type, reason, message, involvedObject: { kind } } = event;
        return `${type} ${reason} ${kind}: ${message}`;
      });
      assert.deepEqual(others, [], "one Event for the same finding");
      assert.match(
        text,
        /^Warning BlockLimitReached Node: Node "node1" holds 11 blocks of AddressPool "big"/,
      );
    });
    await t.step("other nodes get blocks of the pool", async () => {
      assert.match(await lab.ask("big", "node2"), /^block big-/);
    });
    await t.step("it may hold blocks of many pools", async () => {
      for (let n = 0; n < POOLS; n++) {
        assert.equal(await lab.ask(`small${n}`, NODE), `block small${n}-0`);
      }
    });
  }
  await using _controller = lab.startController();
  await t.step("a new leader knows what the node holds", async () => {
    assert.match(await lab.ask("big", NODE), /^failed node block limit/);
  });
  await t.step("a block that it returns can be given again", async () => {
    await lab.returnBlock("big-0");
    await eventually("an answer", async () => {
      return (await lab.ask("big", NODE)) === "block big-0";
    });
    assert.match(await lab.ask("big", NODE), /^failed node block limit/);
  });
});

/** Writes what a Node says of itself, as its kubelet does. */
async function allowPods(node: string, pods: string): Promise<void> {
  const status = { allocatable: { pods }, capacity: { pods } };
  const options = { contentType: "application/merge-patch+json" };
  await lab.plane.request(
    "PATCH",
    `/api/v1/nodes/${node}/status`,
    { status },
    options,
  );
}

/** Asks until the node gets no more of the pool. Returns the refusal. */
async function askUntilRefused(pool: string, node: string): Promise<string> {
  for (let n = 0; n < 128; n++) {
    const answer = await lab.ask(pool, node);
    if (!answer.startsWith("block ")) return answer;
  }
  throw new Error("it got 128 blocks");
}

Deno.test("a Node that allows more pods than usual gets more blocks", async () => {
  await allowPods("node2", "250");
  await using _controller = lab.startController();
  assert.match(
    await askUntilRefused("big", "node2"),
    /holds 20 blocks .* 20 are enough for 250 pods/,
  );
});

Deno.test("a Node that allows 1000 pods, which the API server writes as 1k, gets blocks for them", async () => {
  await lab.createPool("kilo", {
    blockSizeBits: 6,
    subnets: [{ ipv4: "10.132.0.0/20" }],
  });
  await allowPods("node2", "1000");
  await using _controller = lab.startController();
  assert.match(
    await askUntilRefused("kilo", "node2"),
    /holds 36 blocks .* 36 are enough for 1000 pods/,
  );
});

Deno.test("a node that says that it has a million pods does not drain a pool", async () => {
  await lab.createPool("mega", { subnets: [{ ipv4: "10.133.0.0/22" }] });
  await allowPods(NODE, "999999");
  await using _controller = lab.startController("--max-pods-per-node=250");
  assert.match(
    await askUntilRefused("mega", NODE),
    /holds 20 blocks .* 20 are enough for 250 pods/,
  );
  assert.match(await lab.ask("mega", "node2"), /^block mega-/);
  const said = await eventually("an Event on the Node", async () => {
    return (await lab.events(NODE)).find(({ reason }) =>
      reason === "PodCountTooLarge"
    );
  });
  assert.match(
    said.message,
    /999999 pods, but coil-controller assumes at most 250/,
  );
});
