import assert from "node:assert/strict";
import { concatenate } from "../../bytes/mod.ts";
import fc from "fast-check";
import {
  encodeHeaders,
  type HeaderField,
  HpackDecoder,
} from "../base/hpack.ts";
import {
  CONNECTION_PREFACE,
  encodeFrame,
  encodeSettings,
  encodeUint32,
  ErrorCode,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  readUint32,
  Setting,
} from "../base/http2_frames.ts";
import { frameMessage } from "../base/message_frame.ts";
import { GrpcError } from "../base/status.ts";
import { MAX_STREAMS } from "./connection_output.ts";
import { ByteBudget } from "./message_reader.ts";
import type { ConnectionEvent } from "./connection_event.ts";
import { ServerConnection } from "./server_connection.ts";

const MAX_SIZE = 100_000;
const PREFACE = new TextEncoder().encode(CONNECTION_PREFACE);
const SETTINGS = encodeFrame(FrameType.SETTINGS, {});
const REQUEST: readonly HeaderField[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/a.B/C"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
];
const END = Flag.END_HEADERS | Flag.END_STREAM;

function headers(
  streamId: number,
  fields = REQUEST,
  flags: number = Flag.END_HEADERS,
): Uint8Array {
  const payload = encodeHeaders(fields);
  return encodeFrame(FrameType.HEADERS, { streamId, flags, payload });
}

function data(streamId: number, payload: Uint8Array, flags = 0): Uint8Array {
  return encodeFrame(FrameType.DATA, { streamId, flags, payload });
}

function wholeCall(streamId: number, message = Uint8Array.of(7)): Uint8Array {
  return concatenate([
    headers(streamId),
    data(streamId, frameMessage(message), Flag.END_STREAM),
  ]);
}

/** A header block of stream 1 in as many frames as it takes. */
function headerFrames(block: Uint8Array): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let at = 0; at < block.length; at += 16_000) {
    const isLast = at + 16_000 >= block.length;
    const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
    frames.push(encodeFrame(type, {
      streamId: 1,
      flags: (at === 0 ? Flag.END_STREAM : 0) |
        (isLast ? Flag.END_HEADERS : 0),
      payload: block.subarray(at, at + 16_000),
    }));
  }
  return frames;
}

/** A connection, seen from its peer. */
class Peer {
  nowMs = 0;
  readonly budget = new ByteBudget(10 * MAX_SIZE);
  readonly server: ServerConnection = new ServerConnection({
    maxSize: MAX_SIZE,
    budget: this.budget,
    now: () => this.nowMs,
  });
  readonly #reader = new FrameReader();
  readonly #hpack = new HpackDecoder();

  /** A peer that has shaken hands. */
  static ready(settings: [number, number][] = []): Peer {
    const peer = new Peer();
    const payload = encodeSettings(settings);
    peer.send(PREFACE, encodeFrame(FrameType.SETTINGS, { payload }));
    peer.frames();
    return peer;
  }

  send(...bytes: Uint8Array[]): ConnectionEvent[] {
    return this.server.receive(concatenate(bytes));
  }

  frames(): Frame[] {
    return this.#reader.push(this.server.takeOutput());
  }

  /** What was answered, as text. */
  answers(): string[] {
    return this.frames().map(({ type, streamId, flags, payload }) => {
      switch (type) {
        case FrameType.HEADERS: {
          const end = flags & Flag.END_STREAM ? " end" : "";
          const fields = this.#hpack.decode(payload)
            .filter(([name]) => name !== "content-type")
            .map((field) => field.join("="));
          return `${streamId} ${fields.join(" ")}${end}`;
        }
        case FrameType.DATA:
          return `${streamId} data ${payload.length}`;
        case FrameType.RST_STREAM:
          return `${streamId} reset ${readUint32(payload, 0)}`;
        case FrameType.GOAWAY:
          return `goaway ${readUint32(payload, 0)} ${readUint32(payload, 4)}`;
        case FrameType.WINDOW_UPDATE:
          return `${streamId} grant ${readUint32(payload, 0)}`;
        default:
          return `type ${type} flags ${flags}`;
      }
    });
  }

  /** The code of the GOAWAY that these bytes lead to. */
  goAwayCode(...bytes: Uint8Array[]): number | undefined {
    this.send(...bytes);
    const frame = this.frames().find((f) => f.type === FrameType.GOAWAY);
    return frame && readUint32(frame.payload, 4);
  }
}

Deno.test("ServerConnection answers a call", () => {
  const peer = new Peer();
  const events = peer.send(PREFACE, SETTINGS, wholeCall(1));
  assert.deepEqual(events, [
    { type: "call", streamId: 1, path: "/a.B/C", timeoutMs: undefined },
    { type: "message", streamId: 1, message: Uint8Array.of(7) },
    { type: "halfClose", streamId: 1 },
  ]);
  assert.deepEqual(peer.answers(), [
    "type 4 flags 0",
    "0 grant 983041",
    "type 4 flags 1",
  ]);
  peer.server.send(1, new Uint8Array(3));
  peer.server.end(1);
  peer.server.release(1);
  assert.deepEqual(peer.answers(), [
    "1 :status=200",
    "1 data 8",
    "1 grpc-status=0 end",
  ]);
});

Deno.test("ServerConnection answers with a status alone", () => {
  const peer = Peer.ready();
  peer.send(wholeCall(1));
  const statusDetails = Uint8Array.of(1, 2);
  const error = new GrpcError("100 % spät\n", { code: 5, statusDetails });
  peer.server.end(1, error);
  assert.deepEqual(peer.answers(), [
    "1 :status=200 grpc-status=5 grpc-message=100 %25 sp%C3%A4t%0A grpc-status-details-bin=AQI end",
  ]);
});

Deno.test("ServerConnection ends a call whose request goes on", () => {
  const peer = Peer.ready();
  peer.send(headers(1));
  peer.server.end(1, new GrpcError("no", { code: 12 }));
  peer.server.release(1);
  assert.deepEqual(peer.answers(), [
    "1 :status=200 grpc-status=12 grpc-message=no end",
    "1 reset 0",
  ]);
  // What was on its way is ignored.
  assert.deepEqual(peer.send(data(1, new Uint8Array(9), 1)), []);
  assert.equal(peer.server.failure, undefined);
});

const REFUSED: [string, HeaderField[], string][] = [
  ["a content type", [["content-type", "text/html"]], "1 :status=415"],
  ["a method", [[":method", "GET"]], "1 :status=405"],
  ["a timeout", [["grpc-timeout", "1x"]], "1 :status=200 grpc-status=13"],
  ["a long header", [["x", "y".repeat(40_000)]], "1 :status=431"],
  ["a pseudo field", [[":status", "200"]], "1 reset 1"],
  ["a field in upper case", [["X", "y"]], "1 reset 1"],
  ["a field of HTTP/1.1", [["connection", "close"]], "1 reset 1"],
  ["no path", [[":path", ""]], "1 reset 1"],
];
for (const [what, change, expected] of REFUSED) {
  Deno.test(`ServerConnection refuses ${what}`, () => {
    const peer = Peer.ready();
    const fields = new Map([...REQUEST, ...change]);
    const sorted = [...fields].sort(([a], [b]) =>
      Number(b.startsWith(":")) - Number(a.startsWith(":"))
    );
    assert.deepEqual(peer.send(...headerFrames(encodeHeaders(sorted))), []);
    const [answer = ""] = peer.answers();
    assert.ok(answer.startsWith(expected), answer);
    assert.equal(peer.send(wholeCall(3)).length, 3, "the connection goes on");
  });
}

Deno.test("ServerConnection reads every unit of grpc-timeout", () => {
  const ms = { "2H": 7.2e6, "3M": 180_000, "4S": 4000, "5m": 5, "6u": 0.006 };
  let streamId = 1;
  const peer = Peer.ready();
  for (const [text, timeoutMs] of Object.entries(ms)) {
    const fields: HeaderField[] = [...REQUEST, ["grpc-timeout", text]];
    const [event] = peer.send(headers(streamId, fields));
    assert.deepEqual(event, {
      type: "call",
      streamId,
      path: "/a.B/C",
      timeoutMs,
    });
    streamId += 2;
  }
});

Deno.test("ServerConnection refuses a compressed message", () => {
  const peer = Peer.ready();
  const events = peer.send(headers(1), data(1, Uint8Array.of(1, 0, 0, 0, 0)));
  assert.deepEqual(events.map(({ type }) => type), ["call", "cancel"]);
  assert.match(peer.answers()[0] ?? "", /grpc-status=12/);
});

Deno.test("ServerConnection refuses a message that is too large", () => {
  const peer = Peer.ready();
  const prefix = Uint8Array.of(0, ...encodeUint32(MAX_SIZE + 1));
  peer.send(headers(1), data(1, prefix));
  assert.match(peer.answers()[0] ?? "", /grpc-status=8/);
});

Deno.test("ServerConnection refuses a message that is cut short", () => {
  const peer = Peer.ready();
  peer.send(headers(1), data(1, Uint8Array.of(0, 0), Flag.END_STREAM));
  assert.match(peer.answers()[0] ?? "", /grpc-status=13/);
});

Deno.test("ServerConnection gives the memory of requests back", () => {
  const peer = Peer.ready();
  const half = new Uint8Array(MAX_SIZE / 2).subarray(0, 16_000);
  let refused = 0;
  for (let i = 0; i < 100; i++) {
    const streamId = 2 * i + 1;
    const prefix = Uint8Array.of(0, ...encodeUint32(MAX_SIZE));
    const events = peer.send(
      headers(streamId),
      data(streamId, concatenate([prefix, half.subarray(5)])),
    );
    if (events.some(({ type }) => type === "cancel")) refused++;
  }
  assert.ok(refused > 0 && refused < 100, `${refused} refused`);
  for (let i = 0; i < 100; i++) peer.server.release(2 * i + 1);
  for (let i = 0; i < 100; i++) {
    const streamId = 2 * i + 1;
    peer.send(
      encodeFrame(FrameType.RST_STREAM, {
        streamId,
        payload: encodeUint32(ErrorCode.CANCEL),
      }),
    );
  }
  assert.ok(peer.budget.take(10 * MAX_SIZE), "nothing is left behind");
});

Deno.test("ServerConnection counts a message until its call has ended, also when the next one has begun", () => {
  const peer = Peer.ready();
  const message = frameMessage(new Uint8Array(16_000));
  let held = 0;
  for (let streamId = 1; streamId < 200; streamId += 2) {
    const events = peer.send(
      headers(streamId),
      data(streamId, message),
      data(streamId, Uint8Array.of(0)),
    );
    if (events.some(({ type }) => type === "cancel")) continue;
    held += message.length;
  }
  assert.ok(held > 0 && held <= 10 * MAX_SIZE, `${held} bytes`);
});

Deno.test("ServerConnection tells of a call that the peer resets", () => {
  const peer = Peer.ready();
  peer.send(wholeCall(1));
  const payload = encodeUint32(ErrorCode.CANCEL);
  const reset = encodeFrame(FrameType.RST_STREAM, { streamId: 1, payload });
  assert.deepEqual(peer.send(reset), [{ type: "cancel", streamId: 1 }]);
  peer.server.send(1, new Uint8Array(3));
  peer.server.end(1);
  assert.deepEqual(peer.answers(), []);
});

Deno.test("ServerConnection keeps room for calls that were reset", () => {
  const peer = Peer.ready();
  const payload = encodeUint32(ErrorCode.CANCEL);
  for (let i = 0; i < MAX_STREAMS; i++) {
    const streamId = 2 * i + 1;
    const reset = encodeFrame(FrameType.RST_STREAM, { streamId, payload });
    assert.equal(peer.send(wholeCall(streamId), reset).length, 4);
  }
  assert.deepEqual(peer.send(wholeCall(901)), [], "handlers still run");
  assert.deepEqual(peer.answers(), ["901 reset 7"]);
  peer.server.release(1);
  assert.equal(peer.send(wholeCall(903)).length, 3);
});

Deno.test("ServerConnection sends no more than the windows allow", () => {
  const peer = Peer.ready([[Setting.INITIAL_WINDOW_SIZE, 10]]);
  peer.send(wholeCall(1));
  peer.server.send(1, new Uint8Array(20));
  peer.server.end(1);
  assert.deepEqual(peer.answers(), ["1 :status=200", "1 data 10"]);
  const payload = encodeUint32(7);
  peer.send(encodeFrame(FrameType.WINDOW_UPDATE, { streamId: 1, payload }));
  assert.deepEqual(peer.answers(), ["1 data 7"]);
  const settings = encodeSettings([[Setting.INITIAL_WINDOW_SIZE, 18]]);
  peer.send(encodeFrame(FrameType.SETTINGS, { payload: settings }));
  assert.deepEqual(peer.answers(), [
    "1 data 8",
    "1 grpc-status=0 end",
    "type 4 flags 1",
  ]);
});

Deno.test("ServerConnection shares the window of the connection", () => {
  const peer = Peer.ready([[Setting.INITIAL_WINDOW_SIZE, 1_000_000]]);
  peer.send(wholeCall(1), wholeCall(3));
  peer.server.send(1, new Uint8Array(65_530));
  peer.server.send(3, new Uint8Array(95));
  for (const id of [1, 3]) peer.server.end(id);
  const sum = (answers: string[]) =>
    answers.reduce((n, a) => n + Number(/data (\d+)/.exec(a)?.[1] ?? 0), 0);
  assert.equal(sum(peer.answers()), 65_535);
  const payload = encodeUint32(1000);
  peer.send(encodeFrame(FrameType.WINDOW_UPDATE, { payload }));
  assert.deepEqual(peer.answers().slice(-1), ["3 grpc-status=0 end"]);
});

const NO_WINDOW: [number, number][] = [[Setting.INITIAL_WINDOW_SIZE, 0]];

Deno.test("ServerConnection holds back 128 KiB of answers for all calls together", () => {
  const peer = Peer.ready(NO_WINDOW);
  for (let streamId = 1; streamId < 20; streamId += 2) {
    peer.send(wholeCall(streamId));
    peer.server.send(streamId, new Uint8Array(60_000));
  }
  const given = peer.answers().filter((answer) => answer.endsWith("=200"));
  assert.equal(given.length, 3);
});

Deno.test("ServerConnection can end without a peer that grants no window", () => {
  const peer = Peer.ready(NO_WINDOW);
  peer.send(wholeCall(1));
  peer.server.send(1, Uint8Array.of(1));
  peer.server.end(1);
  peer.server.release(1);
  peer.server.goAway();
  assert.ok(!peer.server.isFinished);
  peer.server.dropStalled();
  assert.ok(peer.server.isFinished);
  assert.deepEqual(peer.answers(), [
    "1 :status=200",
    "goaway 1 0",
    "1 reset 8",
  ]);
});

Deno.test("ServerConnection grants windows again", () => {
  const peer = Peer.ready();
  peer.send(headers(1));
  const grants: string[] = [];
  const message = frameMessage(new Uint8Array(10_000));
  for (let i = 0; i < 90; i++) {
    peer.send(data(1, message));
    grants.push(...peer.answers());
  }
  assert.ok(grants.some((text) => text.startsWith("1 grant")));
  assert.ok(grants.some((text) => text.startsWith("0 grant")));
  assert.ok(grants.every((text) => text.includes("grant")), String(grants));
});

Deno.test("ServerConnection goes away once its calls have ended", () => {
  const peer = Peer.ready();
  peer.send(wholeCall(1));
  peer.server.goAway();
  assert.deepEqual(peer.answers(), ["goaway 1 0"]);
  assert.deepEqual(peer.send(wholeCall(3)), []);
  assert.deepEqual(peer.answers(), ["3 reset 7"]);
  assert.equal(peer.server.isFinished, false);
  peer.server.end(1);
  peer.server.release(1);
  assert.equal(peer.server.isFinished, true);
});

const bad = (
  type: number,
  streamId: number,
  payload: Uint8Array = new Uint8Array(),
) => encodeFrame(type, { streamId, payload });
const BROKEN: [string, number, Uint8Array][] = [
  [
    "a call first",
    ErrorCode.PROTOCOL_ERROR,
    concatenate([PREFACE, headers(1)]),
  ],
  ["HTTP/1.1", 1, new TextEncoder().encode("GET / HTTP/1.1\r\n")],
];
const BROKEN_LATER: [string, number, Uint8Array][] = [
  ["a frame too large", 6, Uint8Array.of(0, 0x40, 1, 0, 0, 0, 0, 0, 1)],
  ["DATA of stream 0", 1, bad(FrameType.DATA, 0)],
  ["DATA of an idle stream", 1, bad(FrameType.DATA, 5)],
  ["HEADERS of stream 2", 1, headers(2)],
  ["a stray CONTINUATION", 1, bad(FrameType.CONTINUATION, 1)],
  ["an open block", 1, concatenate([headers(1, REQUEST, 0), SETTINGS])],
  [
    "a CONTINUATION of another stream",
    1,
    concatenate([headers(1, REQUEST, 0), bad(FrameType.CONTINUATION, 3)]),
  ],
  [
    "bad HPACK",
    9,
    encodeFrame(1, { streamId: 1, flags: END, payload: Uint8Array.of(0xff) }),
  ],
  ["SETTINGS of a stream", 1, bad(FrameType.SETTINGS, 1)],
  ["SETTINGS of 5 bytes", 6, bad(FrameType.SETTINGS, 0, new Uint8Array(5))],
  [
    "a window of 2^31",
    3,
    bad(FrameType.SETTINGS, 0, encodeSettings([[4, 2 ** 31]])),
  ],
  ["frames of 1 byte", 1, bad(FrameType.SETTINGS, 0, encodeSettings([[5, 1]]))],
  ["PING of 7 bytes", 6, bad(FrameType.PING, 0, new Uint8Array(7))],
  [
    "RST_STREAM of an idle stream",
    1,
    bad(FrameType.RST_STREAM, 9, new Uint8Array(4)),
  ],
  ["WINDOW_UPDATE of 0", 1, bad(FrameType.WINDOW_UPDATE, 0, new Uint8Array(4))],
  [
    "a window overrun",
    3,
    bad(FrameType.WINDOW_UPDATE, 0, encodeUint32(2 ** 31 - 1)),
  ],
  ["PUSH_PROMISE", 1, bad(FrameType.PUSH_PROMISE, 1, new Uint8Array(4))],
];
for (const [what, code, bytes] of BROKEN) {
  Deno.test(`ServerConnection ends at ${what}`, () => {
    const peer = new Peer();
    assert.equal(peer.goAwayCode(bytes), code);
    assert.ok(peer.server.isFinished);
  });
}
for (const [what, code, bytes] of BROKEN_LATER) {
  Deno.test(`ServerConnection ends at ${what}`, () => {
    const peer = Peer.ready();
    assert.equal(peer.goAwayCode(bytes), code);
    assert.ok(peer.server.isFinished);
    assert.deepEqual(peer.send(wholeCall(11)), [], "nothing counts any more");
  });
}

const continuation = encodeFrame(FrameType.CONTINUATION, { streamId: 1 });
const FLOODS: [string, (i: number) => Uint8Array][] = [
  ["PING", () => bad(FrameType.PING, 0, new Uint8Array(8))],
  ["SETTINGS", () => SETTINGS],
  ["PRIORITY", () => bad(FrameType.PRIORITY, 1, new Uint8Array(5))],
  ["WINDOW_UPDATE", () => bad(FrameType.WINDOW_UPDATE, 0, encodeUint32(1))],
  ["CONTINUATION", (i) => i === 0 ? headers(1, REQUEST, 0) : continuation],
  ["empty DATA", (i) => i === 0 ? headers(1) : data(1, new Uint8Array())],
  ["resets", (i) =>
    concatenate([
      headers(2 * i + 1),
      bad(FrameType.RST_STREAM, 2 * i + 1, encodeUint32(8)),
    ])],
];
for (const [what, frame] of FLOODS) {
  Deno.test(`ServerConnection ends a flood of ${what}`, () => {
    const peer = Peer.ready();
    let code: number | undefined;
    for (let i = 0; i < 70_000 && code === undefined; i++) {
      code = peer.goAwayCode(frame(i));
    }
    assert.equal(code, ErrorCode.ENHANCE_YOUR_CALM);
  });
}

/** Floods of calls that end before they are answered, by the caller or because the caller sees to it: RFC 9113, section 10.5. */
const RESETS: [string, (streamId: number) => Uint8Array[]][] = [
  ["a reset", (streamId) => [
    wholeCall(streamId),
    bad(FrameType.RST_STREAM, streamId, encodeUint32(8)),
  ]],
  ["WINDOW_UPDATE of 0", (streamId) => [
    wholeCall(streamId),
    bad(FrameType.WINDOW_UPDATE, streamId, encodeUint32(0)),
  ]],
  ["data after its end", (streamId) => [
    wholeCall(streamId),
    data(streamId, Uint8Array.of(1)),
  ]],
  ["a message that is cut short", (streamId) => [
    headers(streamId),
    data(streamId, Uint8Array.of(0, 0), Flag.END_STREAM),
  ]],
];
for (const [what, frames] of RESETS) {
  Deno.test(`ServerConnection ends a flood of calls that each end by ${what}, given back by their handlers`, () => {
    const peer = Peer.ready();
    let calls = 0;
    let code: number | undefined;
    for (; calls < 5_000 && code === undefined; calls++) {
      const streamId = 2 * calls + 1;
      const events = peer.send(...frames(streamId));
      // As Session does it.
      for (const event of events) {
        if (event.type !== "cancel") continue;
        peer.server.end(event.streamId, new GrpcError("gone", { code: 1 }));
        peer.server.release(event.streamId);
      }
      const goAway = peer.frames().find((f) => f.type === FrameType.GOAWAY);
      code = goAway && readUint32(goAway.payload, 4);
    }
    assert.equal(code, ErrorCode.ENHANCE_YOUR_CALM);
    assert.ok(calls <= 2_001, `${calls} calls`);
  });
}

Deno.test("ServerConnection bears a reset now and then among calls that are answered", () => {
  const peer = Peer.ready();
  for (let n = 0; n < 10_000; n++) {
    const streamId = 2 * n + 1;
    const isReset = n % 4 === 0;
    peer.send(
      wholeCall(streamId),
      ...(isReset
        ? [bad(FrameType.RST_STREAM, streamId, encodeUint32(8))]
        : []),
    );
    peer.server.send(streamId, Uint8Array.of(1));
    peer.server.end(streamId);
    peer.server.release(streamId);
    peer.frames();
  }
  assert.equal(peer.server.failure, undefined);
});

Deno.test("ServerConnection bears pings that come in time", () => {
  const peer = Peer.ready();
  for (let i = 0; i < 10_000; i++) {
    peer.nowMs += 10;
    peer.send(bad(FrameType.PING, 0, new Uint8Array(8)));
    assert.deepEqual(peer.answers(), ["type 6 flags 1"]);
  }
});

/** All that happens, with these cuts. */
function replay(parts: readonly Uint8Array[]) {
  const { server } = new Peer();
  const events = parts.flatMap((part) => server.receive(part));
  return { events, output: server.takeOutput(), failed: server.failure?.code };
}

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const size of sizes) {
    parts.push(bytes.slice(at, at + size));
    at += size;
  }
  return [...parts, bytes.slice(at)];
}

const script = fc.array(
  fc.oneof(
    fc.tuple(fc.integer({ min: 0, max: 5 }), fc.uint8Array({ maxLength: 300 }))
      .map(([n, message]) => wholeCall(2 * n + 1, message)),
    fc.constant(bad(FrameType.PING, 0, new Uint8Array(8))),
    fc.record({
      type: fc.integer({ min: 0, max: 11 }),
      flags: fc.integer({ min: 0, max: 255 }),
      streamId: fc.integer({ min: 0, max: 9 }),
      payload: fc.uint8Array({ maxLength: 40 }),
    }).map(({ type, ...options }) => encodeFrame(type, options)),
  ),
  { maxLength: 12 },
);

Deno.test("ServerConnection does the same however its input is cut", () => {
  fc.assert(
    fc.property(
      script,
      fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 60 }),
      (frames, sizes) => {
        const whole = concatenate([PREFACE, SETTINGS, ...frames]);
        assert.deepEqual(replay(cut(whole, sizes)), replay([whole]));
      },
    ),
    { numRuns: 500 },
  );
});

Deno.test("ServerConnection never throws, for any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (garbage) => {
      replay([garbage]);
      replay([concatenate([PREFACE, SETTINGS, garbage])]);
    }),
    { numRuns: 500 },
  );
});
