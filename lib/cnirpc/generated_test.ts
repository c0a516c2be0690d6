import assert from "node:assert/strict";
import { staleFiles } from "../../proto/generate.ts";

async function hasProtoc(): Promise<boolean> {
  try {
    return (await new Deno.Command("protoc", { args: ["--version"] }).output())
      .success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

Deno.test({
  name: "lib/*/gen is what proto/*.proto give (needs protoc)",
  ignore: !await hasProtoc(),
  fn: async () => assert.deepEqual(await staleFiles(), []),
});
