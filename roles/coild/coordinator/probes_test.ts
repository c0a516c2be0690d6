import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { countedProbes } from "./probes.ts";

const LINK = { index: 2, mac: "02:00:00:00:00:01" };
const TIMES = { retries: 1, intervalMs: 1, timeoutMs: 1 };
const ADDRESS = Address.parse("10.6.0.100");
const ASKED = { gateway: Address.parse("10.6.0.1"), source: ADDRESS };

Deno.test("countedProbes() records how each probe ended, and hands on what it found", async () => {
  const ended: string[] = [];
  const startMs = performance.now();
  const answers = [true, false];
  const macs = ["02:00:00:00:00:02", undefined];
  const probes = countedProbes({
    findConflict: () => Promise.resolve(macs.pop()),
    answers: () => Promise.resolve(answers.pop() === true),
    announce: () => Promise.reject(new Error("link is down")),
  }, {
    probed(kind, result, elapsedMs) {
      assert.ok(elapsedMs >= 0 && elapsedMs <= performance.now() - startMs);
      ended.push(`${kind} ${result}`);
    },
  });
  const conflict = () => probes.findConflict(LINK, ADDRESS, TIMES);
  assert.equal(await conflict(), undefined);
  assert.equal(await conflict(), "02:00:00:00:00:02");
  assert.equal(await probes.answers(LINK, ASKED, TIMES), false);
  assert.equal(await probes.answers(LINK, ASKED, TIMES), true);
  await assert.rejects(probes.announce(LINK, ADDRESS, TIMES), /link is down/);
  assert.deepEqual(ended, [
    "conflict ok",
    "conflict failed",
    "gateway failed",
    "gateway ok",
    "announce error",
  ]);
});
