import assert from "node:assert/strict";
import { NetlinkError, parseAcknowledgement, parseDone } from "./errors.ts";
import { type Message, Payload } from "./message_reader.ts";
import { MessageWriter } from "./message_writer.ts";

const CAPPED = 0x100;
const TLVS = 0x200;

function message(
  type: number,
  flags: number,
  body: (writer: MessageWriter) => void,
): Message {
  const writer = new MessageWriter();
  body(writer);
  const payload = new Payload(writer.bytes());
  return { type, flags, sequence: 1, portId: 1, payload };
}

/** The header of the request that an acknowledgement repeats. */
function writeHeader(writer: MessageWriter, length: number): void {
  writer.u32(length);
  for (let i = 0; i < 3; i++) writer.u32(0);
}

Deno.test("parseAcknowledgement() reads every form the kernel sends", () => {
  const cases: [string, number, (writer: MessageWriter) => void, unknown][] = [
    ["done", CAPPED, (writer) => {
      writer.u32(0);
      writeHeader(writer, 32);
    }, { errno: 0 }],
    ["refused", CAPPED, (writer) => {
      writer.u32(-17 >>> 0);
      writeHeader(writer, 32);
    }, { errno: 17 }],
    ["refused with words", CAPPED | TLVS, (writer) => {
      writer.u32(-22 >>> 0);
      writeHeader(writer, 32);
      writer.attributeString(1, "Invalid prefix");
      writer.attributeU32(2, 28);
    }, { errno: 22, extack: "Invalid prefix", offset: 28 }],
    ["refused with words after the whole request", TLVS, (writer) => {
      writer.u32(-22 >>> 0);
      writeHeader(writer, 21);
      for (let i = 0; i < 8; i++) writer.u8(0xff);
      writer.attributeString(1, "no");
    }, { errno: 22, extack: "no", offset: undefined }],
  ];
  for (const [name, flags, body, expected] of cases) {
    assert.deepEqual(
      parseAcknowledgement(message(2, flags, body)),
      expected,
      name,
    );
  }
});

Deno.test("parseAcknowledgement() refuses one that is cut", () => {
  assert.throws(
    () => parseAcknowledgement(message(2, CAPPED, (writer) => writer.u32(0))),
    SyntaxError,
  );
  assert.throws(
    () =>
      parseAcknowledgement(message(2, TLVS, (writer) => {
        writer.u32(0);
        writeHeader(writer, 4000);
      })),
    SyntaxError,
  );
});

Deno.test("parseDone() reads how a dump ended", () => {
  const end = (body: (writer: MessageWriter) => void, flags = 0) =>
    parseDone(message(3, flags, body));
  assert.deepEqual(end(() => {}), { errno: 0 });
  assert.deepEqual(end((writer) => writer.u32(0)), { errno: 0 });
  assert.deepEqual(end((writer) => writer.u32(-2 >>> 0)), { errno: 2 });
  assert.deepEqual(
    end((writer) => {
      writer.u32(-22 >>> 0);
      writer.attributeString(1, "bad filter");
    }, TLVS),
    { errno: 22, extack: "bad filter", offset: undefined },
  );
});

Deno.test("NetlinkError names the request, the errno and the kernel's words", () => {
  const op = 'add route "10.1.2.3/32" to table 116';
  assert.equal(
    new NetlinkError(op, { errno: 17 }).message,
    'Cannot add route "10.1.2.3/32" to table 116: kernel returned EEXIST',
  );
  const error = new NetlinkError(op, {
    errno: 22,
    extack: "Invalid scope",
    offset: 28,
    index: 3,
  });
  assert.equal(
    error.message,
    'Cannot add route "10.1.2.3/32" to table 116: kernel returned EINVAL (Invalid scope)',
  );
  const { code, errno, extack, offset, index } = error;
  assert.deepEqual({ code, errno, extack, offset, index, op: error.op }, {
    code: "EINVAL",
    errno: 22,
    extack: "Invalid scope",
    offset: 28,
    index: 3,
    op,
  });
});
