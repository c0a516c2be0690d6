import assert from "node:assert/strict";
import { Address } from "../inet/mod.ts";
import { udpPacket } from "./udp.ts";

const hex = (bytes: Uint8Array) => bytes.toHex().replaceAll(/.{8}/g, "$& ");

// The sums were worked out apart from this code.
Deno.test("udpPacket() has the checksums of headers and datagram", () => {
  const payload = new TextEncoder().encode("ping");
  const packet = (from: string, to: string) =>
    hex(udpPacket({
      from: { address: Address.parse(from), port: 5555 },
      to: { address: Address.parse(to), port: 40_000 },
      payload,
    })).trim();
  assert.equal(
    packet("192.0.0.8", "10.1.3.2"),
    "45000020 00000000 4011adc2 c0000008 0a010302 15b39c40 000ca206 70696e67",
  );
  assert.equal(
    packet("100::1", "fd01:3::2"),
    "60000000 000c1140 01000000 00000000 00000000 00000001 fd010003 00000000 00000000 00000002 15b39c40 000c710a 70696e67",
  );
});
