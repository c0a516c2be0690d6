import assert from "node:assert/strict";
import fc from "fast-check";
import { parseAddress } from "../route/address.ts";
import { parseAcknowledgement, parseDone } from "./errors.ts";
import { parseLink } from "../link/link.ts";
import {
  Attributes,
  type Message,
  parseMessages,
  Payload,
} from "./message_reader.ts";
import { MessageWriter } from "./message_writer.ts";
import { parseNeighbour } from "../route/neighbour.ts";
import { parseRoute } from "../route/route.ts";
import { parseRule } from "../route/rule.ts";
import { hex, unhex } from "../testing.ts";
import { textTrace } from "../connection/trace.ts";
import {
  GENERIC_NAMES,
  NETFILTER_NAMES,
  type TypeNames,
} from "../connection/trace_names.ts";

/** Writes attributes only, without a message around them. */
function attributes(body: (writer: MessageWriter) => void): Uint8Array {
  const writer = new MessageWriter();
  body(writer);
  return writer.bytes();
}

Deno.test("MessageWriter writes what the kernel's headers prescribe", () => {
  const writer = new MessageWriter(16);
  writer.message({ type: 16, flags: 0x605, sequence: 7 }, () => {
    writer.u8(10);
    writer.u8(1);
    writer.u16(0x0203);
    writer.u32(0x04050607);
    writer.attributeU8(1, 0xff);
    writer.attributeU32(2, 0x01020304);
    writer.attributeString(3, "eth0");
    writer.attributeString(4, "abc", { nul: false });
    writer.attributeBytes(5, Uint8Array.of(9, 8, 7, 6, 5));
    writer.nest(6, () => writer.attributeU8(1, 2));
  });
  const expected = [
    "54 00 00 00 10 00 05 06 07 00 00 00 00 00 00 00", // header
    "0a 01 03 02 07 06 05 04", // fixed part
    "05 00 01 00 ff 00 00 00",
    "08 00 02 00 04 03 02 01",
    "09 00 03 00 65 74 68 30 00 00 00 00",
    "07 00 04 00 61 62 63 00",
    "09 00 05 00 09 08 07 06 05 00 00 00",
    "0c 00 06 80 05 00 01 00 02 00 00 00",
  ].join(" ");
  assert.equal(hex(writer.bytes()), expected);
});

Deno.test("MessageWriter writes network byte order where it is told, and flags", () => {
  const bytes = attributes((writer) => {
    writer.u16Be(0x0102);
    writer.u16(0);
    writer.attributeU16(1, 0x0102);
    writer.attributeU16Be(2, 0x0102);
    writer.attributeU32Be(3, 0x01020304);
    writer.attributeBytes(4, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    writer.attributeFlag(5);
  });
  assert.equal(
    hex(bytes),
    [
      "01 02 00 00",
      "06 00 01 00 02 01 00 00",
      "06 00 02 00 01 02 00 00",
      "08 00 03 00 01 02 03 04",
      "0c 00 04 00 01 02 03 04 05 06 07 08",
      "04 00 05 00",
    ].join(" "),
  );
  const read = new Payload(bytes).attributes(4);
  assert.equal(new Payload(bytes).u16Be(0), 0x0102);
  assert.equal(read.u16(1), 0x0102);
  assert.equal(read.u16Be(2), 0x0102);
  assert.equal(read.u32Be(3), 0x01020304);
  assert.equal(read.u64Be(4), 0x0102030405060708n);
  assert.deepEqual([read.flag(5), read.flag(6)], [true, false]);
  assert.throws(() => read.u16Be(3), SyntaxError);
  assert.throws(() => read.u32Be(2), SyntaxError);
  assert.throws(() => read.u64Be(3), SyntaxError);
  const number = new Payload(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  assert.equal(number.u64(0), 0x0807060504030201n);
  assert.equal(number.u64Be(0), 0x0102030405060708n);
  assert.equal(number.u32Be(4), 0x05060708);
  assert.throws(() => number.u64(1), SyntaxError);
});

Deno.test("Attributes.list() gives all of one type in order, where others give the last", () => {
  const bytes = attributes((writer) => {
    for (const value of [7, 8, 9]) {
      writer.attributeU8(1, value);
      writer.attributeU8(2, 0);
    }
  });
  const read = new Attributes(bytes);
  assert.deepEqual(read.list(1).map((value) => value[0]), [7, 8, 9]);
  assert.deepEqual(read.list(3), []);
  assert.equal(read.u8(1), 9);
});

Deno.test("a trace calls messages by the names of their protocol", () => {
  const writer = new MessageWriter();
  for (const type of [16, 0x101]) {
    writer.message({ type, flags: 1, sequence: 1 }, () => {});
  }
  const shown = (names?: TypeNames) => {
    const lines: string[] = [];
    textTrace((line) => lines.push(line), names).sent(writer.bytes(), []);
    return lines.map((line) => /seq 1 (.*) flags/.exec(line)?.[1]);
  };
  assert.deepEqual(shown(), ["RTM_NEWLINK", "type 257"]);
  assert.deepEqual(shown(GENERIC_NAMES), ["GENL_ID_CTRL", "type 257"]);
  assert.deepEqual(shown(NETFILTER_NAMES), [
    "NFNL_MSG_BATCH_BEGIN",
    "IPCTNL_MSG_CT_GET",
  ]);
});

Deno.test("MessageWriter aligns the messages of a batch and starts over after reset()", () => {
  const writer = new MessageWriter();
  const odd = () => writer.u8(1);
  writer.message({ type: 1, flags: 0, sequence: 1 }, odd);
  writer.message({ type: 2, flags: 0, sequence: 2 }, odd);
  assert.equal(writer.length, 40);
  assert.deepEqual(
    Array.from(parseMessages(writer.bytes()), ({ type, sequence, payload }) => [
      type,
      sequence,
      payload.bytes.byteLength,
    ]),
    [[1, 1, 1], [2, 2, 1]],
  );
  writer.reset();
  assert.equal(writer.bytes().byteLength, 0);
});

Deno.test("MessageWriter writes the same with any size at its start", () => {
  const write = (capacity: number) => {
    const writer = new MessageWriter(capacity);
    for (let sequence = 1; sequence <= 3; sequence++) {
      writer.message({ type: 1, flags: 2, sequence }, () => {
        writer.u8(1);
        writer.u16(2);
        writer.u32(3);
        writer.attributeU8(4, 5);
        writer.attributeU32(6, 7);
        writer.attributeBytes(8, Uint8Array.of(9, 10, 11));
        writer.nest(12, () => writer.attributeString(13, "fourteen"));
      });
    }
    return hex(writer.bytes());
  };
  const expected = write(4096);
  for (let capacity = 1; capacity < 100; capacity++) {
    assert.equal(write(capacity), expected, String(capacity));
  }
});

Deno.test("MessageWriter drops a message whose body throws", () => {
  const writer = new MessageWriter();
  writer.message({ type: 1, flags: 0, sequence: 1 }, () => writer.u32(1));
  assert.throws(() =>
    writer.message({ type: 2, flags: 0, sequence: 2 }, () => {
      writer.u32(2);
      throw new Error("boom");
    }), /boom/);
  assert.equal([...parseMessages(writer.bytes())].length, 1);
});

Deno.test("MessageWriter refuses an attribute longer than its length can say", () => {
  attributes((writer) => writer.attributeBytes(1, new Uint8Array(0xffff - 4)));
  assert.throws(
    () =>
      attributes((writer) =>
        writer.attributeBytes(1, new Uint8Array(0xffff - 3))
      ),
    RangeError,
  );
});

Deno.test("MessageWriter refuses text with a NUL in it", () => {
  const writer = new MessageWriter();
  assert.throws(
    () => writer.attributeString(3, "eth0\0x"),
    /^SyntaxError: Cannot write netlink attribute 3: "eth0\\u0000x" has a NUL in it$/,
  );
  assert.equal(writer.length, 0);
});

Deno.test("Attributes reads back all that MessageWriter wrote", () => {
  const text = fc.string({ unit: "grapheme" }).filter((value) =>
    !value.includes("\0")
  );
  fc.assert(fc.property(
    fc.uint8Array({ maxLength: 300 }),
    fc.nat(0xff),
    fc.nat(0xffffffff),
    text,
    (bytes, u8, u32, string) => {
      const read = new Attributes(attributes((writer) => {
        writer.attributeBytes(1, bytes);
        writer.attributeU8(2, u8);
        writer.attributeU32(3, u32);
        writer.nest(4, () => {
          writer.attributeString(5, string);
          writer.nest(
            6,
            () => writer.attributeString(7, string, { nul: false }),
          );
        });
      }));
      assert.deepEqual(read.types(), [1, 2, 3, 4]);
      assert.deepEqual(new Uint8Array(read.bytes(1) ?? []), bytes);
      assert.equal(read.u8(2), u8);
      assert.equal(read.u32(3), u32);
      assert.equal(read.i32(3), u32 | 0);
      assert.equal(read.nested(4)?.string(5), string);
      assert.equal(read.nested(4)?.nested(6)?.string(7), string);
      assert.equal(read.bytes(8), undefined);
      assert.equal(read.u32(8), undefined);
      assert.equal(read.nested(8), undefined);
    },
  ));
});

Deno.test("Attributes takes the last of several with one type, and masks the flags of a type", () => {
  const read = new Attributes(
    unhex("05 00 01 00 07 00 00 00  05 00 01 c0 08 00 00 00"),
  );
  assert.equal(read.u8(1), 8);
});

Deno.test("Attributes refuses what is malformed", () => {
  const cases: [string, string][] = [
    ["shorter than its header", "03 00 01 00"],
    ["without a length", "00 00 00 00 00 00 00 00"],
    ["longer than the bytes", "09 00 01 00 01 02 03 04"],
    ["second one cut", "04 00 01 00 08 00 02 00"],
  ];
  for (const [name, bytes] of cases) {
    assert.throws(() => new Attributes(unhex(bytes)), SyntaxError, name);
  }
  // Fewer bytes than a header are padding (nla_ok() in net/netlink.h).
  assert.deepEqual(new Attributes(unhex("04 00 01 00 00 00 00")).types(), [1]);
  const wrongSize = new Attributes(unhex("06 00 01 00 01 02 00 00"));
  assert.throws(() => wrongSize.u8(1), SyntaxError);
  assert.throws(() => wrongSize.u32(1), SyntaxError);
  assert.deepEqual(wrongSize.bytes(1), Uint8Array.of(1, 2));
});

Deno.test("parseMessages() refuses what is not whole messages", () => {
  const cases = [
    "10 00 00 00", // shorter than a header
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", // no length: would never end
    "0f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    "11 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", // one byte too few
    "ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00",
  ];
  for (const bytes of cases) {
    assert.throws(() => [...parseMessages(unhex(bytes))], SyntaxError, bytes);
  }
});

const PARSERS: readonly [string, (message: Message) => unknown][] = [
  ["parseLink", parseLink],
  ["parseAddress", parseAddress],
  ["parseRoute", parseRoute],
  ["parseRule", parseRule],
  ["parseNeighbour", parseNeighbour],
  ["parseAcknowledgement", parseAcknowledgement],
  ["parseDone", parseDone],
];

/** A fixed part with a plausible family, then attributes with arbitrary lengths and contents. */
const hostilePayload = fc.tuple(
  fc.constantFrom(0, 2, 10, 7),
  fc.uint8Array({ minLength: 7, maxLength: 15 }),
  fc.array(
    fc.tuple(
      fc.option(fc.nat(0xffff), { nil: undefined, freq: 3 }),
      fc.nat(40),
      fc.uint8Array({ maxLength: 20 }),
    ),
    { maxLength: 6 },
  ),
).map(([family, fixed, list]) =>
  attributes((writer) => {
    writer.u8(family);
    for (const byte of fixed) writer.u8(byte);
    for (const [length, type, value] of list) {
      writer.u16(length ?? value.byteLength + 4);
      writer.u16(type);
      for (const byte of value) writer.u8(byte);
      while (writer.length % 4 !== 0) writer.u8(0);
    }
  })
);

for (const [name, parse] of PARSERS) {
  Deno.test(`${name}() either reads hostile bytes or throws a SyntaxError`, () => {
    const payloads = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      hostilePayload,
    );
    fc.assert(
      fc.property(payloads, fc.nat(0xffff), (payload, flags) => {
        const bytes = attributes((writer) =>
          writer.message({ type: 16, flags, sequence: 1 }, () => {
            for (const byte of payload) writer.u8(byte);
          })
        );
        try {
          for (const message of parseMessages(bytes)) parse(message);
        } catch (error) {
          assert(error instanceof SyntaxError, String(error));
        }
      }),
      { numRuns: 500 },
    );
  });
}

Deno.test("parseMessages() ends on any bytes", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
    try {
      assert([...parseMessages(bytes)].length <= bytes.byteLength / 16);
    } catch (error) {
      assert(error instanceof SyntaxError, String(error));
    }
  }));
});
