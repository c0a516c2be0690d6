import assert from "node:assert/strict";
import { untilAborted } from "../../async/mod.ts";
import { KubeClient } from "../client/client.ts";
import { LeaderElector } from "./leader_elector.ts";
import { type FakeAnswer, FakeTransport } from "../testing.ts";
import type { TransportRequest } from "../http/transport.ts";
import { FakeClock } from "../../async/testing.ts";

const TIMES = { leaseMs: 15_000, renewMs: 10_000, retryMs: 2_000 };

/** A server's lease; each write goes through `onWrite`, which may be slow. */
class LeaseServer {
  lease: Record<string, unknown> | undefined;
  onWrite: () => Promise<void> = () => Promise.resolve();
  /** Called when a write comes, before it is stored. */
  onSent: (sent: { metadata: { resourceVersion?: string } }) => void = () => {};
  /** Called when a read has its answer. */
  onRead: () => void = () => {};
  #version = 0;

  readonly transport = new FakeTransport((request) => this.#answer(request));

  async #answer(request: TransportRequest): Promise<FakeAnswer> {
    if (request.method === "GET") {
      const answer = this.lease === undefined
        ? { status: 404, body: { kind: "Status", reason: "NotFound" } }
        : { body: this.lease };
      this.onRead();
      return answer;
    }
    const sent = JSON.parse(request.body ?? "");
    this.onSent(sent);
    if (!this.apply(sent)) {
      return { status: 409, body: { kind: "Status", reason: "Conflict" } };
    }
    const answer = { body: this.lease };
    await this.onWrite();
    return answer;
  }

  /** Stores what a request has, unless the lease is another by now; returns whether it did. */
  apply(sent: { metadata: { resourceVersion?: string } }): boolean {
    const wanted = this.lease === undefined ? undefined : `${this.#version}`;
    const isNew = sent.metadata.resourceVersion === wanted;
    if (isNew) this.write(sent);
    return isNew;
  }

  /** Stores a lease, as a write does whose sender no longer waits for the answer. */
  write(lease: Record<string, unknown> = this.lease ?? {}): void {
    const resourceVersion = `${++this.#version}`;
    const metadata = { ...lease["metadata"] as object, resourceVersion };
    this.lease = { ...lease, metadata };
  }
}

function electorOf(client: KubeClient, clock: FakeClock): LeaderElector {
  return new LeaderElector(client, {
    namespace: "n",
    name: "l",
    identity: "me",
    ...TIMES,
    clock,
  });
}

/** Lets time pass, second by second, until it is so late. */
async function advanceTo(clock: FakeClock, ms: number): Promise<void> {
  while (clock.nowMs() < ms) await clock.advance(100);
}

/** Leads until the lease is lost, and says when that was noticed. */
async function leadUntilLost(
  server: LeaseServer,
  options: { clock: FakeClock; untilMs: number },
): Promise<number | undefined> {
  const { clock, untilMs } = options;
  using client = new KubeClient(server.transport);
  const elector = electorOf(client, clock);
  const stop = new AbortController();
  let lostMs: number | undefined;
  const running = elector.run(stop.signal, async (signal) => {
    await untilAborted(signal);
    lostMs ??= clock.nowMs();
    // Others answer now, so that the release and the end are quick.
    server.onWrite = () => Promise.resolve();
  });
  await advanceTo(clock, untilMs);
  stop.abort();
  server.onWrite = () => Promise.resolve();
  await clock.advance(1);
  await running;
  return lostMs;
}

Deno.test("LeaderElector stops on time while its renewal hangs", async () => {
  const clock = new FakeClock();
  const server = new LeaseServer();
  let writes = 0;
  const hang = Promise.withResolvers<void>();
  // The first is the claim, the second a renewal; the third never ends.
  server.onWrite = () => ++writes < 3 ? Promise.resolve() : hang.promise;
  const lost = leadUntilLost(server, { clock, untilMs: 30_000 });
  await advanceTo(clock, 20_000);
  hang.resolve();
  // Renewed last at 2 s.
  assert.equal(await lost, 12_000);
});

Deno.test("LeaderElector counts from when its claim left, not from the answer", async () => {
  const clock = new FakeClock();
  const server = new LeaseServer();
  let writes = 0;
  const hang = Promise.withResolvers<void>();
  server.onWrite = async () => {
    if (++writes > 1) return await hang.promise;
    // Written at once, answered 4 s later: others count since the write.
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.after(4_000, resolve);
    await promise;
  };
  const lost = leadUntilLost(server, { clock, untilMs: 30_000 });
  await advanceTo(clock, 20_000);
  hang.resolve();
  assert.equal(await lost, 10_000);
});

Deno.test("LeaderElector releases a lease that its last renewal changes after the read", async () => {
  const clock = new FakeClock();
  const server = new LeaseServer();
  using client = new KubeClient(server.transport);
  const elector = electorOf(client, clock);
  const stop = new AbortController();
  const running = elector.run(stop.signal, async (signal) => {
    await untilAborted(signal);
    // On its way when it is aborted, and carried out all the same.
    server.onRead = () => {
      server.onRead = () => {};
      server.write();
    };
  });
  await clock.advance(1);
  assert.equal(elector.isLeader, true);
  stop.abort();
  await running;
  assert.match(JSON.stringify(server.lease), /"holderIdentity":""/);
});

Deno.test("LeaderElector releases a lease although one answer is lost", async () => {
  for (const lost of ["onRead", "onWrite"] as const) {
    const clock = new FakeClock();
    const server = new LeaseServer();
    using client = new KubeClient(server.transport);
    const elector = electorOf(client, clock);
    const stop = new AbortController();
    const running = elector.run(stop.signal, async (signal) => {
      await untilAborted(signal);
      const { onRead, onWrite } = server;
      server[lost] = () => {
        Object.assign(server, { onRead, onWrite });
        throw new Error("Cannot wait for the answer");
      };
    });
    await clock.advance(1);
    stop.abort();
    await running;
    assert.match(JSON.stringify(server.lease), /"holderIdentity":""/, lost);
  }
});

Deno.test("LeaderElector releases a lease whose first claim was accepted after the stop", async () => {
  const server = new LeaseServer();
  using client = new KubeClient(server.transport);
  const elector = electorOf(client, new FakeClock());
  const stop = new AbortController();
  server.onWrite = () => {
    server.onWrite = () => Promise.resolve();
    stop.abort();
    throw new Error("Cannot wait for the answer");
  };
  await elector.run(stop.signal, () => Promise.reject(new Error("led")));
  assert.match(JSON.stringify(server.lease), /"holderIdentity":""/);
});

Deno.test("LeaderElector leaves a lease free although its first claim is on its way when it stops", async () => {
  for (const isThere of [true, false]) {
    for (const when of ["onRead", "onWrite"] as const) {
      const server = new LeaseServer();
      const metadata = { namespace: "n", name: "l" };
      const spec = { holderIdentity: "" };
      if (isThere) server.write({ metadata, spec });
      using client = new KubeClient(server.transport);
      const elector = electorOf(client, new FakeClock());
      const stop = new AbortController();
      // etcd gets the claim after the release has read the lease, or has written it.
      server.onSent = (claim) => {
        server.onSent = () => {};
        server[when] = () => {
          server.onRead = () => {};
          server.onWrite = () => Promise.resolve();
          server.apply(claim);
          return Promise.resolve();
        };
        stop.abort();
        throw new Error("Cannot wait for the answer");
      };
      await elector.run(stop.signal, () => Promise.reject(new Error("led")));
      const { holderIdentity } = server.lease?.["spec"] as Record<
        string,
        string
      >;
      assert.equal(holderIdentity, "", `${when}, ${isThere}`);
    }
  }
});

Deno.test("LeaderElector that has claimed nothing makes no request when it stops", async () => {
  const clock = new FakeClock();
  const server = new LeaseServer();
  const spec = { holderIdentity: "other", leaseDurationSeconds: 15 };
  server.write({ metadata: { namespace: "n", name: "l" }, spec });
  using client = new KubeClient(server.transport);
  const elector = electorOf(client, clock);
  const stop = new AbortController();
  const running = elector.run(stop.signal, () => Promise.resolve());
  await clock.advance(1);
  stop.abort();
  await running;
  assert.equal(server.transport.requests.length, 1);
});
