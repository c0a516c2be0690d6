import assert from "node:assert/strict";
import { figure } from "./figures.ts";
import { BenchRun } from "./run.ts";

Deno.test("BenchRun keeps and saves the figures of the parts around one that fails", async () => {
  const json = await Deno.makeTempFile();
  const run = new BenchRun({ json, log: () => {} });
  const one = (name: string) => () =>
    Promise.resolve([figure(name, "ms", [1])]);
  const names = () => run.figures.map(({ name }) => name);
  const saved = async () =>
    JSON.parse(await Deno.readTextFile(json)).map(
      ({ name }: { name: string }) => name,
    );
  await run.measure("first", one("a"));
  await run.measure("second", () => {
    throw new Error("no disk");
  });
  assert.deepEqual(await saved(), ["a"]);
  await run.measure("third", one("b"));
  assert.deepEqual(names(), ["a", "b"]);
  assert.deepEqual(await saved(), ["a", "b"]);
  assert.deepEqual(run.failures, ["Cannot measure second: no disk"]);
  await Deno.remove(json);
});
