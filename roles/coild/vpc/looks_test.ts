import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import {
  FakeClock,
  untilPasses,
  untilQuiet,
} from "../../../lib/async/testing.ts";
import type { Action, EniOutcome } from "../../../lib/vpc/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import type { NodeAccount } from "../cloud/account.ts";
import type { CloudView } from "../cloud/view.ts";
import { CloudLooks } from "./looks.ts";

const MACS = "meta-data/network/interfaces/macs/";
const MAC = "02:00:00:00:00:01";
const SECOND = "02:00:00:00:00:02";

/** What the metadata service has of two ENIs. */
const KEYS: Readonly<Record<string, string>> = {
  [MACS]: `${MAC}/\n${SECOND}/`,
  [`${MACS}${SECOND}/interface-id`]: "eni-2",
  [`${MACS}${SECOND}/device-number`]: "1",
  [`${MACS}${SECOND}/local-ipv4s`]: "10.0.1.5",
  [`${MACS}${MAC}/interface-id`]: "eni-1",
  [`${MACS}${MAC}/device-number`]: "0",
  [`${MACS}${MAC}/local-ipv4s`]: "10.0.1.4",
  [`${MACS}${MAC}/subnet-ipv4-cidr-block`]: "10.0.1.0/24",
  [`${MACS}${MAC}/vpc-ipv4-cidr-blocks`]: "10.0.0.0/16",
};

/** Looks that are counted. */
class Site implements AsyncDisposable {
  keys = KEYS;
  startedAtMs = 0;
  /** Whether EC2 was asked for ENIs without an instance, at each look. */
  readonly atEc2: boolean[] = [];
  atImds = 0;
  ended = 0;
  readonly saw: number[] = [];
  readonly view = {
    awaitsEc2: false,
    awaitsMetadata: false,
    mayHaveLoose: false,
    isNews: false,
  };
  readonly clock = new FakeClock();
  readonly looks: CloudLooks;
  readonly #tasks = new TaskGroup();

  constructor(changes: Partial<Pick<Site, "keys" | "startedAtMs">> = {}) {
    Object.assign(this, changes);
    const get = (path: string) => {
      if (path === MACS) this.atImds++;
      return Promise.resolve(this.keys[path] ?? "");
    };
    const account = {
      imds: {
        get,
        list: async (path: string) =>
          (await get(path)).split("\n").filter((line) => line !== ""),
      },
      list: ({ loose }: { readonly loose: boolean }) => {
        this.atEc2.push(loose);
        return Promise.resolve([]);
      },
    } as unknown as NodeAccount; // all that is used
    const site = this.view;
    const view = {
      get awaitsEc2() {
        return site.awaitsEc2;
      },
      get awaitsMetadata() {
        return site.awaitsMetadata;
      },
      get mayHaveLoose() {
        return site.mayHaveLoose;
      },
      saw: ({ lookedAt }) => void this.saw.push(lookedAt),
      sawMetadata: () => site.isNews,
    } as Partial<CloudView> as CloudView; // all that is used
    this.looks = new CloudLooks({
      account,
      view,
      families: ["ipv4"],
      clock: this.clock,
      startedAt: () => this.startedAtMs,
      onLook: () => this.ended++,
    });
    this.#tasks.runAll(this.looks.loops);
  }

  /** How often EC2 and the metadata service were looked at since the last time, when that rests. */
  async counts(): Promise<{ readonly ec2: number; readonly imds: number }> {
    await untilPasses(() => assert.ok(this.ended > 0));
    await untilQuiet(() => this.atEc2.length + this.atImds, 50);
    const { atImds: imds } = this;
    this.atImds = 0;
    return { ec2: this.atEc2.splice(0).length, imds };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#tasks[Symbol.asyncDispose]();
  }
}

Deno.test("CloudLooks looks at both once, and says so", async () => {
  loggedLines();
  await using site = new Site();
  await site.clock.advance(7);
  assert.deepEqual(await site.counts(), { ec2: 1, imds: 1 });
  assert.equal(site.ended, 2);
  assert.equal(site.saw.length, 1);
  site.looks.askEc2();
  assert.deepEqual(await site.counts(), { ec2: 1, imds: 0 });
  assert.deepEqual(site.saw.slice(1), [7]);
});

Deno.test("CloudLooks looks after a call at the metadata, and at EC2 when the call takes effect later, or maybe", async () => {
  loggedLines();
  await using site = new Site();
  await site.counts();
  const done: EniOutcome = { kind: "done" };
  const at = { eni: "eni-1", attachment: "a" };
  const cases: [Action, EniOutcome, number][] = [
    [{ kind: "delete", eni: "eni-1" }, done, 0],
    [{ kind: "delete", eni: "eni-1" }, { kind: "unknown" }, 1],
    [{ kind: "attach", eni: "eni-1", device: 1 }, done, 1],
    [{ kind: "detach", ...at }, done, 1],
    [{ kind: "endWithInstance", ...at }, done, 0],
  ];
  for (const [action, outcome, ec2] of cases) {
    site.looks.askAfter(action, outcome);
    assert.deepEqual(await site.counts(), { ec2, imds: 1 }, action.kind);
  }
});

Deno.test("CloudLooks looks at EC2 when the metadata have news, and at the metadata when they are behind", async () => {
  loggedLines();
  await using site = new Site();
  await site.counts();
  const action: Action = { kind: "delete", eni: "eni-1" };
  site.view.isNews = true;
  site.looks.askAfter(action, { kind: "done" });
  assert.deepEqual(await site.counts(), { ec2: 1, imds: 1 });
  site.view.isNews = false;
  site.view.awaitsMetadata = true;
  site.looks.askEc2();
  await untilPasses(() => assert.ok(site.atImds > 1));
  site.view.awaitsMetadata = false;
});

Deno.test("CloudLooks looks at EC2 again and again while that may show what is awaited", async () => {
  loggedLines();
  await using site = new Site();
  site.view.awaitsEc2 = true;
  await untilPasses(() => assert.ok(site.atEc2.length > 1));
});

Deno.test("CloudLooks asks for ENIs without an instance at the start, and when there may be some", async () => {
  loggedLines();
  await using site = new Site({ startedAtMs: 1_000 });
  await site.clock.advance(1_000 + 15_000 - 1);
  for (
    const [expected, ms, mayHaveLoose] of [
      [true, 0, false],
      [false, 1, false],
      [true, 0, true],
    ] as const
  ) {
    await site.counts();
    site.view.mayHaveLoose = mayHaveLoose;
    await site.clock.advance(ms);
    site.looks.askEc2();
    await untilPasses(() => assert.deepEqual(site.atEc2, [expected]));
  }
});

Deno.test("CloudLooks takes no metadata without the primary ENI", async () => {
  const lines = loggedLines();
  const keys = { ...KEYS, [`${MACS}${MAC}/device-number`]: "2" };
  await using site = new Site({ keys });
  await untilPasses(() => assert.ok(site.atImds > 1));
  assert.equal(site.ended, 1, "the look at EC2");
  assert.match(lines.join("\n"), /it has no primary ENI/);
});
