// During an update the coild of a node and coil-controller are of different
// versions, in either way: pods come and go, and blocks with them. The earlier
// version is a commit of this repository, run from its sources under today's
// CRDs, permissions and policies.
import assert from "node:assert/strict";
import * as path from "node:path";
import { eventually, type LabProcess } from "../lab/mod.ts";
import {
  type Coild,
  CoildLab,
  fromSources,
  type Sandbox,
} from "./coild_lab.ts";
import { hasFormer, writeFormer } from "./former_sources.ts";

const POLICIES = new URL("../../deploy/policies", import.meta.url).pathname;
/** A block has one address: each ADD asks for one, each DEL returns one. */
const ARGS = ["--low-water=0", "--cooldown=0s", "--block-return-delay=0s"];

interface Attached {
  readonly coild: Coild;
  readonly pod: Sandbox;
  readonly address: string;
}

class Mixed {
  readonly #lab: CoildLab;
  #pods = 0;

  constructor(lab: CoildLab) {
    this.#lab = lab;
  }

  /** A new pod of each node, one after the other; no two have one address. */
  async add(...daemons: readonly Coild[]): Promise<Attached[]> {
    const attached: Attached[] = [];
    for (const coild of daemons) {
      const name = `pod-${++this.#pods}`;
      const pod = await this.#lab.createPod(name, { node: coild.node });
      const [address = ""] = await coild.addresses(pod);
      await coild.check(pod);
      attached.push({ coild, pod, address });
    }
    return attached;
  }

  async del(attached: readonly Attached[]): Promise<void> {
    for (const { coild, pod } of attached) {
      await coild.del(pod);
      await this.#lab.deletePod(pod);
    }
  }

  /** Waits until there are so many blocks, and no request. */
  async settled(blocks: number): Promise<void> {
    await eventually(`${blocks} blocks and no request`, async () => {
      const requests = await this.#lab.list("blockrequests");
      const names = await this.#lab.blocks();
      return names.length === blocks && requests.length === 0;
    });
  }
}

function assertDistinct(attached: readonly Attached[]): void {
  const addresses = attached.map(({ address }) => address);
  assert.equal(new Set(addresses).size, addresses.length, addresses.join());
}

async function assertNoRefusal(process: LabProcess): Promise<void> {
  const log = await process.logs();
  assert.doesNotMatch(log, /forbidden|ValidatingAdmissionPolicy/);
}

// A clone without history does not have the earlier version.
if (await hasFormer()) {
  Deno.test("an earlier version beside this one: coild and coil-controller, either way", async (t) => {
    await using lab = await CoildLab.start({ name: "mixed", nodes: 2 });
    const { plane } = lab;
    await plane.kubectl("apply", "-k", POLICIES);
    const main = await writeFormer(path.join(plane.runDir, "former"));
    await lab.createPool("default", [{ ipv4: "10.124.0.0/28" }], 0);
    const mixed = new Mixed(lab);
    const formerController = await lab.startController([], {
      command: fromSources(main, "coil-controller"),
    });
    await using former = await lab.startCoild(lab.node(1), ARGS, {
      command: fromSources(main, "coild"),
    });
    await using current = await lab.startCoild(lab.node(2), ARGS);
    let kept: Attached[] = [];

    await t.step("the earlier controller: blocks come and go", async () => {
      kept = await mixed.add(former, current);
      const more = await mixed.add(current, former, current);
      assertDistinct([...kept, ...more]);
      await mixed.settled(5);
      await mixed.del(more);
      await mixed.settled(2);
    });

    await formerController.stop();
    await using controller = await lab.startController();
    await t.step(
      "this controller: the same, beside the blocks that it finds",
      async () => {
        const more = await mixed.add(former, current, former);
        assertDistinct([...kept, ...more]);
        await mixed.settled(5);
        await mixed.del([...more, ...kept]);
        await mixed.settled(0);
      },
    );

    await t.step("nobody was refused a permission", async () => {
      const all = [
        formerController,
        controller,
        former.process,
        current.process,
      ];
      for (const process of all) await assertNoRefusal(process);
    });
  });
}
