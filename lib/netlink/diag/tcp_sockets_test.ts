import assert from "node:assert/strict";
import { ERRNO } from "../../linux/mod.ts";
import { NetlinkError } from "../message/errors.ts";
import {
  acknowledge,
  type Answer,
  AnsweringTransport,
  DONE,
} from "../testing.ts";
import { TcpSockets } from "./tcp_sockets.ts";

const LIST = 18;
const DESTROY = 21;
const AF_INET = 2;
const { ENOENT, EOPNOTSUPP, EPERM } = ERRNO;

/** struct inet_diag_msg of a connection from 10.0.0.1 port 40000 to 192.0.2.1 port 80, with this cookie. */
function connection(cookie: number): Answer {
  const payload = new DataView(new ArrayBuffer(72));
  payload.setUint8(0, AF_INET);
  payload.setUint16(4, 40_000);
  payload.setUint16(6, 80);
  payload.setUint32(8, 0x0a00_0001);
  payload.setUint32(24, 0xc000_0201);
  payload.setUint32(44, cookie, true);
  return { type: LIST, payload: new Uint8Array(payload.buffer) };
}

/** A kernel with two connections that answers with these errors, the second request to end one with the last. */
function kernel(
  { listing = 0, ending = [0, 0] }: {
    readonly listing?: number;
    readonly ending?: readonly [number, number];
  },
) {
  let ended = 0;
  return new AnsweringTransport((request) => {
    if (request.type === DESTROY) {
      return [acknowledge(request, ending[ended++])];
    }
    if (listing !== 0) return [acknowledge(request, listing)];
    assert.equal(request.type, LIST);
    return [connection(1), connection(2), DONE];
  });
}

Deno.test("list() has connections with their ends, and destroy() ends them by their cookies", async () => {
  const transport = kernel({});
  using sockets = TcpSockets.over(transport);
  const listed = await sockets.list();
  const texts = (listed ?? []).map((each) => {
    const { source, sourcePort, destination, destinationPort } = each;
    return `${source} ${sourcePort} ${destination} ${destinationPort}`;
  });
  const text = "10.0.0.1 40000 192.0.2.1 80";
  assert.deepEqual(texts, [text, text]);
  assert.equal(await sockets.destroy(listed?.slice(1) ?? []), 1);
  const [request] = transport.requests.filter(({ type }) => type === DESTROY);
  assert.equal(request?.payload.u32(48), 2);
});

Deno.test("destroy() does not mind what has gone, and list() and destroy() say when the kernel cannot", async () => {
  const end = async (errors: Parameters<typeof kernel>[0]) => {
    using sockets = TcpSockets.over(kernel(errors));
    const listed = await sockets.list();
    return listed && await sockets.destroy(listed);
  };
  assert.equal(await end({ ending: [ENOENT, 0] }), 1);
  assert.equal(await end({ ending: [EOPNOTSUPP, EOPNOTSUPP] }), undefined);
  assert.equal(await end({ listing: ENOENT }), undefined);
  assert.equal(await end({ listing: EOPNOTSUPP }), undefined);
  await assert.rejects(end({ ending: [0, EPERM] }), NetlinkError);
  await assert.rejects(end({ listing: EPERM }), NetlinkError);
});
