import assert from "node:assert/strict";
import { embedIpv4 } from "./embed.ts";
import { Prefix } from "./prefix.ts";

const embed = (network: string, ipv4: string) =>
  String(embedIpv4(Prefix.parse(network), Prefix.parse(ipv4)));

Deno.test("embedIpv4() ends an IPv6 network with an IPv4 one", () => {
  assert.equal(embed("fd00::/80", "10.0.1.16/28"), "fd00::a00:110/124");
  assert.equal(embed("fd00:0:0:1::/96", "0.0.0.0/0"), "fd00:0:0:1::/96");
  assert.equal(
    embed("2001:db8::/32", "255.255.255.255/32"),
    "2001:db8::ffff:ffff/128",
  );
});

Deno.test("embedIpv4() refuses what does not fit", () => {
  for (
    const [network = "", ipv4 = ""] of [
      ["fd00::/97", "10.0.1.16/28"],
      ["10.0.0.0/8", "10.0.1.16/28"],
      ["fd00::/80", "fd00::1/128"],
    ]
  ) {
    assert.throws(() => embed(network, ipv4), RangeError, network);
  }
});
