// Whether pods reach each other.
import assert from "node:assert/strict";
import { hostPort } from "../../lib/inet/mod.ts";
import { eventually } from "../lab/mod.ts";
import type { Installation } from "./installation.ts";
import { HTTP_PORT, type RunningPod, UDP_PORT } from "./pods.ts";

/** The answer of a URL to a pod. A pod is Ready before its program listens, and what leads to it may come a moment later: routes, rules of kube-proxy. */
export async function answerOf(
  { pods }: Installation,
  url: string,
  { from }: { readonly from: RunningPod },
): Promise<string> {
  return await eventually(
    `an answer of ${url}`,
    () => pods.exec(from, "get", url),
  );
}

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
    assert.equal(await answerOf(site, http, { from }), wanted);
    const udp = hostPort(address, UDP_PORT);
    const answer = await eventually(
      `an answer of ${udp}`,
      () => site.pods.exec(from, "udp", udp),
    );
    assert.equal(answer, wanted);
  }
}
