import assert from "node:assert/strict";
import { KeyedMutex, untilAborted } from "../../../lib/async/mod.ts";
import { settle } from "../../../lib/async/testing.ts";
import { CniError } from "../../../lib/cni/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import { createRegistry } from "../../../lib/telemetry/mod.ts";
import { NotReadyError } from "../base/errors.ts";
import { PodAnnouncement } from "../calls/announcement.ts";
import type { Attachments } from "../calls/attachments.ts";
import type { EgressCalls } from "../egress/calls.ts";
import { CoildMetrics } from "../observe/metrics.ts";
import type { PodEvents, ReportedPod } from "../observe/pod_events.ts";
import { Readiness } from "../observe/readiness.ts";
import { CniService } from "./cni_service.ts";

const KEY = { containerId: "c1", ifname: "eth0" };
const LOCK = "c1:eth0";
const { signal } = new AbortController();

const REQUEST = {
  ...KEY,
  netns: "/run/netns/a",
  args: { K8S_POD_NAME: "web", K8S_POD_NAMESPACE: "team" },
  stdinData: new TextEncoder().encode(
    JSON.stringify({ cniVersion: "1.1.0", name: "net" }),
  ),
} as unknown as CniRequest;

/** The service, and what it does, in order. */
function serviceOf() {
  const done: string[] = [];
  const locks = new KeyedMutex();
  const readiness = new Readiness({ listed: "a list" });
  /** Steps that fail. */
  const failing = new Set<string>();
  /** Steps that end by their signal. */
  const hanging = new Set<string>();
  const step = async (name: string) => {
    done.push(locks.isLocked(LOCK) ? `${name} locked` : name);
    await settle(1);
    if (failing.has(name)) throw new Error(`${name} failed`);
  };
  const attachments: Partial<Attachments> = {
    accept: () => {
      done.push("accept");
      if (failing.has("accept")) throw new Error("accept failed");
    },
    connect: async (_request, _pod, { announcement }) => {
      await step("connect");
      announcement?.start({
        pod: { namespace: "team", name: "web" },
        addresses: {},
      });
      return {
        key: KEY,
        pod: { namespace: "team", name: "web" },
        addresses: {},
        result: { cniVersion: "1.1.0" },
        openNetns: () => Promise.resolve(undefined),
        undo: async () => await step("undo"),
      } as unknown as Awaited<ReturnType<Attachments["connect"]>>;
    },
    disconnect: async () => {
      await step("disconnect");
      return { ...KEY, containerId: "own" };
    },
    check: async () => {
      await step("check");
      return KEY;
    },
    gc: async (_args, { onReleased }) => {
      await step("gc");
      onReleased(KEY);
    },
  };
  const egress: EgressCalls = {
    wanted: async () => {
      await step("wanted");
      return undefined;
    },
    announcement: (_request, { signal }) =>
      new PodAnnouncement(signal, async (_, { signal }) => {
        await step("announce");
        if (hanging.has("announce")) await untilAborted(signal);
        if (signal.aborted) done.push("given up");
      }),
    setUp: async (_connected, { announcement }) => {
      await step("egress");
      await announcement?.done();
    },
    check: () => step("egress check"),
    forget: ({ containerId }) => void done.push(`forget ${containerId}`),
  };
  const service = new CniService({
    attachments: attachments as Attachments,
    egress,
    locks,
    readiness,
    pods: {
      find: async () => {
        await step("find");
        return {
          namespace: "team",
          name: "web",
          annotations: {},
          from: "cache",
          isGateway: false,
          uid: "found",
        };
      },
    },
    events: {
      addFailed: ({ uid }: ReportedPod, error: unknown) =>
        void done.push(
          `Event of ${uid}: ${error instanceof Error && error.message}`,
        ),
    } as unknown as PodEvents,
    metrics: new CoildMetrics(createRegistry({ defaults: false })),
  });
  return { service, done, locks, readiness, failing, hanging };
}

function readyService() {
  const all = serviceOf();
  all.readiness.met("listed");
  return all;
}

Deno.test("ADD finds the pod, looks at its egress, connects it and makes a client of it, under its lock", async () => {
  const { service, done, locks } = readyService();
  const result = await service.add(REQUEST, { signal });
  assert.equal(result.cniVersion, "1.1.0");
  assert.deepEqual(done, [
    "accept",
    "find locked",
    "wanted locked",
    "connect locked",
    "announce locked",
    "egress locked",
  ]);
  assert.ok(!locks.isLocked(LOCK));
});

Deno.test("ADD is refused before coild is ready, and DEL is not", async () => {
  const { service, done, readiness } = serviceOf();
  await assert.rejects(service.add(REQUEST, { signal }), NotReadyError);
  await assert.rejects(service.status(), CniError);
  await service.del(REQUEST, { signal });
  assert.deepEqual(done, ["accept", "disconnect locked", "forget own"]);
  readiness.met("listed");
  await service.status();
  await service.add(REQUEST, { signal });
});

Deno.test("an ADD that is not coild's is refused first, without an Event", async () => {
  const { service, done, failing } = readyService();
  failing.add("accept");
  await assert.rejects(service.add(REQUEST, { signal }), /accept failed/);
  assert.deepEqual(done, ["accept"]);
});

Deno.test("an ADD whose pod or network fails tells the pod's owner, by the runtime's UID or the one that was found", async () => {
  const args = { ...REQUEST.args, K8S_POD_UID: "told" };
  for (
    const [failure, request, uid] of [
      ["find", REQUEST, undefined],
      ["wanted", REQUEST, "found"],
      ["connect", REQUEST, "found"],
      ["find", { ...REQUEST, args }, "told"],
      ["connect", { ...REQUEST, args }, "told"],
    ] as const
  ) {
    const { service, done, failing, locks } = readyService();
    failing.add(failure);
    await assert.rejects(service.add(request, { signal }));
    assert.equal(done.at(-2), `${failure} locked`);
    assert.equal(done.at(-1), `Event of ${uid}: ${failure} failed`);
    assert.ok(!locks.isLocked(LOCK));
  }
});

Deno.test("an ADD whose egress fails is taken back, after its announcement", async () => {
  const { service, done, failing } = readyService();
  failing.add("egress");
  await assert.rejects(service.add(REQUEST, { signal }), /egress failed/);
  const after = done.slice(done.indexOf("egress locked") + 1)
    .filter((each) => each !== "given up");
  assert.deepEqual(after, [
    "forget c1",
    "undo locked",
    "Event of found: egress failed",
  ]);
});

Deno.test("an ADD that fails ends its announcement before the caller knows", async () => {
  const { service, done, failing, hanging } = readyService();
  failing.add("egress");
  hanging.add("announce");
  await assert.rejects(service.add(REQUEST, { signal }), /egress failed/);
  assert.ok(done.includes("given up"), done.join());
});

Deno.test("calls about one attachment follow each other", async () => {
  const { service, done } = readyService();
  await Promise.all([
    service.add(REQUEST, { signal }),
    service.del(REQUEST, { signal }),
  ]);
  assert.ok(
    done.indexOf("disconnect locked") > done.indexOf("egress locked"),
    done.join(),
  );
});

Deno.test("CHECK looks at the network and then at egress; GC forgets what it releases", async () => {
  const { service, done } = readyService();
  await service.check(REQUEST, { signal });
  await service.gc(REQUEST, { signal });
  assert.deepEqual(done, ["check", "egress check", "gc", "forget c1"]);
});
