import assert from "node:assert/strict";
import type { Bytes } from "../../../linux/mod.ts";
import type { Transport } from "../../connection/connection.ts";
import { type Message, parseMessages } from "../../message/message_reader.ts";
import { MessageWriter } from "../../message/message_writer.ts";
import { NFGENMSG_SIZE } from "../../message/nfnetlink.ts";
import type { NftTable } from "../model/model.ts";
import { NetfilterSocket } from "./netfilter_socket.ts";

const TABLE: NftTable = {
  family: "inet",
  name: "small",
  counters: [],
  sets: [],
  chains: [],
};
const [BATCH_BEGIN, GETGEN, NEWGEN] = [0x10, 0x0a10, 0x0a0f];
const [ERESTART, ENOENT] = [85, 2];
const PORT_ID = 4711;

/** A kernel without tables, in which others commit before each of the first so many commits of ours. */
class BusyKernel implements Transport {
  readonly portId = PORT_ID;
  /** The generation that each transaction asked for. */
  readonly transactions: (number | undefined)[] = [];
  readonly #replies: Uint8Array[] = [];
  #generation = 1;
  #others: number;

  constructor(others: number) {
    this.#others = others;
  }

  sendNow(bytes: Bytes): void {
    const messages = [...parseMessages(bytes)];
    const [first] = messages;
    if (first?.type === BATCH_BEGIN) this.#commit(first, messages);
    else for (const message of messages) this.#answer(message);
  }

  async sendOffThread(bytes: Bytes): Promise<void> {
    this.sendNow(bytes);
  }

  receiveNow(buffer: Bytes): number | undefined {
    const next = this.#replies.shift();
    if (next !== undefined) buffer.set(next);
    return next?.byteLength;
  }

  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    return this.receiveNow(buffer);
  }

  async closeOffThread(): Promise<void> {}

  [Symbol.dispose](): void {}

  #commit(begin: Message, messages: readonly Message[]): void {
    if (this.#others-- > 0) this.#generation++;
    const wanted = begin.payload.attributes(NFGENMSG_SIZE).u32Be(1);
    this.transactions.push(wanted);
    if (wanted !== undefined && wanted !== this.#generation) {
      return this.#acknowledge(begin, ERESTART);
    }
    for (const message of messages) {
      if ((message.flags & 4) !== 0) this.#acknowledge(message, 0);
    }
  }

  #answer(message: Message): void {
    if (message.type !== GETGEN) return this.#acknowledge(message, ENOENT);
    this.#reply(message, NEWGEN, (writer) => {
      writer.u32(0);
      writer.attributeU32Be(1, this.#generation);
    });
    this.#acknowledge(message, 0);
  }

  #acknowledge(message: Message, errno: number): void {
    this.#reply(message, 2, (writer) => {
      writer.u32(-errno >>> 0);
      for (let i = 0; i < 4; i++) writer.u32(0);
    });
  }

  #reply(
    { sequence }: Message,
    type: number,
    body: (writer: MessageWriter) => void,
  ): void {
    const writer = new MessageWriter();
    writer.message({ type, flags: 0x100, sequence }, body);
    new DataView(writer.bytes().buffer).setUint32(12, PORT_ID, true);
    this.#replies.push(writer.bytes());
  }
}

Deno.test("replaceTable() begins again when somebody else commits in between", async () => {
  const kernel = new BusyKernel(3);
  await using socket = NetfilterSocket.over(kernel);
  assert.equal(await socket.replaceTable(TABLE), true);
  assert.deepEqual(kernel.transactions, [1, 2, 3, 4]);
});

Deno.test("replaceTable() gets through however often somebody else commits", async () => {
  const kernel = new BusyKernel(Infinity);
  await using socket = NetfilterSocket.over(kernel);
  assert.equal(await socket.replaceTable(TABLE), true);
  assert.deepEqual(kernel.transactions, [1, 2, 3, 4, 5, 6, 7, undefined]);
});

Deno.test("deleteTable() and changeSet() do not ask who else commits", async () => {
  const kernel = new BusyKernel(Infinity);
  await using socket = NetfilterSocket.over(kernel);
  assert.equal(await socket.deleteTable("small"), true);
  await socket.changeSet({ table: "small", set: "friends", add: [[1]] });
  assert.deepEqual(kernel.transactions, [undefined, undefined]);
});

Deno.test("changeSet() sends nothing when nothing is to change", async () => {
  const kernel = new BusyKernel(0);
  await using socket = NetfilterSocket.over(kernel);
  await socket.changeSet({ table: "small", set: "friends" });
  await socket.changeSet({
    table: "small",
    set: "friends",
    add: [],
    remove: [],
  });
  assert.deepEqual(kernel.transactions, []);
});

Deno.test("a closed socket refuses", async () => {
  const socket = NetfilterSocket.over(new BusyKernel(0));
  socket[Symbol.dispose]();
  await assert.rejects(
    socket.replaceTable(TABLE),
    /^TypeError: Cannot use netlink socket: closed$/,
  );
  await socket[Symbol.asyncDispose]();
});
