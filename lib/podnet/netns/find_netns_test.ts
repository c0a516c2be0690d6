import assert from "node:assert/strict";
import { LinuxError, openLibc } from "../../linux/mod.ts";
import { openIfHas } from "./find_netns.ts";

openLibc(); // stays open, so it must not be counted as the test's leak

Deno.test("openIfHas() finds nothing where there is no namespace, and says what else keeps it from looking", async () => {
  const wanted = { ifname: "eth0", addresses: {} };
  assert.equal(await openIfHas("/nonexistent/netns", wanted), undefined);
  const tooLong = `/${"x".repeat(300)}`;
  await assert.rejects(openIfHas(tooLong, wanted), LinuxError);
});
