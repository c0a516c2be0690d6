import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import type { EndedConnections } from "../../../lib/egress/mod.ts";
import { gatewayFor } from "../../../lib/egress/testing.ts";
import { Netns, openLibc } from "../../../lib/linux/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import type { Attachment } from "../calls/attachment.ts";
import { ConnectionEndings } from "./endings.ts";
import { SeenNamespaces } from "./seen_namespaces.ts";

openLibc(); // stays open, so it must not be counted as a test's leak

const GATEWAY = Address.parse("10.64.0.9");
const OTHER = Address.parse("10.64.0.10");

function attachment(containerId: string): Attachment {
  return {
    key: { containerId, ifname: "eth0" },
    pod: { namespace: "team", name: containerId },
    addresses: {},
    openNetns: () => Promise.resolve(Netns.current()),
  };
}

Deno.test("ConnectionEndings.end() asks no more of a pod while a program of it holds the kernel up", async () => {
  using netns = Netns.current();
  const { promise, resolve } = Promise.withResolvers<void>();
  const held = promise.then(() => {});
  let asked = 0;
  const reported: boolean[] = [];
  const endings = new ConnectionEndings({
    plane: {
      endConnections: async () => {
        asked++;
        return asked === 1
          ? { aborted: 0, forgotten: 1, held }
          : { aborted: 1, forgotten: 1 };
      },
    },
    health: { lost: new Set() },
    onEnded: (ended) => void reported.push(ended.held !== undefined),
    onSwitched: () => {},
  }, new SeenNamespaces());
  const { signal } = new AbortController();
  const end = (pod: string) =>
    endings.end(attachment(pod), [GATEWAY], { netns, signal });
  await end("a");
  await end("a");
  assert.deepEqual(reported, [true]);
  await end("b");
  assert.deepEqual(reported, [true, false]);
  resolve();
  await held;
  await end("a");
  assert.deepEqual(reported, [true, false, false]);
});

/** What ends connections as the test says. */
function endingsOf(
  endConnections: () => Promise<EndedConnections>,
  { nowMs, lost = new Set(), switched = [] }: {
    readonly nowMs?: () => number;
    readonly lost?: ReadonlySet<string>;
    /** Gets the lost gateways that pods have left. */
    readonly switched?: string[];
  } = {},
): ConnectionEndings {
  return new ConnectionEndings({
    plane: { endConnections },
    health: { lost },
    ...(nowMs && { nowMs }),
    onEnded: () => {},
    onSwitched: (gateways) => void switched.push(...gateways.map(String)),
  }, new SeenNamespaces());
}

Deno.test("ConnectionEndings.end() tries each gateway for a minute, however often, and says the first error and the last", async () => {
  using netns = Netns.current();
  const { signal } = new AbortController();
  const said: string[] = [];
  configureLogging({ write: (line) => void said.push(line) });
  let atMs = 0;
  const endings = endingsOf(
    () => Promise.reject(new Error(`no memory at ${atMs}`)),
    { nowMs: () => atMs },
  );
  const pod = attachment("a");
  const outcomes: string[] = [];
  const endAt = async (ms: number, ...gateways: readonly Address[]) => {
    atMs = ms;
    await endings.end(pod, gateways, { netns, signal });
    outcomes.push(endings.owed(pod, []).join());
  };
  for (let ms = 0; ms < 20; ms++) await endAt(ms, GATEWAY);
  assert.deepEqual(outcomes.splice(0), Array(20).fill(`${GATEWAY}`));
  await endAt(59_999, GATEWAY, OTHER);
  await endAt(60_000, GATEWAY, OTHER);
  await endAt(119_999, OTHER);
  assert.deepEqual(outcomes, [`${GATEWAY},${OTHER}`, `${OTHER}`, ""]);
  const errors = said.map((line) => /memory at (\d+)/.exec(line)?.[1]);
  assert.deepEqual(errors, ["0", "60000", "119999"]);
  const ofGateway = said.map((line) => line.includes(`${GATEWAY}"`));
  assert.deepEqual(ofGateway, [true, true, false]);
});

Deno.test("ConnectionEndings.end() is to be tried again after a program held the kernel up, and is not at the end of coild", async () => {
  using netns = Netns.current();
  const stop = new AbortController();
  const { signal } = stop;
  const { promise, resolve } = Promise.withResolvers<void>();
  const held = promise.then(() => {});
  const answers = [{ aborted: 0, forgotten: 1, held }];
  const endings = endingsOf(async () => {
    signal.throwIfAborted();
    return answers.pop() ?? { aborted: 1, forgotten: 1 };
  });
  const pod = attachment("a");
  const end = () => endings.end(pod, [GATEWAY], { netns, signal });
  const owed: string[] = [];
  for (let tries = 1; tries <= 3; tries++) {
    await end();
    owed.push(endings.owed(pod, []).join());
    if (tries < 2) continue;
    resolve();
    await held;
  }
  assert.deepEqual(owed, [`${GATEWAY}`, `${GATEWAY}`, ""]);
  stop.abort(new Error("coild ends"));
  await assert.rejects(end(), /coild ends/);
});

Deno.test("ConnectionEndings.owed() forgets a gateway that the pod has again", async () => {
  using netns = Netns.current();
  const { signal } = new AbortController();
  configureLogging({ write: () => {} });
  const endings = endingsOf(() => Promise.reject(new Error("no memory")));
  const pod = attachment("a");
  await endings.end(pod, [GATEWAY, OTHER], { netns, signal });
  const back = gatewayFor("nat/a", [], { direct: [GATEWAY] });
  assert.deepEqual(endings.owed(pod, [back]), [OTHER]);
  assert.deepEqual(endings.owed(pod, []), [OTHER]);
});

Deno.test("ConnectionEndings.owed() forgets a lost gateway whose connections are to stay", async () => {
  using netns = Netns.current();
  const { signal } = new AbortController();
  configureLogging({ write: () => {} });
  const endings = endingsOf(() => Promise.reject(new Error("no memory")), {
    lost: new Set([`${GATEWAY}`]),
  });
  const pod = attachment("a");
  await endings.end(pod, [GATEWAY], { netns, signal });
  const lost = gatewayFor("nat/a", [], { direct: [GATEWAY] });
  assert.deepEqual(endings.owed(pod, [lost]), [GATEWAY]);
  assert.deepEqual(endings.owed(pod, [{ ...lost, keepsLost: true }]), []);
  assert.deepEqual(endings.owed(pod, [lost]), []);
});

Deno.test("ConnectionEndings.leave() tries to end connections of a lost gateway for a minute, and says so twice, beside those of one that is gone", async () => {
  const { signal } = new AbortController();
  const said: string[] = [];
  configureLogging({ write: (line) => void said.push(line) });
  let atMs = 0;
  const lost = new Set([`${GATEWAY}`]);
  const switched: string[] = [];
  const endings = endingsOf(
    () => Promise.reject(new Error("no memory")),
    { nowMs: () => atMs, lost, switched },
  );
  const pod = attachment("a");
  const gateways = [gatewayFor("nat/a", [], { direct: [GATEWAY] })];
  const leave = () => endings.leave(pod, { gateways, isNew: false, signal });
  const owed = () => endings.owed(pod, gateways);
  using netns = Netns.current();
  assert.equal(await leave(), "later");
  assert.deepEqual(owed(), [GATEWAY]);
  // New connections have left it.
  assert.deepEqual(switched, [`${GATEWAY}`]);
  atMs = 30_000;
  // It has been left already.
  assert.equal(await leave(), "later");
  await endings.end(pod, [OTHER], { netns, signal });
  assert.deepEqual(owed(), [GATEWAY, OTHER]);
  atMs = 60_000;
  await endings.end(pod, owed(), { netns, signal });
  assert.deepEqual(owed(), [OTHER]);
  assert.equal(said.length, 2, said.join("\n"));
  atMs = 90_000;
  await endings.end(pod, owed(), { netns, signal });
  assert.equal(await leave(), "done");
  assert.deepEqual(switched, [`${GATEWAY}`]);
});
