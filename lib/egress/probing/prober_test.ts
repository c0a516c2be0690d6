import assert from "node:assert/strict";
import { type Clock, systemClock } from "../../async/mod.ts";
import { FakeClock, untilPasses } from "../../async/testing.ts";
import { Address } from "../../inet/mod.ts";
import type { Bytes } from "../../linux/mod.ts";
import { PROBE_PAYLOAD_AT, ProbedGateways } from "./testing.ts";
import { type GatewayGroup, GatewayProber } from "./prober.ts";

const [A = Address.parse("::"), B = A, C = A] = [
  ...["10.1.2.1", "10.1.2.2", "10.1.2.3"],
].map(Address.parse);
const PORT = 5555;
const HOUR_MS = 3_600_000;
/** A prober of an Egress with these gateways, on a clock that is turned. */
class Lab implements AsyncDisposable {
  readonly clock = new FakeClock();
  /** How late each timer of the prober fires. */
  lateMs = 0;
  readonly network = new ProbedGateways();
  readonly changes: string[] = [];
  readonly losses: string[] = [];
  readonly suspects: string[] = [];
  /** Gateways on this node. */
  readonly local = new Set<string>();
  groups: readonly GatewayGroup[];
  random = 0.5;
  readonly prober: GatewayProber;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(
    gateways: readonly Address[],
    alive = gateways,
    { clock }: { readonly clock?: Clock } = {},
  ) {
    this.groups = [{ name: "internet/nat", gateways }];
    this.alive(...alive);
    this.prober = new GatewayProber({
      port: PORT,
      open: (peer) => this.network.socket(peer),
      groups: () => this.groups,
      isLocal: (gateway) => this.local.has(gateway.toString()),
      onChange: (names) => {
        const { avoided, lost } = this.prober;
        const text = [...names].join();
        this.changes.push(`${text}: ${[...avoided]} / ${[...lost]}`);
      },
      onLoss: ({ gateway, silentMs }) => {
        const since = silentMs === undefined ? "before" : Math.round(silentMs);
        this.losses.push(`${gateway} ${since}`);
      },
      onSuspects: () => {
        this.suspects.push([...this.prober.suspects].sort().join());
      },
      clock: clock ?? {
        nowMs: () => this.clock.nowMs(),
        after: (ms, callback) => this.clock.after(ms + this.lateMs, callback),
      },
      random: () => this.random,
    });
    this.#running = this.prober.run(this.#stop.signal).catch(() => {});
  }

  alive(...gateways: readonly Address[]): void {
    this.network.alive.clear();
    for (const each of gateways) this.network.alive.add(each.toString());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    assert.equal(this.network.open, 0, "open sockets");
  }
}

Deno.test("GatewayProber loses a gateway that answers no more, within a second, and holds it off when it does", async () => {
  await using lab = new Lab([A, B]);
  await lab.clock.advance(2_000);
  assert.deepEqual(lab.changes, []);
  lab.alive(B);
  await lab.clock.advance(800);
  assert.deepEqual(lab.changes, [`internet/nat: ${A} / ${A}`]);
  assert.deepEqual(lab.losses, [`${A} 562`]);
  lab.alive(A, B);
  await lab.clock.advance(1_000);
  assert.deepEqual(lab.changes.slice(1), [`internet/nat: ${A} / `]);
  await lab.clock.advance(5_000);
  assert.deepEqual(lab.changes.slice(2), ["internet/nat:  / "]);
});

// Late once for all ten probes and once for the round before them; or so late that a third of each wait is all that is left.
for (const [lateMs, silentMs] of [[18, 598], [60, 1_054]] as const) {
  Deno.test(`GatewayProber decides after ${silentMs} ms where each of its timers is ${lateMs} ms late`, async () => {
    await using lab = new Lab([A, B]);
    lab.lateMs = lateMs;
    await lab.clock.advance(2_000);
    lab.alive(B);
    await lab.clock.advance(2_000);
    assert.deepEqual(lab.losses, [`${A} ${silentMs}`]);
  });
}

Deno.test("GatewayProber takes no notice of the machine's date, which may jump", async () => {
  await using lab = new Lab([A, B], [A, B], { clock: systemClock });
  const { now } = Date;
  let calls = 0;
  Date.now = () => now() + (calls++ % 2) * HOUR_MS;
  try {
    const asked = () => lab.network.counts.get(`${A}`) ?? 0;
    await untilPasses(() => assert.ok(asked() > 3));
    assert.deepEqual(lab.changes, []);
    lab.alive(B);
    await untilPasses(() => assert.equal(lab.losses.length, 1));
  } finally {
    Date.now = now;
  }
  const [, silentMs] = lab.losses[0]?.split(" ") ?? [];
  assert.ok(Number(silentMs) < HOUR_MS / 2, `${lab.losses}`);
});

Deno.test("GatewayProber moves nothing while the node is cut off, and loses who stays away afterwards", async () => {
  await using lab = new Lab([A, B, C]);
  await lab.clock.advance(1_000);
  lab.alive();
  await lab.clock.advance(10_000);
  assert.deepEqual(lab.changes, []);
  // The first that answers again is a proof against none of the others.
  lab.alive(B);
  await lab.clock.advance(300);
  lab.alive(B, C);
  await lab.clock.advance(150);
  assert.deepEqual(lab.changes, []);
  await lab.clock.advance(500);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
});

Deno.test("GatewayProber recalls what was lost before a start, until it answers; what it knows by its probes it knows better", async () => {
  await using lab = new Lab([A, B], [B]);
  lab.prober.recall([A]);
  assert.deepEqual(lab.changes, [`internet/nat: ${A} / ${A}`]);
  await lab.clock.advance(60_000);
  assert.equal(lab.changes.length, 1);
  assert.deepEqual(lab.losses, [`${A} before`]);
  lab.alive(A, B);
  await lab.clock.advance(6_000);
  assert.deepEqual(lab.changes.slice(1), [
    `internet/nat: ${A} / `,
    "internet/nat:  / ",
  ]);
  lab.prober.recall([A]);
  assert.deepEqual([...lab.prober.lost], []);
  // Its clients come later.
  lab.prober.recall([C]);
  lab.prober.recall([C]);
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], [C.toString()]);
  lab.groups = [{ name: "internet/nat", gateways: [A, B, C] }];
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], [C.toString()]);
  assert.deepEqual(lab.changes.slice(3), [`internet/nat: ${C} / ${C}`]);
  assert.deepEqual(lab.losses, [`${A} before`, `${C} before`]);
  lab.alive(A, B, C);
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], []);
});

Deno.test("GatewayProber takes a pod that has the address of a lost one for another gateway, which may never answer", async () => {
  await using lab = new Lab([A, B], [B]);
  const withUid = (uid: string) => [{
    name: "internet/nat",
    gateways: [A, B],
    uids: new Map([[`${A}`, uid], [`${B}`, "b"]]),
  }];
  lab.groups = withUid("old");
  lab.prober.recall([A]);
  await lab.clock.advance(60_000);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
  // It says no UID for a moment.
  lab.groups = [{ name: "internet/nat", gateways: [A, B] }];
  await lab.clock.advance(1_000);
  assert.equal(lab.prober.health.get(`${A}`), "lost");
  lab.groups = withUid("new");
  await lab.clock.advance(60_000);
  assert.deepEqual(lab.changes.slice(1), ["internet/nat:  / "]);
  assert.equal(lab.prober.health.get(`${A}`), "unknown");
  assert.equal(lab.prober.health.get(`${B}`), "healthy");
});

Deno.test("GatewayProber never loses a gateway that has not answered yet, and asks it less and less often", async () => {
  await using lab = new Lab([A, B], [B]);
  await lab.clock.advance(600_000);
  assert.deepEqual(lab.changes, []);
  const asked = lab.network.counts.get(A.toString()) ?? 0;
  assert.ok(asked > 20 && asked < 60, `${asked}`);
  lab.alive(A, B);
  await lab.clock.advance(31_000);
  lab.alive(B);
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
});

Deno.test("GatewayProber takes neither forged nor repeated answers", async () => {
  await using lab = new Lab([A, B]);
  const key = A.toString();
  const lastProbe = () =>
    lab.network.sent.get(key)?.slice(PROBE_PAYLOAD_AT) ?? new Uint8Array();
  const old: Bytes[] = [];
  for (let i = 0; i < 2; i++) {
    await lab.clock.advance(500);
    old.push(lastProbe());
  }
  lab.alive(B);
  for (let i = 0; i < 12; i++) {
    const forged = lastProbe().fill(7, 0, 12);
    lab.network.waiting.get(key)?.push(old[i % 2] ?? forged, forged);
    await lab.clock.advance(110);
  }
  assert.deepEqual([...lab.prober.lost], [key]);
});

Deno.test("GatewayProber takes a gateway without a route for one that does not answer, and tries another socket", async () => {
  await using lab = new Lab([A, B]);
  await lab.clock.advance(1_000);
  lab.network.unreachable.add(A.toString());
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
  await lab.clock.advance(6_000);
  const before = lab.network.waiting.get(A.toString());
  lab.network.unreachable.clear();
  await lab.clock.advance(10_000);
  assert.deepEqual([...lab.prober.avoided], []);
  assert.notEqual(lab.network.waiting.get(A.toString()), before);
});

Deno.test("GatewayProber forgets gateways that no client has", async () => {
  await using lab = new Lab([A, B]);
  await lab.clock.advance(1_000);
  lab.alive(B);
  await lab.clock.advance(1_000);
  lab.groups = [{ name: "internet/nat", gateways: [B, C] }];
  await lab.clock.advance(300);
  assert.deepEqual([...lab.prober.avoided], []);
  assert.deepEqual([...lab.prober.health.keys()], [`${B}`, `${C}`]);
});

Deno.test("GatewayProber asks many gateways less often", async () => {
  const many = Array.from({ length: 1_000 }, (_, i) => A.offset(BigInt(i)));
  await using lab = new Lab(many);
  await lab.clock.advance(10_000);
  const total = lab.network.counts.values().reduce((a, b) => a + b, 0);
  assert.ok(total >= 20_000 && total <= 21_000, `${total}`);
});

/** Says "lost" of a share of probes, by chance, the same way each time. */
function lossOf(share: number): () => boolean {
  let state = 4_711;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647 < share;
  };
}

// Lost one way, and lost both ways with the same chance.
for (const [share, withinMs] of [[0.3, 2_000], [0.51, 4_000]] as const) {
  Deno.test(`GatewayProber loses no gateway in ten minutes of ${share} of all probes lost, and one that is gone within ${withinMs} ms`, async () => {
    await using lab = new Lab([A, B, C]);
    lab.network.isLost = lossOf(share);
    await lab.clock.advance(600_000);
    assert.deepEqual(lab.changes, []);
    lab.alive(B, C);
    await lab.clock.advance(withinMs);
    assert.deepEqual([...lab.prober.lost], [A.toString()]);
    // Of few that answer, many probes are asked.
    const asked = lab.network.counts.values().reduce((a, b) => a + b, 0);
    assert.ok(asked < 3 * 600 * 20, `${asked}`);
  });
}

Deno.test("GatewayProber suspects a gateway while a tenth of its probes is lost, and none that is lost itself", async () => {
  await using lab = new Lab([A, B, C]);
  await lab.clock.advance(60_000);
  const isUnlucky = lossOf(0.3);
  lab.network.isLost = (gateway) => gateway === A.toString() && isUnlucky();
  await lab.clock.advance(60_000);
  assert.deepEqual(lab.suspects, [A.toString()]);
  lab.alive(B, C);
  await lab.clock.advance(3_000);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
  assert.deepEqual(lab.suspects.slice(1), [""]);
  lab.network.isLost = () => false;
  lab.alive(A, B, C);
  await lab.clock.advance(60_000);
  assert.deepEqual([...lab.prober.suspects], []);
});

Deno.test("GatewayProber asks on while only every second probe of the one witness is answered", async () => {
  await using lab = new Lab([A, B]);
  await lab.clock.advance(1_000);
  lab.alive(B);
  let probes = 0;
  lab.network.isLost = () => probes++ % 2 === 0;
  await lab.clock.advance(1_500);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
});

Deno.test("GatewayProber asks three others at most along with a gateway in doubt", async () => {
  const many = Array.from({ length: 100 }, (_, i) => A.offset(BigInt(i)));
  await using lab = new Lab(many);
  await lab.clock.advance(1_000);
  lab.alive(...many.slice(1));
  lab.network.counts.clear();
  await lab.clock.advance(700);
  assert.deepEqual([...lab.prober.lost], [A.toString()]);
  const [doubted = 0, ...others] = many.map((each) =>
    lab.network.counts.get(each.toString()) ?? 0
  );
  assert.ok(doubted >= 10, `${doubted}`);
  const more = others.filter((count) => count > 4).length;
  assert.ok(more > 0 && more <= 3, `${more}`);
});

Deno.test("GatewayProber varies the time between its rounds by a fifth", async () => {
  const roundsWith = async (random: number) => {
    await using lab = new Lab([A, B]);
    lab.random = random;
    await lab.clock.advance(60_000);
    return lab.network.counts.get(`${A}`) ?? 0;
  };
  const [often, usual, seldom] = [0, 0.5, 1].map(roundsWith);
  const rounds = await usual ?? NaN;
  assert.ok(Math.abs((await often ?? NaN) - rounds / 0.8) < 3);
  assert.ok(Math.abs((await seldom ?? NaN) - rounds / 1.2) < 3);
});

Deno.test("GatewayProber does not lose the only gateway, nor one because of another Egress or family", async () => {
  await using lab = new Lab([A, B, C]);
  lab.groups = [
    { name: "internet/nat", gateways: [A] },
    { name: "internet/nat", gateways: [B] },
    { name: "other/nat", gateways: [C] },
  ];
  await lab.clock.advance(1_000);
  lab.alive(C);
  await lab.clock.advance(10_000);
  assert.deepEqual(lab.changes, []);
});

Deno.test("GatewayProber moves nothing while only the gateway on its own node answers, if there are others", async () => {
  await using lab = new Lab([A, B, C]);
  lab.local.add(A.toString());
  await lab.clock.advance(1_000);
  lab.alive(A);
  await lab.clock.advance(10_000);
  assert.deepEqual(lab.changes, []);
  lab.alive(A, C);
  await lab.clock.advance(1_000);
  assert.deepEqual([...lab.prober.lost], [B.toString()]);
});

Deno.test("GatewayProber asks no faster while nobody answers", async () => {
  await using lab = new Lab([A, B]);
  await lab.clock.advance(1_000);
  lab.alive(B);
  await lab.clock.advance(300);
  lab.alive();
  // Those that answered last are asked for a moment more.
  await lab.clock.advance(250);
  const before = lab.network.counts.get(A.toString()) ?? 0;
  await lab.clock.advance(10_000);
  const asked = (lab.network.counts.get(A.toString()) ?? 0) - before;
  assert.ok(asked <= 41, `${asked}`);
});

Deno.test("GatewayProber does not probe faster for a doubted gateway without a witness, even when gateways of other Egresses answer", async () => {
  await using lab = new Lab([A, B, C]);
  lab.groups = [
    { name: "internet/nat", gateways: [A, B] },
    { name: "other/nat", gateways: [C] },
  ];
  await lab.clock.advance(1_000);
  lab.alive(B, C);
  await lab.clock.advance(300);
  lab.alive(C);
  const before = lab.network.counts.get(C.toString()) ?? 0;
  await lab.clock.advance(10_000);
  const asked = (lab.network.counts.get(C.toString()) ?? 0) - before;
  assert.ok(asked <= 45, `${asked}`);
});
