import assert from "node:assert/strict";
import { settle } from "../../../lib/async/testing.ts";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import {
  type BlockInfo,
  type BlockRecord,
  OutOfBlocksError,
} from "../../../lib/ipam/mod.ts";
import { VPC_POOL } from "../../../lib/names/mod.ts";
import type { EniBlock } from "../../../lib/vpc/mod.ts";
import { VpcSource } from "./source.ts";

/** A block of one address of each family. */
function block(n: number, usable: boolean): EniBlock {
  const ipv4 = Prefix.parse(`10.0.1.${n}/32`);
  const ipv6 = Prefix.parse(`fd10::${n}/128`);
  const name = `eni-1/${ipv4}`;
  const uid = `${name}#1`;
  const prefixes = { ipv4, ipv6 };
  return { name, uid, index: n, prefixes, eni: "eni-1", device: 1, usable };
}

/** What EC2 has granted, and what it is asked for. */
class Fleet {
  blocks: EniBlock[] = [];
  isFull = false;
  isCordoned = false;
  unmet: VpcSourceUnmet = undefined;
  wakes = 0;
  readonly released: string[] = [];
  readonly published = Promise.resolve();
  #changed = Promise.withResolvers<void>();

  wake(): void {
    this.wakes++;
  }

  async planned(): Promise<void> {
    await this.#changed.promise;
  }

  /** A plan is made. */
  plan(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  release(names: readonly string[]): Promise<void> {
    this.released.push(...names);
    return Promise.resolve();
  }

  isRetiring(name: string): boolean {
    return name === block(9, true).name;
  }
}

type VpcSourceUnmet = ConstructorParameters<typeof VpcSource>[0]["unmet"];

function setUp(known: readonly number[] | undefined, routed: string[] = []) {
  const fleet = new Fleet();
  const source = new VpcSource(fleet, {
    blocks: () =>
      known?.map((n) => ({ uid: block(n, true).uid }) as BlockRecord), // all that is looked at
    routedWithin: (prefixes) =>
      Promise.resolve(
        routed.map((text) => Address.parse(text))
          .filter((one) => prefixes.some((prefix) => prefix.contains(one))),
      ),
  });
  return { fleet, source };
}

const { signal } = new AbortController();

function indexesOf(infos: readonly BlockInfo[]): number[] {
  return infos.map(({ index }) => index);
}

Deno.test("VpcSource lists blocks that are usable, known or in use, and of those that are not usable nothing is given", async () => {
  const { fleet, source } = setUp([2], ["fd10::3", "10.0.1.4"]);
  fleet.blocks = [
    block(1, true),
    ...[2, 3, 4, 5].map((n) => block(n, false)),
  ];
  const list = await source.list({ signal });
  assert.deepEqual(list.map(({ index, reserved }) => [index, reserved]), [
    [1, false],
    [2, true],
    [3, true],
    [4, true],
  ]);
  assert.ok(list.every(({ pool, deleting }) => pool === VPC_POOL && !deleting));
  // The kernel is not asked.
  assert.deepEqual(indexesOf(source.shown()), [1, 2]);
  await assert.rejects(source.list({ signal: AbortSignal.abort("stop") }));
});

Deno.test("VpcSource lists before address management has started", async () => {
  const { fleet, source } = setUp(undefined, ["10.0.1.2"]);
  fleet.blocks = [1, 2].map((n) => block(n, false));
  assert.deepEqual(indexesOf(await source.list({ signal })), [2]);
});

Deno.test("VpcSource answers a request with blocks that are not known yet, and waits for the plan's", async () => {
  const { fleet, source } = setUp([1]);
  const options = { signal, wanted: 1 };
  fleet.blocks = [block(1, true), block(2, false), block(3, true)];
  assert.deepEqual(indexesOf(await source.request(VPC_POOL, options)), [3]);
  assert.equal(fleet.wakes, 0, "there is no need for a plan");
  fleet.blocks = [block(1, true), block(2, false)];
  let found: readonly BlockInfo[] | undefined;
  const asked = source.request(VPC_POOL, options).then((infos) => {
    found = infos;
  });
  await settle();
  assert.equal(fleet.wakes, 1, "for a plan that knows of the request");
  fleet.plan();
  await settle();
  assert.deepEqual([found, fleet.wakes], [undefined, 1]);
  fleet.blocks = [block(1, true), block(2, true)];
  fleet.plan();
  await asked;
  assert.deepEqual([indexesOf(found ?? []), fleet.wakes], [[2], 1]);
});

Deno.test("VpcSource refuses when a plan that was made for the request gets nothing, and says why", async () => {
  const reasons: [Partial<Fleet>, RegExp][] = [
    [{}, /: the instance type allows no more$/],
    [{ isCordoned: true }, /: the node is cordoned, so it gets no ENI$/],
    [{ unmet: { why: "fixed" } as VpcSourceUnmet }, /: EC2 is not asked for/],
  ];
  for (const [changes, message] of reasons) {
    const { fleet, source } = setUp([]);
    Object.assign(fleet, { isFull: true, ...changes });
    const asked = source.request(VPC_POOL, { signal, wanted: 1 });
    let isOver = false;
    asked.catch(() => isOver = true);
    await settle();
    assert.equal(isOver, false, "an earlier plan may not have known of it");
    fleet.plan();
    await assert.rejects(asked, (error) => {
      assert.ok(error instanceof OutOfBlocksError);
      assert.match(error.message, message);
      return true;
    });
  }
});

Deno.test("VpcSource gives back by name, and keeps in store what the plan does not give back", async () => {
  const { fleet, source } = setUp([]);
  fleet.blocks = [block(1, true), block(9, true)];
  const [kept, spare] = source.shown();
  assert.ok(kept && spare);
  await source.release([spare], { signal });
  assert.deepEqual(fleet.released, [spare.name]);
  assert.equal(source.releaseGroup(kept), "eni-1");
  assert.equal(source.poolState(VPC_POOL), "ready");
  assert.equal(source.poolState("default"), "absent");
});
