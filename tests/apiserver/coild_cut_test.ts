// coild is killed after each step of an ADD, then of a DEL: each is left behind by pods of its own, all at once. Then the
// runtime ends the pod, or the pod is gone, or nothing is called at all.
import assert from "node:assert/strict";
import { awaitedLater, eventually } from "../lab/mod.ts";
import {
  type Coild,
  CoildLab,
  fromSources,
  type Sandbox,
} from "./coild_lab.ts";
import {
  type CutMethod,
  cutName,
  readCuts,
  STEPS_FILE_ENV,
} from "./cut_calls.ts";
import { addressesInside } from "./pod_addresses.ts";
import { hostLines, networkOf, nodeText } from "./pod_networks.ts";

const ENTRY = new URL("coild_cut_main.ts", import.meta.url).pathname;
const ARGS = ["--cooldown=0s", "--low-water=0"];
/** Longer than all calls take to come to their steps: one that is given up is undone. */
const CUT_MS = 3_600_000;
/** What comes after the restart: the runtime's DEL; nothing, for pod and namespace are gone; nothing, and they are there. */
const SEQUELS = ["del", "gone", "left"] as const;
type Sequel = typeof SEQUELS[number];

interface CutPod extends Sandbox {
  readonly sequel: Sequel;
  readonly steps: number;
}

class Site implements AsyncDisposable {
  readonly lab: CoildLab;
  readonly #file: string;
  #coild: Coild | undefined;
  readonly #fillers: Sandbox[] = [];

  constructor(lab: CoildLab) {
    this.lab = lab;
    this.#file = `${lab.plane.runDir}/steps`;
  }

  get coild(): Coild {
    if (this.#coild === undefined) throw new Error("Cannot call: not started");
    return this.#coild;
  }

  /** Starts the next daemon, which cuts calls or is as users have it. */
  async start(kind: "cutting" | "whole"): Promise<Coild> {
    await Deno.writeTextFile(this.#file, "");
    const options = {
      command: fromSources(ENTRY),
      env: { [STEPS_FILE_ENV]: this.#file },
    };
    return this.#coild = await this.lab.startCoild(
      this.lab.node(),
      ARGS,
      kind === "cutting" ? options : {},
    );
  }

  /** What a call about a pod did to the kernel before it was answered: later on, a DEL is about all links that go. */
  async stepsUntilAnswer(method: CutMethod, pod: Sandbox): Promise<string[]> {
    const records = await readCuts(this.#file);
    const own = records.filter((r) =>
      r.method === method && r.pod === pod.name
    );
    const end = own.findIndex(({ event }) => event === "answered");
    return own.slice(0, end).map(({ text = "" }) => text);
  }

  /** Pods for each number of steps and each sequel. */
  async pods(method: CutMethod, most: number): Promise<CutPod[]> {
    const pods: CutPod[] = [];
    for (let steps = 0; steps <= most; steps++) {
      const some = SEQUELS.map(async (sequel) => {
        const name = cutName(method, { steps, sequel });
        const pod = await this.lab.createPod(name);
        return { ...pod, sequel, steps };
      });
      pods.push(...await Promise.all(some));
    }
    return pods;
  }

  /** Calls for all, and kills the daemon when each is at its step. Those that are gone are gone when the next one starts. */
  async kill(method: CutMethod, pods: readonly CutPod[]): Promise<void> {
    const calls = pods.map((pod) =>
      awaitedLater(
        this.coild.call(method === "add" ? "Add" : "Del", pod, {
          timeoutMs: CUT_MS,
        }),
      )
    );
    await eventually("all calls to be at their steps", async () => {
      const records = await readCuts(this.#file);
      const last = new Map(
        records.filter((record) => record.method === method)
          .map((record) => [record.pod, record]),
      );
      const busy = pods.filter(({ name }) =>
        (last.get(name)?.event ?? "step") === "step"
      ).map(({ name }) => `${name}: ${last.get(name)?.text}`);
      assert.deepEqual(busy, []);
      return true;
    });
    await this.coild.process.kill9();
    await Promise.allSettled(calls);
    const gone = pods.filter(({ sequel }) => sequel === "gone");
    for (const pod of gone) {
      await this.lab.deletePod(pod);
      await this.lab.deleteNetns(pod);
    }
    // The kernel deletes one namespace of the machine after the other, and what is in it with it.
    await eventually("the links of what is gone to go", async () => {
      const links = await this.lab.node().run("ip", "-d", "link");
      return !gone.some(({ containerId }) => links.includes(containerId));
    });
  }

  /** Gives addresses until there are no more, which must be so many, and takes them back. Returns them. */
  async giveAll(count: number): Promise<string[]> {
    if (this.#fillers.length === 0) {
      this.#fillers.push(await this.lab.createPod("filler"));
    }
    while (this.#fillers.length <= count) {
      this.#fillers.push(await this.lab.createSandbox("filler"));
    }
    const fillers = this.#fillers.slice(1, count + 1);
    const given = await Promise.all(
      fillers.map((filler) => this.coild.addresses(filler)),
    );
    const [last] = this.#fillers;
    const { message } = await this.coild.refused(this.coild.call("Add", last));
    assert.match(message, /no free/);
    await Promise.all(fillers.map((filler) => this.coild.del(filler)));
    return given.flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#coild?.[Symbol.asyncDispose]();
    await this.lab[Symbol.asyncDispose]();
  }
}

/** A DEL is answered before the link goes, which waits for the kernel. */
async function expectGone(pod: Sandbox): Promise<void> {
  const what = `the addresses of ${pod.name} to be gone`;
  await eventually(what, async () => (await addressesInside(pod)).length === 0);
}

/** The only block has room for all, and for some more. */
const BITS = 7;
const SIZE = 2 ** BITS;

Deno.test("coild is killed after each step of ADD and DEL: CHECK tells what is whole, no address is lost or given twice, nothing is left", async (t) => {
  await using site = new Site(await CoildLab.start({ name: "coildcut" }));
  const { lab } = site;
  const node = lab.node();
  const subnet = { ipv4: "10.112.0.0/25", ipv6: "fd02::112:0/121" };
  await lab.createPool("default", [subnet], BITS);
  await using _controller = await lab.startController();
  await site.start("cutting");
  const model = await lab.createPod("model");
  const modelAddresses = await site.coild.addresses(model);
  const whole = await networkOf(model, await hostLines(node));
  const before = await nodeText(node);
  const nothingLeft = () =>
    eventually("the node to be as before", async () => {
      assert.equal(await nodeText(node), before);
      return true;
    });

  const counted = await lab.createPod("counted");
  await site.coild.add(counted);
  await site.coild.del(counted);
  await nothingLeft();
  const stepsOfAdd = await site.stepsUntilAnswer("add", counted);
  const stepsOfDel = await site.stepsUntilAnswer("del", counted);
  assert.ok(stepsOfAdd.length > 20, `ADD: ${stepsOfAdd}`);
  assert.match(`${stepsOfAdd}`, /write \/proc\/sys/);
  assert.ok(stepsOfDel.length > 3, `DEL: ${stepsOfDel}`);

  /** CHECK is right about each pod. Returns how many are whole. */
  const checkAll = async (pods: readonly Sandbox[]): Promise<number> => {
    const host = await hostLines(node);
    let count = 0;
    for (const pod of pods) {
      const text = await networkOf(pod, host);
      const error = await site.coild.check(pod).then(() => "", String);
      if (error === "") assert.equal(text, whole, pod.name);
      else assert.notEqual(text, whole, `${pod.name}: ${error}`);
      if (error === "") count++;
    }
    return count;
  };

  /** What the model and these pods have is not given to others; everything else is. At least so many of the pods have addresses. */
  const assertAllKnown = async (pods: readonly Sandbox[], atLeast: number) => {
    let inUse: (readonly string[])[] = [];
    const used = 'coil_coild_addresses{pool="default",state="used"}';
    await eventually("all others to be free", async () => {
      // A pod whose DEL was made whole loses its interface some time after the start.
      const found = await Promise.all([model, ...pods].map(addressesInside));
      inUse = found.filter(({ length }) => length > 0);
      assert.equal(await site.coild.metric(used), inUse.length);
      return true;
    }).catch(async (cause) => {
      const logs = await site.coild.process.logs();
      throw new Error(`${inUse.flat()} are in use; coild: ${logs}`, { cause });
    });
    assert.equal(await checkAll([model]), 1);
    assert.deepEqual(inUse[0]?.toSorted(), modelAddresses.toSorted());
    assert.ok(inUse.length >= 1 + atLeast, `${inUse.length} have addresses`);
    const given = await site.giveAll(SIZE - inUse.length);
    const all = [...inUse.flat(), ...given];
    assert.equal(new Set(all).size, all.length, `twice: ${all.toSorted()}`);
  };

  /** Cuts a call at each of its steps, and starts the next daemon. Returns the pods that are there, by what comes next. */
  const cutAll = async (method: CutMethod, most: number) => {
    const pods = await site.pods(method, most);
    if (method === "del") { for (const pod of pods) await site.coild.add(pod); }
    await site.kill(method, pods);
    await site.start("whole");
    const of = (wanted: Sequel) =>
      pods.filter(({ sequel }) => sequel === wanted);
    return { ended: of("del"), left: of("left") };
  };
  const delAll = async (pods: readonly Sandbox[]) => {
    for (const pod of pods) await site.coild.del(pod);
    for (const pod of pods) await expectGone(pod);
  };

  await t.step("ADD", async () => {
    const most = stepsOfAdd.length;
    const { ended, left } = await cutAll("add", most);
    const last = [...ended, ...left].filter(({ steps }) => steps === most);
    assert.equal(await checkAll(last), last.length);
    const wholes = await checkAll(left);
    assert.ok(wholes < left.length - 10, `${wholes} are whole`);
    assert.equal(await checkAll(ended), wholes);
    await assertAllKnown([...ended, ...left], 2 * wholes);
    await delAll(ended);
    assert.equal(await checkAll(left), wholes);
    await assertAllKnown(left, wholes);
    // The runtime tries again, or gives up.
    const again = left.filter(({ steps }) => steps % 2 === 1);
    await delAll(left.filter((pod) => !again.includes(pod)));
    for (const pod of again) await site.coild.add(pod);
    assert.equal(await checkAll(again), again.length);
    await assertAllKnown(again, again.length);
    await delAll(again);
    await nothingLeft();
  });

  await t.step("DEL", async () => {
    await site.coild[Symbol.asyncDispose]();
    await site.start("cutting");
    const { ended, left } = await cutAll("del", stepsOfDel.length);
    // But for the last, which is gone, each has what it had: its DEL had no answer.
    const wholes = left.length - 1;
    assert.equal(await checkAll(left), wholes);
    assert.equal(await checkAll(ended), wholes);
    await assertAllKnown([...ended, ...left], 2 * wholes);
    await delAll(ended);
    assert.equal(await checkAll(left), wholes);
    await assertAllKnown(left, wholes);
    await delAll(left);
    await nothingLeft();
  });
});
