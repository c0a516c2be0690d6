import assert from "node:assert/strict";
import { settle, untilPasses } from "../../../lib/async/testing.ts";
import type { AttachmentKey } from "../../../lib/cni/mod.ts";
import type { NodeIpam } from "../../../lib/ipam/mod.ts";
import { nameText } from "../../../lib/names/mod.ts";
import type { PodNetwork } from "../../../lib/podnet/mod.ts";
import { type ListedAttachment, Teardown } from "./teardown.ts";

const NOT_SAID = { namespace: "", name: "" };
const KEY: AttachmentKey = { containerId: "c1", ifname: "eth0" };

/** An attachment with a link and addresses, unless the test says otherwise. */
class Site {
  readonly done: string[] = [];
  /** Pods noted as former holders. */
  readonly former: string[] = [];
  hasLink = true;
  hasAddresses = true;
  /** Of several links of the key, as after an ADD that followed a lost DEL. */
  isLast = true;
  generation = 1;
  cutOffFails = false;
  finishFailures = 0;
  /** What a deletion waits for. */
  gone: Promise<void> = Promise.resolve();
  restFails = false;
  readonly teardown: Teardown;
  /** Is disposed of when all is done. */
  readonly held = new DisposableStack();

  constructor({ rests = false } = {}) {
    this.held.defer(() => this.done.push("unlocked"));
    const note = <T>(what: string, result: T): T => {
      this.done.push(what);
      return result;
    };
    const cutOff = () => {
      if (this.cutOffFails) throw new Error("no memory");
      return this.hasLink ? note("cut off", {}) : undefined;
    };
    const rest = () => {
      if (this.restFails) throw new Error("no room");
      note("rest", undefined);
    };
    this.teardown = new Teardown({
      ipam: {
        beginRelease: () =>
          this.hasAddresses ? note("release", { generation: 1 }) : undefined,
        cancelRelease: () => note("cancel", undefined),
        finishRelease: () => note("released", undefined),
        lookup: () =>
          this.hasAddresses ? { generation: this.generation } : undefined,
      } as unknown as NodeIpam,
      network: {
        beginTeardown: () => Promise.try(cutOff),
        beginTeardownOf: () =>
          Promise.try(() => ({ isLast: this.isLast, teardown: cutOff() })),
        finishTeardown: async () => {
          if (this.finishFailures-- > 0) throw new Error("busy");
          await this.gone;
          note("gone", undefined);
        },
      } as unknown as PodNetwork,
      rests: rests ? { begin: () => Promise.try(rest) } : undefined,
      former: {
        note: (_, pod) => this.former.push(nameText({ ...NOT_SAID, ...pod })),
      },
    });
  }

  async start(): Promise<readonly string[]> {
    await this.teardown.start(KEY, this.held);
    return await this.ended();
  }

  /** Of an attachment that had its addresses in period 1 when it was listed. */
  async startListed(): Promise<boolean> {
    const listed = { ...KEY, index: 7, generation: 1 } as ListedAttachment;
    return await this.teardown.startListed(listed, this.held);
  }

  async ended(): Promise<readonly string[]> {
    await untilPasses(() => assert.equal(this.teardown.pending, 0));
    await settle();
    return this.done;
  }
}

Deno.test("start() cuts off first, and unlocks when link and addresses are gone", async () => {
  const site = new Site();
  site.finishFailures = 2;
  await site.teardown.start(KEY, site.held);
  assert.deepEqual(site.done, ["release", "cut off"]);
  assert.equal(site.teardown.pending, 1);
  assert.deepEqual(await site.ended(), [
    ...["release", "cut off", "gone", "released", "unlocked"],
  ]);
});

Deno.test("start() releases what has no link, deletes what has no addresses, and leaves the lock of what has neither", async () => {
  const unlinked = new Site();
  unlinked.hasLink = false;
  assert.deepEqual(await unlinked.start(), [
    ...["release", "released", "unlocked"],
  ]);
  const bare = new Site();
  bare.hasAddresses = false;
  assert.deepEqual(await bare.start(), ["cut off", "gone", "unlocked"]);
  const none = new Site();
  [none.hasLink, none.hasAddresses] = [false, false];
  assert.deepEqual(await none.start(), []);
  assert.equal(none.held.disposed, false);
});

Deno.test("start() releases addresses that were recovered after it began", async () => {
  const site = new Site();
  site.hasAddresses = false;
  await site.teardown.start(KEY, site.held);
  site.hasAddresses = true;
  assert.deepEqual(await site.ended(), [
    ...["cut off", "gone", "release", "released", "unlocked"],
  ]);
});

Deno.test("start() leaves all as it was when it cannot cut off, and undo() says nothing of it", async () => {
  const site = new Site();
  site.cutOffFails = true;
  await assert.rejects(site.start(), /^Error: no memory$/);
  assert.deepEqual(site.done, ["release", "cancel"]);
  await site.teardown.undo(KEY, site.held, {});
  assert.equal(site.held.disposed, false);
  site.cutOffFails = false;
  await site.teardown.undo(KEY, site.held, {});
  assert.equal((await site.ended()).at(-1), "unlocked");
});

Deno.test("the pod is noted as a former holder when its addresses are free, and not for an ADD that was undone", async () => {
  const site = new Site();
  const pod = { namespace: "apps", name: "web" };
  await site.teardown.start(KEY, site.held, { pod });
  assert.deepEqual(site.former, []);
  await site.ended();
  assert.deepEqual(site.former, ["apps/web"]);
  const listed = new Site();
  await listed.startListed();
  await listed.ended();
  assert.deepEqual(listed.former, ["/"]);
  const undone = new Site();
  await undone.teardown.undo(KEY, undone.held, { pod });
  assert.ok((await undone.ended()).includes("released"));
  const bare = new Site();
  bare.hasAddresses = false;
  await bare.start();
  assert.deepEqual([...undone.former, ...bare.former], []);
});

Deno.test("startListed() takes down what was listed, and none of a later attachment of the key", async () => {
  const all = ["cut off", "release", "gone", "released", "unlocked"];
  const both = new Site();
  assert.equal(await both.startListed(), true);
  assert.deepEqual(await both.ended(), all);
  // Another ADD has the key, with a link of its own.
  const followed = new Site();
  followed.isLast = false;
  assert.equal(await followed.startListed(), true);
  assert.deepEqual(await followed.ended(), ["cut off", "gone", "unlocked"]);
  const unlinked = new Site();
  unlinked.hasLink = false;
  assert.equal(await unlinked.startListed(), true);
  assert.deepEqual(await unlinked.ended(), ["release", "released", "unlocked"]);
  const later = new Site();
  [later.hasLink, later.generation] = [false, 2];
  assert.equal(await later.startListed(), false);
  assert.deepEqual(await later.ended(), []);
  assert.equal(later.held.disposed, false);
});

Deno.test("its end waits for what goes on, and tries nothing again", async () => {
  const site = new Site();
  const gone = Promise.withResolvers<void>();
  site.gone = gone.promise;
  await site.teardown.start(KEY, site.held);
  await settle();
  const ended = site.teardown[Symbol.asyncDispose]();
  await settle();
  assert.equal(site.teardown.pending, 1);
  gone.resolve();
  await ended;
  assert.equal(site.done.at(-1), "unlocked");
  const stuck = new Site();
  stuck.finishFailures = Infinity;
  await stuck.teardown.start(KEY, stuck.held);
  await settle();
  await stuck.teardown[Symbol.asyncDispose]();
  assert.deepEqual(stuck.done, ["release", "cut off", "unlocked"]);
  assert.equal(stuck.teardown.pending, 0);
});

Deno.test("addresses rest by the kernel before the pod loses them, and it keeps them where they cannot", async () => {
  const site = new Site({ rests: true });
  assert.deepEqual(await site.start(), [
    ...["release", "rest", "cut off", "gone", "released", "unlocked"],
  ]);
  const listed = new Site({ rests: true });
  assert.equal(await listed.startListed(), true);
  assert.deepEqual((await listed.ended()).slice(0, 2), ["rest", "cut off"]);
  const later = new Site({ rests: true });
  [later.hasLink, later.generation] = [false, 2];
  assert.equal(await later.startListed(), false);
  assert.deepEqual(later.done, []);
  const full = new Site({ rests: true });
  full.restFails = true;
  await assert.rejects(full.start(), /^Error: no room$/);
  assert.deepEqual(full.done, ["release", "cancel"]);
});
