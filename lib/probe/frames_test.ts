import assert from "node:assert/strict";
import fc from "fast-check";
import { Address } from "../inet/mod.ts";
import { arpRequest, parseArp } from "./arp.ts";
import { parseNdp, solicitation, unsolicitedAdvertisement } from "./ndp.ts";

const MAC = "0a:1b:0a:06:00:8c";
const IPV4 = Address.parse("10.6.0.140");
const GATEWAY = Address.parse("10.6.0.1");
const IPV6 = Address.parse("fd00:10:6::abcd:ef01");
const ROUTER = Address.parse("fe80::1");

function hex(bytes: Uint8Array): string {
  return bytes.toHex();
}

Deno.test("arpRequest() asks without telling the address, with a sender, and announces", () => {
  const head = "ffffffffffff0a1b0a06008c0806" + "00010800060400010a1b0a06008c";
  const target = { mac: MAC, target: IPV4 };
  assert.equal(
    hex(arpRequest(target)),
    head + "00000000" + "ffffffffffff" + "0a06008c",
  );
  assert.equal(
    hex(arpRequest({ mac: MAC, sender: IPV4, target: GATEWAY })),
    head + "0a06008c" + "ffffffffffff" + "0a060001",
  );
  assert.equal(
    hex(arpRequest({ ...target, sender: IPV4 })),
    head + "0a06008c" + "ffffffffffff" + "0a06008c",
  );
});

Deno.test("solicitation() asks the address's group, from nowhere or with the own MAC address", () => {
  const group = "ff0200000000000000000001ffcdef01";
  const address = "fd0000100006000000000000abcdef01";
  assert.equal(
    hex(solicitation({ mac: MAC, target: IPV6 })),
    "3333ffcdef01" + "0a1b0a06008c" + "86dd" + "6000000000183aff" +
      "0".repeat(32) + group + "8700f2f200000000" + address,
  );
  const asked = hex(
    solicitation({ mac: MAC, source: IPV6, target: ROUTER }),
  );
  assert.ok(asked.startsWith("3333ff0000010a1b0a06008c86dd6000000000203aff"));
  assert.ok(
    asked.endsWith(
      "fe800000000000000000000000000001" + "0101" + "0a1b0a06008c",
    ),
  );
});

Deno.test("unsolicitedAdvertisement() has all nodes take the new MAC address", () => {
  const found = hex(unsolicitedAdvertisement({ mac: MAC, address: IPV6 }));
  assert.ok(found.startsWith("3333000000010a1b0a06008c86dd6000000000203aff"));
  assert.match(found, /8800[0-9a-f]{4}20000000fd00/);
  assert.ok(found.endsWith("02010a1b0a06008c"));
});

Deno.test("parseArp() and parseNdp() read what was written", () => {
  const arp = parseArp(arpRequest({ mac: MAC, sender: IPV4, target: GATEWAY }));
  assert.deepEqual(
    [arp?.senderMac, `${arp?.sender}`, `${arp?.target}`],
    [MAC, "10.6.0.140", "10.6.0.1"],
  );
  const asked = parseNdp(solicitation({ mac: MAC, target: IPV6 }));
  assert.deepEqual(
    [asked?.kind, asked?.mac, `${asked?.source}`, `${asked?.target}`],
    ["solicitation", MAC, "::", `${IPV6}`],
  );
  const found = parseNdp(unsolicitedAdvertisement({ mac: MAC, address: IPV6 }));
  assert.deepEqual([found?.kind, `${found?.target}`], [
    "advertisement",
    `${IPV6}`,
  ]);
});

Deno.test("parseArp() and parseNdp() take nothing else, and read where the frame begins", () => {
  const arp = arpRequest({ mac: MAC, sender: IPV4, target: GATEWAY });
  const ndp = solicitation({ mac: MAC, target: IPV6 });
  const cases = [
    // Ethernet's type; ARP's types, lengths.
    { parse: parseArp, frame: arp, matters: [12, 13, 14, 15, 16, 17, 18, 19] },
    // Ethernet's type; the protocol, the hop limit; the message's type.
    { parse: parseNdp, frame: ndp, matters: [12, 13, 20, 21, 54] },
  ];
  for (const { parse, frame, matters } of cases) {
    for (const at of matters) {
      const other = frame.slice();
      other[at] = (other[at] ?? 0) + 100;
      assert.equal(parse(other), undefined, `byte ${at}`);
    }
    assert.equal(parse(frame.subarray(0, -1)), undefined);
    const within = new Uint8Array(frame.length + 9);
    within.set(frame, 5);
    const read = parse(within.subarray(5, 5 + frame.length));
    assert.deepEqual(read, parse(frame));
    assert.ok(read);
  }
});

Deno.test("parseNdp() reads an advertisement without options, and with more than one", () => {
  const frame = unsolicitedAdvertisement({ mac: MAC, address: IPV6 });
  const [options, expected] = [8, parseNdp(frame)];
  assert.equal(expected?.mac, MAC);
  assert.deepEqual(parseNdp(frame.subarray(0, -options)), expected);
  const twice = new Uint8Array(frame.length + options);
  twice.set(frame);
  twice.set(frame.subarray(-options), frame.length);
  // Of the frame, not of an option that says something else.
  twice[frame.length - 1] = 0xff;
  assert.deepEqual(parseNdp(twice), expected);
});

Deno.test("parseNdp() takes nothing that came from another network", () => {
  const frame = solicitation({ mac: MAC, target: IPV6 });
  frame[14 + 7] = 254;
  assert.equal(parseNdp(frame), undefined);
});

Deno.test("parseArp() and parseNdp() read any bytes, or none", () => {
  const frames = [
    arpRequest({ mac: MAC, target: IPV4 }),
    solicitation({ mac: MAC, target: IPV6 }),
  ];
  const broken = fc.tuple(
    fc.constantFrom(...frames),
    fc.nat(90),
    fc.array(fc.tuple(fc.nat(80), fc.nat(255)), { maxLength: 4 }),
  );
  fc.assert(
    fc.property(fc.oneof(broken, fc.uint8Array({ maxLength: 100 })), (made) => {
      let bytes: Uint8Array;
      if (made instanceof Uint8Array) bytes = made;
      else {
        const [frame, length, changes] = made;
        bytes = frame.slice(0, length);
        for (const [at, byte] of changes) {
          if (at < bytes.length) bytes[at] = byte;
        }
      }
      for (const parse of [parseArp, parseNdp]) {
        const read = parse(bytes);
        assert.ok(read === undefined || bytes.length >= 42);
      }
    }),
    { numRuns: 2000 },
  );
});
