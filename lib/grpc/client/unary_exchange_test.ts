import assert from "node:assert/strict";
import { concatenate } from "../../bytes/mod.ts";
import fc from "fast-check";
import {
  encodeHeaders,
  type HeaderField,
  HpackDecoder,
} from "../base/hpack.ts";
import {
  encodeFrame,
  encodeSettings,
  encodeUint32,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  Setting,
} from "../base/http2_frames.ts";
import { codeName, GrpcError, StatusCode } from "../base/status.ts";
import { UnaryExchange } from "./unary_exchange.ts";

const PREFACE_SIZE = 24;
const HEADERS: HeaderField[] = [[":status", "200"], [
  "content-type",
  "application/grpc",
]];

function exchange(message = new Uint8Array([1, 2, 3])): UnaryExchange {
  return new UnaryExchange({ method: "/a.B/C", message, timeoutMs: 60_000 });
}

function settings(...values: [number, number][]): Uint8Array {
  const payload = encodeSettings(values);
  return encodeFrame(FrameType.SETTINGS, { payload });
}

function headers(
  fields: readonly HeaderField[],
  flags: number = Flag.END_HEADERS,
): Uint8Array {
  const payload = encodeHeaders(fields);
  return encodeFrame(FrameType.HEADERS, { flags, streamId: 1, payload });
}

function data(payload: Uint8Array, flags = 0): Uint8Array {
  return encodeFrame(FrameType.DATA, { flags, streamId: 1, payload });
}

function grpcMessage(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  return concatenate([new Uint8Array(1), encodeUint32(bytes.length), bytes]);
}

const END = Flag.END_HEADERS | Flag.END_STREAM;
const OK = headers([["grpc-status", "0"]], END);
const ANSWER = [settings(), headers(HEADERS), data(grpcMessage("yes")), OK];

/** What a server would read: the preface is cut off. */
function sent(call: UnaryExchange, isFirst = true): Frame[] {
  const bytes = call.takeOutput();
  return new FrameReader().push(bytes.subarray(isFirst ? PREFACE_SIZE : 0));
}

function ofType(frames: readonly Frame[], type: number): Frame[] {
  return frames.filter((frame) => frame.type === type);
}

/** Feeds frames and returns the error of the call. */
function failure(...frames: readonly Uint8Array[]): GrpcError {
  const call = exchange();
  try {
    for (const frame of frames) call.receive(frame);
  } catch (error) {
    if (error instanceof GrpcError) return error;
    throw error;
  }
  assert.fail("the call did not fail");
}

Deno.test("UnaryExchange sends preface, settings, headers and the message", () => {
  const call = exchange();
  const bytes = call.takeOutput();
  assert.equal(
    new TextDecoder().decode(bytes.subarray(0, PREFACE_SIZE)),
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  );
  const frames = new FrameReader().push(bytes.subarray(PREFACE_SIZE));
  assert.deepEqual(frames.map(({ type }) => type), [
    FrameType.SETTINGS,
    FrameType.WINDOW_UPDATE,
    FrameType.HEADERS,
    FrameType.DATA,
  ]);
  const [, , headersFrame, dataFrame] = frames;
  assert.ok(headersFrame && dataFrame);
  assert.deepEqual(
    Object.fromEntries(new HpackDecoder().decode(headersFrame.payload)),
    {
      ":method": "POST",
      ":scheme": "http",
      ":path": "/a.B/C",
      ":authority": "localhost",
      "content-type": "application/grpc",
      "te": "trailers",
      "user-agent": "grpc-deno",
      "grpc-timeout": "60000m",
    },
  );
  assert.equal(dataFrame.flags, Flag.END_STREAM);
  assert.deepEqual([...dataFrame.payload], [0, 0, 0, 0, 3, 1, 2, 3]);
  assert.equal(call.takeOutput().length, 0);
});

Deno.test("UnaryExchange gets the answer, in one piece or byte by byte", () => {
  const bytes = concatenate(ANSWER);
  fc.assert(fc.property(fc.integer({ min: 1, max: bytes.length }), (size) => {
    const call = exchange();
    for (let at = 0; at < bytes.length; at += size) {
      call.receive(bytes.subarray(at, at + size));
    }
    assert.deepEqual(call.response, new TextEncoder().encode("yes"));
  }));
});

Deno.test("UnaryExchange takes padding, priority and continuations", () => {
  const block = encodeHeaders(HEADERS);
  const [first, rest] = [block.subarray(0, 3), block.subarray(3)];
  const call = exchange();
  for (
    const frame of [
      settings(),
      encodeFrame(FrameType.HEADERS, {
        flags: Flag.PADDED | Flag.PRIORITY,
        streamId: 1,
        payload: concatenate([
          Uint8Array.of(2, 0, 0, 0, 0, 9),
          first,
          Uint8Array.of(0, 0),
        ]),
      }),
      encodeFrame(FrameType.CONTINUATION, {
        flags: Flag.END_HEADERS,
        streamId: 1,
        payload: rest,
      }),
      data(
        concatenate([Uint8Array.of(3), grpcMessage("yes"), new Uint8Array(3)]),
        Flag.PADDED,
      ),
      encodeFrame(99, { streamId: 1, payload: new Uint8Array(5) }),
      OK,
    ]
  ) call.receive(frame);
  assert.equal(new TextDecoder().decode(call.response), "yes");
});

Deno.test("UnaryExchange skips interim answers", () => {
  const call = exchange();
  for (const frame of [settings(), headers([[":status", "103"]])]) {
    call.receive(frame);
  }
  for (const frame of ANSWER.slice(1)) call.receive(frame);
  assert.equal(new TextDecoder().decode(call.response), "yes");
});

Deno.test("UnaryExchange acknowledges SETTINGS and PING", () => {
  const call = exchange();
  call.takeOutput();
  const payload = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  call.receive(settings());
  call.receive(encodeFrame(FrameType.PING, { payload }));
  call.receive(encodeFrame(FrameType.PING, { payload, flags: Flag.ACK }));
  call.receive(encodeFrame(FrameType.SETTINGS, { flags: Flag.ACK }));
  const frames = sent(call, false);
  assert.deepEqual(frames.map(({ type, flags }) => [type, flags]), [
    [FrameType.SETTINGS, Flag.ACK],
    [FrameType.PING, Flag.ACK],
  ]);
  assert.deepEqual(frames[1]?.payload, payload);
});

function dataSent(frames: readonly Frame[]): number {
  return ofType(frames, FrameType.DATA)
    .reduce((sum, { payload }) => sum + payload.length, 0);
}

function windowUpdate(streamId: number, increment: number): Uint8Array {
  const payload = encodeUint32(increment);
  return encodeFrame(FrameType.WINDOW_UPDATE, { streamId, payload });
}

Deno.test("UnaryExchange never sends more than both windows allow", () => {
  const size = 200_000;
  const call = exchange(new Uint8Array(size));
  const first = sent(call);
  assert.equal(dataSent(first), 65535);
  assert.ok(
    ofType(first, FrameType.DATA).every((f) => f.payload.length <= 16384),
  );
  call.receive(settings([Setting.INITIAL_WINDOW_SIZE, 100_000]));
  assert.equal(dataSent(sent(call, false)), 0, "the connection's window");
  call.receive(windowUpdate(0, 1_000_000));
  assert.equal(dataSent(sent(call, false)), 100_000 - 65535);
  call.receive(settings([Setting.INITIAL_WINDOW_SIZE, 50_000]));
  call.receive(windowUpdate(1, 50_000));
  assert.equal(dataSent(sent(call, false)), 0, "the window was negative");
  call.receive(settings([Setting.MAX_FRAME_SIZE, 65536]));
  call.receive(windowUpdate(1, 1_000_000));
  const bytes = call.takeOutput();
  // The last frame is larger than a peer of default settings would take.
  assert.equal(bytes.length, 9 + 9 + size + 5 - 100_000 + 9);
});

Deno.test("SV-14: UnaryExchange hands over code, message and details", () => {
  const details = Uint8Array.of(8, 13, 18, 1, 120);
  const error = failure(
    settings(),
    headers([
      ...HEADERS,
      ["grpc-status", "13"],
      ["grpc-message", "no%20address %C3%BC"],
      ["grpc-status-details-bin", details.toBase64({ omitPadding: true })],
    ], END),
  );
  assert.equal(error.code, StatusCode.INTERNAL);
  assert.equal(codeName(error.code), "Internal");
  assert.equal(error.message, "no address ü");
  assert.deepEqual(error.statusDetails, details);
});

const FAILURES: [string, number, RegExp, Uint8Array[]][] = [
  ["a status in trailers after a message", StatusCode.ABORTED, /^late$/, [
    settings(),
    headers(HEADERS),
    data(grpcMessage("yes")),
    headers([["grpc-status", "10"], ["grpc-message", "late"]], END),
  ]],
  ["a message with a broken escape", StatusCode.UNKNOWN, /^50% off$/, [
    settings(),
    headers(
      [...HEADERS, ["grpc-status", "2"], ["grpc-message", "50% off"]],
      END,
    ),
  ]],
  ["details that are no base64", StatusCode.NOT_FOUND, /^gone$/, [
    settings(),
    headers([
      ...HEADERS,
      ["grpc-status", "5"],
      ["grpc-message", "gone"],
      ["grpc-status-details-bin", "!"],
    ], END),
  ]],
  ["a status that is no number", StatusCode.UNKNOWN, /^$/, [
    settings(),
    headers([...HEADERS, ["grpc-status", "x"]], END),
  ]],
  ["an HTTP error", StatusCode.UNAVAILABLE, /HTTP status 503/, [
    settings(),
    headers([[":status", "503"], ["content-type", "text/html"]], END),
  ]],
  ["an answer without trailers", StatusCode.UNKNOWN, /no grpc-status/, [
    settings(),
    headers(HEADERS),
    data(grpcMessage("yes"), Flag.END_STREAM),
  ]],
  ["an answer without a message", StatusCode.INTERNAL, /one message/, [
    settings(),
    headers(HEADERS),
    OK,
  ]],
  ["an answer of two messages", StatusCode.INTERNAL, /one message/, [
    settings(),
    headers(HEADERS),
    data(concatenate([grpcMessage("a"), grpcMessage("b")])),
    OK,
  ]],
  ["a compressed answer", StatusCode.INTERNAL, /compressed/, [
    settings(),
    headers(HEADERS),
    data(Uint8Array.of(1, 0, 0, 0, 0)),
    OK,
  ]],
  ["a reset stream", StatusCode.UNAVAILABLE, /code 7/, [
    settings(),
    encodeFrame(FrameType.RST_STREAM, {
      streamId: 1,
      payload: encodeUint32(7),
    }),
  ]],
  ["a server that goes away", StatusCode.UNAVAILABLE, /going away/, [
    settings(),
    encodeFrame(FrameType.GOAWAY, { payload: new Uint8Array(8) }),
  ]],
  ["HTTP/1.1", StatusCode.INTERNAL, /is this HTTP\/2/, [
    new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"),
  ]],
  ["no SETTINGS", StatusCode.INTERNAL, /SETTINGS/, [headers(HEADERS)]],
  ["SETTINGS of a bad size", StatusCode.INTERNAL, /bad size/, [
    encodeFrame(FrameType.SETTINGS, { payload: new Uint8Array(5) }),
  ]],
  ["SETTINGS of a stream", StatusCode.INTERNAL, /of a stream/, [
    encodeFrame(FrameType.SETTINGS, { streamId: 1 }),
  ]],
  ["a window that is too large", StatusCode.INTERNAL, /too large/, [
    settings([Setting.INITIAL_WINDOW_SIZE, 0x80000000]),
  ]],
  ["a window that grows too large", StatusCode.INTERNAL, /too large/, [
    settings(),
    windowUpdate(0, 0x7fffffff),
  ]],
  ["a window that does not grow", StatusCode.INTERNAL, /of 0/, [
    settings(),
    windowUpdate(1, 0),
  ]],
  ["frames too small to be allowed", StatusCode.INTERNAL, /MAX_FRAME_SIZE/, [
    settings([Setting.MAX_FRAME_SIZE, 100]),
  ]],
  ["a PING of a bad size", StatusCode.INTERNAL, /PING/, [
    settings(),
    encodeFrame(FrameType.PING, { payload: new Uint8Array(7) }),
  ]],
  ["a RST_STREAM without a code", StatusCode.INTERNAL, /without its code/, [
    settings(),
    encodeFrame(FrameType.RST_STREAM, { streamId: 1 }),
  ]],
  ["a push", StatusCode.INTERNAL, /PUSH_PROMISE/, [
    settings(),
    encodeFrame(FrameType.PUSH_PROMISE, { streamId: 1 }),
  ]],
  ["headers of another stream", StatusCode.INTERNAL, /stranger/, [
    settings(),
    encodeFrame(FrameType.HEADERS, { streamId: 3, flags: END }),
  ]],
  ["data before headers", StatusCode.INTERNAL, /before HEADERS/, [
    settings(),
    data(new Uint8Array(1)),
  ]],
  ["a continuation of nothing", StatusCode.INTERNAL, /interrupted/, [
    settings(),
    encodeFrame(FrameType.CONTINUATION, { streamId: 1 }),
  ]],
  ["a header block with a ping inside", StatusCode.INTERNAL, /interrupted/, [
    settings(),
    headers(HEADERS, 0),
    encodeFrame(FrameType.PING, { payload: new Uint8Array(8) }),
  ]],
  ["padding larger than its frame", StatusCode.INTERNAL, /padding/, [
    settings(),
    encodeFrame(FrameType.HEADERS, {
      streamId: 1,
      flags: END | Flag.PADDED,
      payload: Uint8Array.of(5, 0),
    }),
  ]],
  ["a broken header block", StatusCode.INTERNAL, /header block/, [
    settings(),
    encodeFrame(FrameType.HEADERS, {
      streamId: 1,
      flags: END,
      payload: Uint8Array.of(0x80),
    }),
  ]],
];

for (const [what, code, message, frames] of FAILURES) {
  Deno.test(`UnaryExchange fails upon ${what}`, () => {
    const error = failure(...frames);
    assert.equal(error.code, code);
    assert.match(error.message, message);
  });
}

Deno.test("UnaryExchange is not impressed by endless continuations", () => {
  const empty = encodeFrame(FrameType.CONTINUATION, { streamId: 1 });
  const flood = concatenate(Array.from({ length: 1000 }, () => empty));
  const call = exchange();
  call.receive(concatenate([settings(), headers(HEADERS, 0)]));
  assert.throws(() => {
    for (let i = 0; i < 1000; i++) call.receive(flood);
  }, /header too large/);
});

Deno.test("UnaryExchange refuses an answer without end", () => {
  const call = exchange();
  call.receive(concatenate([settings(), headers(HEADERS)]));
  const chunk = data(new Uint8Array(16384));
  assert.throws(
    () => {
      for (let i = 0; i < 1000; i++) call.receive(chunk);
    },
    (error) =>
      error instanceof GrpcError &&
      error.code === StatusCode.RESOURCE_EXHAUSTED,
  );
});

Deno.test("UnaryExchange does not wait for an answer that says it is too large", () => {
  const prefix = new Uint8Array(5);
  new DataView(prefix.buffer).setUint32(1, 4 * 1024 * 1024 + 1);
  for (const cut of [1, 4, 5]) {
    const error = failure(
      settings(),
      headers(HEADERS),
      data(prefix.subarray(0, cut)),
      data(prefix.subarray(cut)),
    );
    assert.equal(error.code, StatusCode.RESOURCE_EXHAUSTED);
  }
});

Deno.test("UnaryExchange finishes its stream after a graceful GOAWAY", () => {
  const call = exchange();
  const payload = concatenate([encodeUint32(0x7fffffff), encodeUint32(0)]);
  call.receive(concatenate([
    settings(),
    encodeFrame(FrameType.GOAWAY, { payload }),
    ...ANSWER.slice(1),
  ]));
  assert.equal(new TextDecoder().decode(call.response), "yes");
});

Deno.test("UnaryExchange answers or throws GrpcError, for any frames", () => {
  const anyFrame = fc.record({
    type: fc.integer({ min: 0, max: 10 }),
    flags: fc.integer({ min: 0, max: 255 }),
    streamId: fc.constantFrom(0, 1, 1, 3),
    payload: fc.uint8Array({ maxLength: 40 }),
  });
  fc.assert(fc.property(fc.array(anyFrame), (frames) => {
    const call = exchange();
    try {
      call.receive(settings());
      for (const { type, ...rest } of frames) {
        call.receive(encodeFrame(type, rest));
      }
    } catch (error) {
      assert.ok(error instanceof GrpcError, String(error));
    }
  }));
});
