import { getLogger } from "../../telemetry/mod.ts";
import type { NodeContext } from "./context.ts";
import type { HeldBlock, Hold } from "../table/held_block.ts";
import type { BlockInfo } from "../base/ports.ts";
import { keyText } from "../../cni/mod.ts";

const log = getLogger("node-ipam");

/** UIDs of past blocks that are remembered: more than can be in any answer that is under way. */
const MAX_PAST = 4096;

/**
 * Brings what the API server says of the node's blocks into the table.
 *
 * The watch may lag behind and may go back in time, so it is only believed where that is safe: it can stop a block
 * from being used. A block is adopted, or forgotten, only on the word of a live list that began after
 * the last change of that block here, or of the answer to a request.
 */
export class BlockView {
  readonly #context: NodeContext;
  /** Blocks this node had, by UID: given back by itself, or taken away from it. */
  readonly #past = new Map<string, "returned" | "vanished">();
  #feed: readonly BlockInfo[] = [];
  /** UIDs of blocks of the watch that it has shown being deleted: they remain so, though it may go back in time. */
  #doomed: ReadonlySet<string> = new Set();

  constructor(context: NodeContext) {
    this.#context = context;
  }

  /** Records that the block was given back. */
  forget(block: HeldBlock): void {
    this.#context.table.removeBlock(block);
    this.#remember(block.info.uid, "returned");
  }

  #remember(uid: string, how: "returned" | "vanished"): void {
    this.#past.set(uid, how);
    const [oldest] = this.#past.keys();
    // mutate: only bounds memory.
    if (this.#past.size > MAX_PAST && oldest !== undefined) {
      this.#past.delete(oldest);
    }
  }

  /**
   * Takes a block of an answer into the table. Idempotent. Undefined when the block was returned or removed after the answer was made.
   */
  adopt(info: BlockInfo): HeldBlock | undefined {
    if (this.#past.has(info.uid)) return undefined;
    return this.#context.table.blocks.get(info.uid) ?? this.#add(info);
  }

  #add(info: BlockInfo): HeldBlock {
    const { table, clock } = this.#context;
    this.#past.delete(info.uid);
    const block = table.addBlock(info, clock.nowMs());
    const shown = this.#feed.find(({ uid }) => uid === info.uid);
    if (shown !== undefined) this.#see(block, shown);
    if (this.#doomed.has(info.uid)) block.holds.add("deleting");
    const { pool, name } = info;
    log.info("Adopted a block", { pool, block: name });
    if (block.holds.has("overlapping")) {
      log.error("A block shares addresses with another one; ignoring it", {
        pool,
        block: name,
      });
    }
    return block;
  }

  /** Takes what the watch shows. */
  observe(blocks: readonly BlockInfo[]): void {
    const { table } = this.#context;
    const shown = new Set(blocks.map((info) => info.uid));
    for (const { uid } of this.#feed) {
      // It came and went before the answer that brings it: that is too old then.
      const missed = !shown.has(uid) && !table.blocks.has(uid);
      if (missed && !this.#past.has(uid)) this.#remember(uid, "vanished");
    }
    this.#feed = blocks;
    const doomed = blocks.filter(({ uid, deleting }) =>
      deleting || this.#doomed.has(uid)
    );
    this.#doomed = new Set(doomed.map(({ uid }) => uid));
    for (const info of blocks) {
      const block = table.blocks.get(info.uid);
      if (block !== undefined) this.#see(block, info);
    }
    for (const block of table.blocks.values()) {
      if (shown.has(block.info.uid) || !block.seenInFeed) continue;
      if (!block.holds.has("returning")) block.holds.add("unconfirmed");
    }
  }

  /** Whether the watch shows a block that is not known, lacks one that is, or contradicts an edit or a reservation. */
  isPuzzled(): boolean {
    const { table, supply } = this.#context;
    // What a request under way brings is not unknown.
    const unknown = this.#feed.some((info) =>
      !table.blocks.has(info.uid) && !this.#past.has(info.uid) &&
      !supply.isFlying(info.pool)
    );
    return unknown || this.#feed.some((info) => {
      const block = table.blocks.get(info.uid);
      return block?.holds.has("edited") && block.matches(info) ||
        block?.holds.has("reserved") && !info.reserved;
    }) ||
      [...table.blocks.values()].some((block) =>
        block.holds.has("unconfirmed")
      );
  }

  #see(block: HeldBlock, info: BlockInfo): void {
    block.seenInFeed = true;
    this.#restrict(block, info);
  }

  /** Takes over what forbids the use of a block. */
  #restrict(block: HeldBlock, info: BlockInfo): void {
    const fields = { pool: block.info.pool, block: block.info.name };
    if (info.deleting && !block.holds.has("deleting")) {
      block.holds.add("deleting");
      log.info(
        "A block is being deleted; no new addresses are assigned from it",
        fields,
      );
    }
    if (info.reserved) block.holds.add("reserved");
    if (!block.matches(info) && !block.holds.has("edited")) {
      block.holds.add("edited");
      log.error(
        "A block was edited by hand; no new addresses are assigned from it",
        {
          ...fields,
          prefixes: Object.values(info.prefixes).map(String),
        },
      );
    }
  }

  /**
   * To be called when a live list begins. Returns what applies its blocks and lists those that it adopts; lists are not
   * applied out of order.
   */
  beginList(): (blocks: readonly BlockInfo[]) => readonly HeldBlock[] {
    const { table } = this.#context;
    const mark = table.sequence;
    const doubts = new Map(
      [...table.blocks.values()].map((block) => [block, new Set(block.holds)]),
    );
    const past = new Set(this.#past.keys());
    return (blocks) => this.#apply(blocks, { mark, doubts, past });
  }

  #apply(
    blocks: readonly BlockInfo[],
    { mark, doubts, past }: {
      readonly mark: number;
      readonly doubts: ReadonlyMap<HeldBlock, ReadonlySet<Hold>>;
      readonly past: ReadonlySet<string>;
    },
  ): readonly HeldBlock[] {
    const { table } = this.#context;
    const uids = new Set(blocks.map((info) => info.uid));
    for (const block of [...table.blocks.values()]) {
      const isOld = block.sequence <= mark;
      if (isOld && !uids.has(block.info.uid)) this.#vanish(block);
    }
    const adopted: HeldBlock[] = [];
    for (const info of blocks) {
      const block = table.blocks.get(info.uid);
      if (block !== undefined) this.#update(block, info, doubts.get(block));
      else if (this.#mayAdd(info, past)) adopted.push(this.#add(info));
    }
    return adopted;
  }

  /** The list may be older than the end of a block here; only one that began after a block vanished can bring it back. */
  #mayAdd({ uid }: BlockInfo, before: ReadonlySet<string>): boolean {
    const end = this.#past.get(uid);
    return end === undefined || (end === "vanished" && before.has(uid));
  }

  /**
   * Takes over what a live list says of a known block. It ends the doubts that were there when it began; what the watch
   * has shown since may be newer than the list.
   */
  #update(
    block: HeldBlock,
    info: BlockInfo,
    doubts: ReadonlySet<Hold> = new Set(),
  ): void {
    const settle = (hold: Hold) => {
      if (doubts.has(hold)) block.holds.delete(hold);
    };
    settle("unconfirmed");
    if (block.matches(info)) settle("edited");
    if (!info.reserved) settle("reserved");
    this.#restrict(block, info);
  }

  #vanish(block: HeldBlock): void {
    const { table } = this.#context;
    const { pool, name } = block.info;
    if (block.holds.has("returning") && block.isEmpty) {
      this.forget(block);
      return;
    }
    const keys = table.removeBlock(block).map(keyText);
    this.#remember(block.info.uid, "vanished");
    if (keys.length === 0) {
      log.info("A block was deleted", { pool, block: name });
    } else {
      log.error(
        "A block was deleted while pods use it; their addresses are quarantined",
        {
          pool,
          block: name,
          attachments: keys,
        },
      );
    }
  }
}
