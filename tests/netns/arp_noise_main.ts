// Fills a link with ARP packets of others, 10,000 a second, until it is killed. What it could not send in time follows at once.
import { RawLink } from "../lab/raw_link.ts";
import { sleep } from "../../lib/async/mod.ts";

const PER_MS = 10;
const PAUSE_MS = 1;

const [path = "", index = ""] = Deno.args;
using link = new RawLink(path, Number(index));
const startMs = performance.now();
for (let sent = 0;;) {
  const due = (performance.now() - startMs) * PER_MS;
  for (; sent < due; sent++) link.send(request(sent));
  await sleep(PAUSE_MS);
}

/** Machine n asks for its neighbour: RFC 826. */
function request(n: number): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(42);
  const view = new DataView(frame.buffer);
  frame.fill(0xff, 0, 6);
  view.setUint16(6, 0x0202);
  view.setUint32(8, n);
  view.setUint16(12, 0x0806);
  view.setUint32(14, 0x00010800);
  view.setUint32(18, 0x06040001);
  frame.set(frame.subarray(6, 12), 22);
  view.setUint32(28, 0x0a070000 | (n & 0xffff));
  view.setUint32(38, 0x0a070000 | ((n + 1) & 0xffff));
  return frame;
}
