// A daemon that is killed after any request of an ADD or a DEL to the kernel.
import assert from "node:assert/strict";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import {
  PodCheckError,
  type PodNetwork,
  type SetupRequest,
  type Survey,
} from "../../lib/podnet/mod.ts";
import { eventually } from "../lab/wait.ts";
import {
  linkNames,
  ping,
  requestFor,
  routesOf,
  type TestNode,
  testNode,
} from "./podnet_testing.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

/** More requests than an ADD or a DEL makes. */
const MANY = 100;

/** Does the work, of which the kernel sees so many requests and no more. Returns whether that was all. */
async function killedAfter(
  count: number,
  work: () => Promise<unknown>,
): Promise<boolean> {
  const whole = RouteSocket.prototype.tryExecute;
  let left = count;
  let isKilled = false;
  RouteSocket.prototype.tryExecute = async function (requests) {
    if (requests.length <= left) {
      left -= requests.length;
      return await whole.call(this, requests);
    }
    const last = requests.slice(0, left);
    left = 0;
    isKilled = true;
    if (last.length > 0) await whole.call(this, last);
    throw new Error("killed");
  };
  try {
    await work();
  } catch (error) {
    if (!isKilled) throw error;
  } finally {
    RouteSocket.prototype.tryExecute = whole;
  }
  return !isKilled;
}

/** What the next daemon finds of an attachment, and whether it may take the pod's addresses for free. */
async function found(net: PodNetwork, pod: TempNetns) {
  const survey = await net.survey();
  const [link] = survey.pods;
  const lost = await net.findLostAddresses(survey.pods);
  const known = link === undefined
    ? ""
    : Object.values({ ...lost.get(link.index), ...link.addresses }).join();
  const inside = await pod.ip("address", "show", "scope", "global");
  const has = ["10.1.2.1/", "fd02::1/"].filter((text) => inside.includes(text));
  for (const text of has) {
    assert.ok(
      known.includes(text.slice(0, -1)) || survey.husks.length > 0,
      `the pod has ${text} and nobody knows`,
    );
  }
  return { survey, isConfigured: has.length > 0 };
}

/** CHECK's answer is true: what it calls whole can be reached. */
async function isWholeBy(
  net: PodNetwork,
  { host }: TestNode,
  request: SetupRequest,
): Promise<boolean> {
  try {
    await net.check(request);
  } catch (error) {
    assert.ok(error instanceof PodCheckError, String(error));
    return false;
  }
  await ping(host, "10.1.2.1");
  await ping(host, "fd02::1");
  return true;
}

async function assertGone({ host }: TestNode): Promise<void> {
  // A link goes some time after the namespace of its other end.
  await eventually(
    "that all links are gone",
    async () => (await linkNames(host)).length === 0,
  );
  assert.deepEqual(await routesOf(host, 116), []);
}

/** What can come after a restart, and ends with nothing left. */
type Sequel = (context: {
  readonly node: TestNode;
  readonly net: PodNetwork;
  readonly pod: TempNetns;
  readonly request: SetupRequest;
  readonly survey: Survey;
}) => Promise<void>;

async function del(net: PodNetwork, request: SetupRequest): Promise<void> {
  const teardown = await net.beginTeardown(request);
  if (teardown !== undefined) await net.finishTeardown(teardown);
}

const SEQUELS: Readonly<Record<string, Sequel>> = {
  "a DEL": ({ net, request }) => del(net, request),
  "another ADD": async ({ node, net, request }) => {
    await net.setup(request);
    await net.check(request);
    await ping(node.host, "10.1.2.1");
    await del(net, request);
  },
  "no call at all": async ({ net, pod, survey }) => {
    for (const seen of survey.pods) {
      const { teardown } = await net.beginTeardownOf(seen);
      if (teardown !== undefined) await net.finishTeardown(teardown);
    }
    // The runtime takes away what has no name of ours yet.
    await pod[Symbol.asyncDispose]();
  },
};

for (const [name, sequel] of Object.entries(SEQUELS)) {
  netnsTest(
    `a daemon killed after any request of an ADD, then ${name}: no address is forgotten, nothing is left`,
    async () => {
      await using node = await testNode();
      await node.net.init();
      let isWhole = false;
      let [configured, broken] = [0, 0];
      for (let count = 0; count < MANY && !isWhole; count++) {
        const pod = await node.pod();
        const request = requestFor(1, pod);
        const net = node.restart();
        isWhole = await killedAfter(count, () => net.setup(request));
        const next = node.restart();
        const { survey, isConfigured } = await found(next, pod);
        if (isConfigured) configured++;
        const checked = await isWholeBy(next, node, request);
        if (isWhole) assert.ok(checked);
        if (!checked) broken++;
        await next.finishHusks();
        await sequel({ node, net: next, pod, request, survey });
        await assertGone(node);
      }
      assert.ok(isWhole, "the ADD did not come to its end");
      assert.ok(configured > 10, `${configured} pods had an address`);
      assert.ok(broken > 15, `CHECK found ${broken} broken`);
    },
  );
}

for (const name of ["a DEL", "no call at all"] as const) {
  netnsTest(
    `a daemon killed after any request of a DEL, then ${name}: no address is forgotten, nothing is left`,
    async () => {
      await using node = await testNode();
      await node.net.init();
      let isWhole = false;
      let broken = 0;
      for (let count = 0; count < MANY && !isWhole; count++) {
        const pod = await node.pod();
        const request = requestFor(1, pod);
        await node.net.setup(request);
        const net = node.restart();
        isWhole = await killedAfter(count, () => del(net, request));
        const next = node.restart();
        const { survey } = await found(next, pod);
        if (!await isWholeBy(next, node, request)) broken++;
        await next.finishHusks();
        await SEQUELS[name]?.({ node, net: next, pod, request, survey });
        await assertGone(node);
      }
      assert.ok(isWhole, "the DEL did not come to its end");
      assert.ok(broken > 2, `CHECK found ${broken} broken`);
    },
  );
}
