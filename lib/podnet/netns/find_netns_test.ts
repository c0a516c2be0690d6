import assert from "node:assert/strict";
import { LinuxError, openLibc } from "../../linux/mod.ts";
import { openIfHas } from "./find_netns.ts";

openLibc(); // stays open, so it must not be counted as the test's leak

Deno.test("openIfHas() finds nothing where there is no namespace, and says what else keeps it from looking", async () => {
  const wanted = { ifname: "eth0", addresses: {} };
  assert.equal(await openIfHas("/nonexistent/netns", wanted), undefined);
  // May only be written.
  const path = "/proc/sys/net/ipv4/route/flush";
  await assert.rejects(openIfHas(path, wanted), LinuxError);
});
