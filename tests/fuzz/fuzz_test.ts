// Readers of what others send, with inputs that are made of a corpus and kept when they reach new code.
// Each target gets ten seconds, or COIL_FUZZ_SECONDS; COIL_FUZZ_KEEP=DIR gets the inputs that reached something new.
import assert from "node:assert/strict";
import { seedOfRun } from "../faults/random.ts";
import { say } from "../runner/output.ts";
import { Coverage } from "./coverage.ts";
import { fuzz, type Target } from "./fuzzer.ts";
import { AWS_TARGETS } from "./targets_aws.ts";
import { CALL_TARGETS } from "./targets_calls.ts";
import { NETLINK_TARGETS } from "./targets_netlink.ts";

const CORPUS = new URL("corpus/", import.meta.url);
const SECONDS = Number(Deno.env.get("COIL_FUZZ_SECONDS") ?? 10);
const KEEP = Deno.env.get("COIL_FUZZ_KEEP");

const seed = await seedOfRun();

async function corpusOf({ name }: Target): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(`${name}.txt`, CORPUS));
  return text.split("\n").filter((line) => line !== "");
}

for (
  const target of [...NETLINK_TARGETS, ...CALL_TARGETS, ...AWS_TARGETS]
) {
  Deno.test(`fuzz ${target.name}: it reads any input or refuses it in its own words`, async () => {
    const corpus = await corpusOf(target);
    assert.ok(corpus.length > 0, `there is no corpus for ${target.name}`);
    using coverage = await Coverage.start();
    const endMs = performance.now() + SECONDS * 1000;
    const { tried, kept } = await fuzz(target, corpus, {
      seed,
      coverage,
      isOver: () => performance.now() > endMs,
    });
    assert.ok(tried > corpus.length);
    assert.ok(coverage.size > 0, "nothing of ours was reached");
    say(
      `${tried} inputs from seed ${seed}, ${coverage.size} blocks of code, ${kept.length} inputs kept`,
    );
    if (KEEP === undefined) return;
    await Deno.mkdir(KEEP, { recursive: true });
    await Deno.writeTextFile(`${KEEP}/${target.name}.txt`, kept.join("\n"));
  });
}
