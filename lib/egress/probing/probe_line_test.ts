import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import type { Bytes } from "../../linux/mod.ts";
import { ProbeLine } from "./probe_line.ts";
import { PROBE_PAYLOAD_AT, ProbedGateways } from "./testing.ts";

const GATEWAY = Address.parse("10.1.2.2");
const KEY = GATEWAY.toString();

Deno.test("ProbeLine takes an answer to each probe once, in their order, and no forged one", () => {
  const network = new ProbedGateways();
  using line = new ProbeLine(GATEWAY, 5555, (peer) => network.socket(peer));
  const answers = [1, 2, 3].map(() => {
    line.send();
    return network.sent.get(KEY)?.slice(PROBE_PAYLOAD_AT) ?? new Uint8Array();
  });
  const [first, second, third] = answers;
  assert.ok(first && second && third);
  const forged = third.slice().fill(7, 0, 1);
  const future = third.with(-1, 4);
  const long = new Uint8Array([...third, 0]);
  const came = (answer: Uint8Array<ArrayBuffer>) => {
    network.waiting.get(KEY)?.push(answer);
    return line.takeAnswers();
  };
  assert.equal(line.takeAnswers(), false);
  assert.equal(came(second), true);
  for (const bad of [first, second, forged, future, long]) {
    assert.equal(came(bad), false);
  }
  assert.equal(came(third), true);
});

Deno.test("ProbeLine finds its answer behind refusals, and does not read them without end", () => {
  const network = new ProbedGateways();
  network.alive.add(KEY);
  using line = new ProbeLine(GATEWAY, 5555, (peer) => network.socket(peer));
  line.send();
  // As a forged ICMP error, or one of the gateway before this.
  network.refusals.set(KEY, 9);
  assert.equal(line.takeAnswers(), true);
  network.refusals.set(KEY, 1_000);
  assert.equal(line.takeAnswers(), false);
  assert.ok((network.refusals.get(KEY) ?? 0) > 900);
});

Deno.test("ProbeLine sends its probe in spite of a refusal of an earlier one", () => {
  const network = new ProbedGateways();
  network.alive.add(KEY);
  using line = new ProbeLine(GATEWAY, 5555, (peer) => network.socket(peer));
  line.send();
  assert.equal(line.takeAnswers(), true);
  network.refusals.set(KEY, 1);
  line.send();
  assert.equal(line.takeAnswers(), true);
});

Deno.test("ProbeLine has the kernel keep what does not begin as its probes do", () => {
  const network = new ProbedGateways();
  const prefixes: Bytes[] = [];
  using line = new ProbeLine(GATEWAY, 5555, (peer, { prefix }) => {
    prefixes.push(prefix);
    return network.socket(peer);
  });
  line.send();
  const secret = network.sent.get(KEY)?.slice(PROBE_PAYLOAD_AT, -4);
  assert.deepEqual(prefixes, [secret]);
});
