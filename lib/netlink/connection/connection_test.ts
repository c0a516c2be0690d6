import assert from "node:assert/strict";
import { type Bytes, LinuxError } from "../../linux/mod.ts";
import { Connection, type Transport } from "./connection.ts";
import { NetlinkError, refuseLost } from "../message/errors.ts";
import { type Message, parseMessages } from "../message/message_reader.ts";
import { MessageWriter } from "../message/message_writer.ts";
import type { Request } from "../message/request.ts";
import { textTrace } from "./trace.ts";

const PORT_ID = 4711;
const [NLMSG_ERROR, NLMSG_DONE, ENTRY] = [2, 3, 16];
const [CAPPED, TLVS, INTERRUPTED] = [0x100, 0x200, 0x10];

/** One reply: everything but the type has a value that suits the request. */
interface Reply {
  readonly type: number;
  readonly flags?: number;
  readonly sequence?: number;
  readonly portId?: number;
  readonly body?: (writer: MessageWriter) => void;
}

/** A datagram of replies, or the error number that receiving fails with. */
type Datagram = readonly Reply[] | number;

/** A kernel end that answers as a test tells it. */
class ScriptedTransport implements Transport {
  readonly portId = PORT_ID;
  readonly sent: Message[][] = [];
  closed = 0;
  closedOffThread = 0;
  sentOnThread = 0;
  /** What is sent waits here when there is one. */
  gate: Promise<void> | undefined;
  readonly #answer: (requests: Message[]) => Datagram[];
  readonly #queue: (Uint8Array | number)[] = [];

  constructor(answer: (requests: Message[]) => Datagram[]) {
    this.#answer = answer;
  }

  async sendOffThread(bytes: Bytes): Promise<void> {
    const requests = this.#record(bytes);
    await this.gate;
    this.#reply(requests);
  }

  sendNow(bytes: Bytes): void {
    this.sentOnThread++;
    this.#reply(this.#record(bytes));
  }

  #record(bytes: Bytes): Message[] {
    const requests = [...parseMessages(bytes.slice())];
    this.sent.push(requests);
    return requests;
  }

  #reply(requests: Message[]): void {
    for (const datagram of this.#answer(requests)) {
      this.#queue.push(
        typeof datagram === "number"
          ? datagram
          : encode(datagram, requests[0]?.sequence ?? 0),
      );
    }
  }

  receiveNow(buffer: Bytes): number | undefined {
    const next = this.#queue.shift();
    if (typeof next === "number") {
      throw new LinuxError("receive", { syscall: "recv", errno: next });
    }
    if (next !== undefined) buffer.set(next.subarray(0, buffer.byteLength));
    return next?.byteLength;
  }

  async receiveOffThread(buffer: Bytes): Promise<number | undefined> {
    return this.receiveNow(buffer);
  }

  async closeOffThread(): Promise<void> {
    this.closedOffThread++;
  }

  [Symbol.dispose](): void {
    this.closed++;
  }
}

function encode(replies: readonly Reply[], sequence: number): Uint8Array {
  const writer = new MessageWriter();
  const portIds: [number, number][] = [];
  for (const reply of replies) {
    portIds.push([writer.length, reply.portId ?? PORT_ID]);
    writer.message(
      { sequence, flags: 0, ...reply },
      (body) => reply.body?.(body),
    );
  }
  const bytes = writer.bytes();
  const view = new DataView(bytes.buffer);
  for (const [at, portId] of portIds) view.setUint32(at + 12, portId, true);
  return bytes;
}

function ack(request: Message, errno = 0, extack?: string): Reply {
  return {
    type: NLMSG_ERROR,
    flags: CAPPED | (extack === undefined ? 0 : TLVS),
    sequence: request.sequence,
    body(writer) {
      writer.u32(-errno >>> 0);
      for (let i = 0; i < 4; i++) writer.u32(0);
      if (extack !== undefined) writer.attributeString(1, extack);
    },
  };
}

/** An entry of a list that carries one number. */
function entry(value: number, flags = 0): Reply {
  return { type: ENTRY, flags, body: (writer) => writer.u32(value) };
}

const DONE: Reply = { type: NLMSG_DONE, body: (writer) => writer.u32(0) };

function request(name: string, extra: Partial<Request> = {}): Request {
  return {
    type: ENTRY,
    flags: 0,
    describe: () => name,
    write: (writer) => writer.u32(0),
    ...extra,
  };
}

function number(message: Message): number {
  return message.payload.u32(0);
}

Deno.test("tryExecute() sends once and tells what became of each request", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent, index) => [
      index === 1 ? ack(sent, 17, "it is there") : ack(sent),
    ])
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute(
    ["a", "b", "c"].map((name) => request(name)),
  );
  assert.equal(transport.sent.length, 1);
  assert.deepEqual(outcomes.map((error) => error?.message), [
    undefined,
    "Cannot b: kernel returned EEXIST (it is there)",
    undefined,
  ]);
  assert.equal(outcomes[1]?.index, 1);
  const flags = transport.sent[0]?.map((sent) => sent.flags);
  assert.deepEqual(flags, [5, 5, 5]); // NLM_F_REQUEST | NLM_F_ACK
});

Deno.test("tryExecute() reads acknowledgements in one datagram or many, in any order", async () => {
  const transport = new ScriptedTransport(([a, b, c]) =>
    a && b && c ? [[ack(c, 2), ack(a)], [ack(b)]] : []
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute(
    ["a", "b", "c"].map((name) => request(name)),
  );
  assert.deepEqual(outcomes.map((error) => error?.code), [
    undefined,
    undefined,
    "ENOENT",
  ]);
});

Deno.test("tryExecute() has sent when it returns its promise, unless the socket is in use", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent)])
  );
  using connection = new Connection(transport);
  const first = connection.tryExecute([request("a")]);
  assert.equal(transport.sent.length, 1);
  const second = connection.tryExecute([request("b")]);
  assert.equal(transport.sent.length, 1);
  await Promise.all([first, second]);
  assert.equal(transport.sent.length, 2);
});

Deno.test("prepare() encodes what tryExecute() sends, and nothing else", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent)])
  );
  using connection = new Connection(transport);
  let encoded = 0;
  const counted = () =>
    request("a", {
      write(writer) {
        encoded++;
        writer.u32(7);
      },
    });
  const ahead = [counted(), counted()];
  connection.prepare(ahead);
  assert.equal(encoded, 2);
  assert.equal(transport.sent.length, 0);
  assert.deepEqual(await connection.tryExecute(ahead), [undefined, undefined]);
  assert.equal(encoded, 2);
  assert.deepEqual(transport.sent[0]?.map(number), [7, 7]);
  // Something else was sent instead: what was prepared is encoded again.
  connection.prepare(ahead);
  await connection.tryExecute([request("b")]);
  await connection.tryExecute(ahead);
  assert.deepEqual(transport.sent.map((sent) => sent.map(number)), [
    [7, 7],
    [0],
    [7, 7],
  ]);
});

Deno.test("tryExecute() sends nothing for no requests", async () => {
  const transport = new ScriptedTransport(() => []);
  using connection = new Connection(transport);
  assert.deepEqual(await connection.tryExecute([]), []);
  assert.equal(transport.sent.length, 0);
});

Deno.test("tryExecute() splits what is too much for one send and counts on", async () => {
  let seen = 0;
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent, seen++ === 599 ? 19 : 0)])
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute(
    Array.from({ length: 700 }, (_, index) => request(`r${index}`)),
  );
  assert.equal(outcomes.length, 700);
  assert.deepEqual(
    outcomes.filter((error) => error).map((error) => [error?.index, error?.op]),
    [[599, "r599"]],
  );
  assert(transport.sent.length >= 3);
  const big = request("big", {
    write: (writer) => writer.attributeBytes(1, new Uint8Array(60_000)),
  });
  transport.sent.length = 0;
  await connection.tryExecute([big, big, big, big]);
  assert.deepEqual(transport.sent.map((batch) => batch.length), [2, 2]);
});

Deno.test("tryExecute() reports requests whose acknowledgement is missing", async () => {
  const transport = new ScriptedTransport(([first]) =>
    first ? [[ack(first)]] : []
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute([request("a"), request("b")]);
  assert.deepEqual(outcomes.map((error) => error?.message), [
    undefined,
    "Cannot b: kernel returned EPROTO (no acknowledgement)",
  ]);
  assert.equal(outcomes[1]?.lost, "answer");
  assert.throws(() => refuseLost(outcomes), /Cannot b/);
});

Deno.test("tryExecute() reports what the kernel had no room to say, and reads the rest", async () => {
  const transport = new ScriptedTransport(([, second]) =>
    second ? [105, [ack(second)]] : []
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute([request("a"), request("b")]);
  assert.deepEqual(outcomes.map((error) => error?.code), [
    "ENOBUFS",
    undefined,
  ]);
  assert.equal(outcomes[0]?.lost, "answer");
});

Deno.test("tryExecute() does not ask for ever when receiving keeps failing", async () => {
  const transport = new ScriptedTransport(() => []);
  let asked = 0;
  transport.receiveNow = () => {
    if (++asked > 100) throw new Error("asked for ever");
    throw new LinuxError("receive", { syscall: "recv", errno: 9 });
  };
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute([request("a"), request("b")]);
  assert.deepEqual(outcomes.map((error) => error?.message), [
    "Cannot a: kernel returned EBADF (while receiving)",
    "Cannot b: kernel returned EBADF (while receiving)",
  ]);
});

Deno.test("tryExecute() reports every request when the send fails", async () => {
  const transport = new ScriptedTransport(() => []);
  transport.sendOffThread = () =>
    Promise.reject(new LinuxError("send", { syscall: "send", errno: 105 }));
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute([request("a"), request("b")]);
  assert.deepEqual(outcomes.map((error) => error?.message), [
    "Cannot a: kernel returned ENOBUFS (while sending)",
    "Cannot b: kernel returned ENOBUFS (while sending)",
  ]);
  assert.deepEqual(outcomes.map((error) => error?.lost), [
    "request",
    "request",
  ]);
});

Deno.test("tryExecute() ignores replies that are not its own", async () => {
  const transport = new ScriptedTransport(([sent]) =>
    sent
      ? [
        [{ ...ack(sent, 1), sequence: sent.sequence + 100 }],
        [{ ...ack(sent, 1), portId: PORT_ID + 1 }],
        [{ type: 1 }, ack(sent)],
      ]
      : []
  );
  using connection = new Connection(transport);
  assert.deepEqual(await connection.tryExecute([request("a")]), [undefined]);
});

Deno.test("tryExecute() hands replies to the request that asked", async () => {
  const transport = new ScriptedTransport(([a, b]) =>
    a && b ? [[{ ...entry(42), sequence: b.sequence }], [ack(a)], [ack(b)]] : []
  );
  using connection = new Connection(transport);
  const got: number[] = [];
  const onReply = (message: Message) => void got.push(number(message));
  await connection.tryExecute([request("a"), request("b", { onReply })]);
  assert.deepEqual(got, [42]);
});

Deno.test("a request that cannot be written is not sent, and leaves the socket usable", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent)])
  );
  using connection = new Connection(transport);
  const bad = request("bad", {
    write() {
      throw new TypeError("closed");
    },
  });
  await assert.rejects(connection.tryExecute([request("a"), bad]), TypeError);
  assert.equal(transport.sent.length, 0);
  assert.deepEqual(await connection.tryExecute([request("a")]), [undefined]);
});

Deno.test("callers of one connection are served in turn", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent)])
  );
  const { promise, resolve } = Promise.withResolvers<void>();
  transport.gate = promise;
  using connection = new Connection(transport);
  const calls = ["a", "b", "c"].map((name) =>
    connection.tryExecute([request(name)])
  );
  for (let i = 0; i < 20; i++) await Promise.resolve();
  assert.equal(transport.sent.length, 1);
  resolve();
  assert.deepEqual(await Promise.all(calls), [[undefined], [undefined], [
    undefined,
  ]]);
  const sequences = transport.sent.flat().map((sent) => sent.sequence);
  assert.deepEqual(sequences, [1, 2, 3]);
});

Deno.test("dispose() closes the socket only when nothing is being sent any more", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) => [ack(sent)])
  );
  const { promise, resolve } = Promise.withResolvers<void>();
  transport.gate = promise;
  const connection = new Connection(transport);
  const running = connection.tryExecute([request("a")]);
  const waiting = connection.tryExecute([request("b")]);
  for (let i = 0; i < 20; i++) await Promise.resolve();
  connection[Symbol.dispose]();
  assert.equal(transport.closed, 0);
  resolve();
  assert.deepEqual(await running, [undefined]);
  await assert.rejects(
    waiting,
    /^TypeError: Cannot use netlink socket: closed$/,
  );
  assert.equal(transport.closed, 1);
  await assert.rejects(connection.tryExecute([request("c")]), TypeError);
});

Deno.test("closeOffThread() closes the socket after what is being sent, and once", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const transport = new ScriptedTransport((requests) => [
    requests.map((sent) => ack(sent)),
  ]);
  transport.gate = promise;
  const connection = new Connection(transport);
  const running = connection.tryExecute([request("a")]);
  for (let i = 0; i < 20; i++) await Promise.resolve();
  const waiting = assert.rejects(
    connection.tryExecute([request("b")]),
    /^TypeError: Cannot use netlink socket: closed$/,
  );
  const closing = connection.closeOffThread();
  await Promise.resolve();
  assert.equal(transport.closedOffThread, 0);
  resolve();
  assert.deepEqual(await running, [undefined]);
  await waiting;
  await closing;
  assert.deepEqual([transport.closed, transport.closedOffThread], [0, 1]);
});

Deno.test("tryExecute() sends a whole transaction at once and takes silence about its frame for consent", async () => {
  const transport = new ScriptedTransport((requests) => [
    requests.filter((sent) => (sent.flags & 4) !== 0).map((sent) => ack(sent)),
  ]);
  using connection = new Connection(transport);
  const frame = request("frame", { silent: true });
  const big = request("big", {
    write: (writer) => writer.attributeBytes(1, new Uint8Array(60_000)),
  });
  const requests = [frame, ...new Array<Request>(300).fill(big), frame];
  const outcomes = await connection.tryExecute(requests, { whole: true });
  assert.deepEqual(transport.sent.map((batch) => batch.length), [302]);
  assert(outcomes.every((outcome) => outcome === undefined));
});

Deno.test("tryExecute() does not take silence about anything else for consent", async () => {
  const transport = new ScriptedTransport(([frame]) =>
    frame === undefined ? [] : [[ack(frame, 85)]]
  );
  using connection = new Connection(transport);
  const outcomes = await connection.tryExecute(
    [request("frame", { silent: true }), request("a")],
    { whole: true },
  );
  assert.deepEqual(outcomes.map((error) => error?.message), [
    "Cannot frame: kernel returned ERESTART",
    "Cannot a: kernel returned EPROTO (no acknowledgement)",
  ]);
  assert.equal(outcomes[0]?.lost, undefined);
  assert.deepEqual(transport.sent[0]?.map((sent) => sent.flags), [1, 5]);
});

Deno.test("tryExecute() and dump() stay on the thread when asked to", async () => {
  const transport = new ScriptedTransport((requests) =>
    requests.map((sent) =>
      (sent.flags & 0x300) !== 0
        ? [entry(1), { ...DONE, sequence: sent.sequence }]
        : [ack(sent)]
    )
  );
  using connection = new Connection(transport);
  await connection.tryExecute([request("a")], { onThread: true });
  await connection.dump(request("l"), () => undefined, { onThread: true });
  assert.equal(transport.sentOnThread, 2);
});

Deno.test("dump() collects the entries of all parts", async () => {
  const transport = new ScriptedTransport(
    () => [[entry(1), entry(2)], [entry(3)], [DONE]],
  );
  using connection = new Connection(transport);
  const odd = (message: Message) =>
    number(message) % 2 === 1 ? number(message) : undefined;
  assert.deepEqual(await connection.dump(request("list"), odd), [1, 3]);
  assert.equal(transport.sent[0]?.[0]?.flags, 0x301); // NLM_F_REQUEST | NLM_F_DUMP
});

Deno.test("dump() parses no more entries once it has as many as it may keep", async () => {
  const transport = new ScriptedTransport(
    () => [[entry(1), entry(2)], [entry(3), entry(4)], [entry(5)], [DONE]],
  );
  using connection = new Connection(transport);
  const parsed: number[] = [];
  const odd = (message: Message) => {
    parsed.push(number(message));
    return number(message) % 2 === 1 ? number(message) : undefined;
  };
  const kept = await connection.dump(request("list"), odd, { atMost: 2 });
  assert.deepEqual([kept, parsed], [[1, 3], [1, 2, 3]]);
});

Deno.test("dump() asks again when the list changed in between, wherever the kernel says so", async () => {
  const interrupted: Datagram[][] = [
    [[entry(1, INTERRUPTED), entry(2)], [DONE]],
    [[entry(1)], [entry(2, INTERRUPTED)], [DONE]],
    [[entry(1)], [{ ...DONE, flags: INTERRUPTED }]],
    [[entry(7)], [DONE]],
  ];
  const transport = new ScriptedTransport(() => interrupted.shift() ?? []);
  const waits: number[] = [];
  using connection = new Connection(transport, {
    wait: async (ms) => void waits.push(ms),
  });
  assert.deepEqual(await connection.dump(request("list"), number), [7]);
  assert.deepEqual(waits, [1, 2, 4]);
});

Deno.test("dump() gives up on a list that never holds still", async () => {
  const transport = new ScriptedTransport(
    () => [[entry(1, INTERRUPTED)], [DONE]],
  );
  using connection = new Connection(transport, { wait: async () => {} });
  await assert.rejects(
    connection.dump(request("list links"), number),
    /^NetlinkError: Cannot list links: kernel returned EINTR \(interrupted 12 times\)$/,
  );
  assert.equal(transport.sent.length, 12);
  assert.equal(transport.sentOnThread, 9);
});

Deno.test("dump() lets others use the socket between its attempts", async () => {
  let attempts = 0;
  const transport = new ScriptedTransport((requests) => {
    if (requests[0]?.flags === 5) return [requests.map((sent) => ack(sent))];
    return attempts++ === 0
      ? [[entry(1, INTERRUPTED)], [DONE]]
      : [[entry(1)], [DONE]];
  });
  using connection: Connection = new Connection(transport, {
    wait: async () => {
      assert.deepEqual(await connection.tryExecute([request("a")]), [
        undefined,
      ]);
    },
  });
  assert.deepEqual(await connection.dump(request("list"), number), [1]);
});

Deno.test("dump() asks again with more room when a part was cut", async () => {
  const large: Reply = {
    type: ENTRY,
    body: (writer) => {
      writer.u32(5);
      for (let i = 0; i < 2; i++) {
        writer.attributeBytes(1, new Uint8Array(60_000));
      }
    },
  };
  const transport = new ScriptedTransport(() => [[large], [DONE]]);
  using connection = new Connection(transport, { wait: async () => {} });
  assert.deepEqual(await connection.dump(request("list"), number), [5]);
  assert.equal(transport.sent.length, 2);
});

Deno.test("dump() reports a refusal, at its start or its end", async () => {
  const ends: Datagram[][] = [
    [[{ ...DONE, body: (writer) => writer.u32(-2 >>> 0) }]],
    [[entry(1)], [{ ...DONE, body: (writer) => writer.u32(-22 >>> 0) }]],
  ];
  const transport = new ScriptedTransport(([sent]) =>
    ends.shift() ?? (sent ? [[ack(sent, 95)]] : [])
  );
  using connection = new Connection(transport);
  for (const code of ["ENOENT", "EINVAL", "EOPNOTSUPP"]) {
    await assert.rejects(
      connection.dump(request("list"), number),
      (error) => error instanceof NetlinkError && error.code === code,
    );
  }
});

Deno.test("dump() reports that receiving failed", async () => {
  const transport = new ScriptedTransport(() => [[entry(1)], 105]);
  using connection = new Connection(transport);
  await assert.rejects(
    connection.dump(request("list"), number),
    /^NetlinkError: Cannot list: kernel returned ENOBUFS \(while listing\)$/,
  );
});

Deno.test("dump() leaves nothing of a list that failed to the next one", async () => {
  const answers: Datagram[][] = [
    [[entry(1)], 105, [entry(2)], [DONE]],
    [[entry(1)], 9, [entry(2)], [DONE]],
  ];
  const transport = new ScriptedTransport(() => answers.shift() ?? []);
  using connection = new Connection(transport);
  for (const code of ["ENOBUFS", "EBADF"]) {
    await assert.rejects(
      connection.dump(request("list"), number),
      (error) => error instanceof NetlinkError && error.code === code,
    );
    assert.equal(transport.receiveNow(new Uint8Array(100)), undefined, code);
  }
  const fail = () => {
    throw new TypeError("a bug");
  };
  answers.push([[entry(1)], [entry(2)], [DONE]]);
  await assert.rejects(connection.dump(request("list"), fail), TypeError);
  assert.equal(transport.receiveNow(new Uint8Array(100)), undefined);
});

Deno.test("dump() ends when the list does not", async () => {
  const transport = new ScriptedTransport(() => [[entry(1)]]);
  using connection = new Connection(transport);
  await assert.rejects(
    connection.dump(request("list"), number),
    /EPROTO \(list without an end\)/,
  );
});

Deno.test("dump() reads to the end when an entry is malformed, and stays in step", async () => {
  const answers: Datagram[][] = [
    [[{ type: ENTRY }, entry(1)], [entry(2)], [DONE]],
    [[entry(3)], [DONE]],
  ];
  const transport = new ScriptedTransport(() => answers.shift() ?? []);
  using connection = new Connection(transport);
  await assert.rejects(connection.dump(request("list"), number), SyntaxError);
  assert.deepEqual(await connection.dump(request("list"), number), [3]);
});

Deno.test("a trace shows both directions with what was asked and answered", async () => {
  const transport = new ScriptedTransport((
    requests,
  ) => [requests.map((sent) => ack(sent, 17, "taken"))]);
  const lines: string[] = [];
  using connection = new Connection(transport, {
    trace: textTrace((line) => lines.push(line)),
  });
  await connection.tryExecute([request('create bridge "br0"')]);
  assert.deepEqual(lines, [
    'netlink -> seq 1 RTM_NEWLINK flags 0x5 4 bytes create bridge "br0"',
    "  0000  00 00 00 00",
    "netlink <- seq 1 NLMSG_ERROR flags 0x300 32 bytes EEXIST (taken)",
    "  0000  ef ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00",
    "  0010  00 00 00 00 0a 00 01 00 74 61 6b 65 6e 00 00 00",
  ]);
});

Deno.test("a trace bears hostile bytes", () => {
  const lines: string[] = [];
  const trace = textTrace((line) => lines.push(line));
  trace.received(Uint8Array.of(1, 2, 3));
  assert.deepEqual(lines, [
    "netlink <- malformed: 3 bytes",
    "  0000  01 02 03",
  ]);
});
