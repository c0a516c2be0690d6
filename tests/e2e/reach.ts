// Whether pods reach each other.
import assert from "node:assert/strict";
import { hostPort } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { HTTP_PORT, type RunningPod, UDP_PORT } from "./pods.ts";

/** Asks a pod by TCP and UDP, at each of its addresses; nothing on the way may translate the source. */
export async function assertReaches(
  site: Installation,
  { from, to }: { readonly from: RunningPod; readonly to: RunningPod },
): Promise<void> {
  const families = site.plane.families.length;
  assert.equal(from.addresses.length, families);
  assert.equal(to.addresses.length, families);
  for (const [index, address] of to.addresses.entries()) {
    const wanted = `${to.name} ${from.addresses[index]}\n`;
    const http = `http://${hostPort(address, HTTP_PORT)}/`;
    // A new block is routed on the other nodes a moment after its first pod is Ready.
    const answer = await eventually(
      `an answer of ${http}`,
      () => site.pods.exec(from, "get", http),
    );
    assert.equal(answer, wanted);
    const udp = hostPort(address, UDP_PORT);
    assert.equal(await site.pods.exec(from, "udp", udp), wanted);
  }
}
