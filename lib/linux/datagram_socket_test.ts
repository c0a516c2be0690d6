import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { Address } from "../inet/mod.ts";
import { openDatagramSocket } from "./datagram_socket.ts";
import { errnoName, LinuxError } from "./errno.ts";
import { openLibc } from "./libc.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

const encoder = new TextEncoder();

/** Datagrams that wait in the socket, as text. */
function received(
  socket: ReturnType<typeof openDatagramSocket>,
): string | undefined {
  const buffer = new Uint8Array(100);
  const length = socket.receiveNow(buffer);
  return length === undefined
    ? undefined
    : new TextDecoder().decode(buffer.subarray(0, length));
}

/** A socket of another program, bound to a port that the kernel chooses. */
async function bound(hostname: string) {
  const socket = createSocket(hostname.includes(":") ? "udp6" : "udp4");
  socket.bind(0, hostname);
  await once(socket, "listening");
  return socket;
}

for (const hostname of ["127.0.0.1", "::1"]) {
  Deno.test(`DatagramSocket at ${hostname} exchanges datagrams with its peer and nobody else`, async () => {
    const peer = await bound(hostname);
    const stranger = await bound(hostname);
    const address = Address.parse(hostname);
    const { port } = peer.address();
    using socket = openDatagramSocket({ address, port });
    try {
      assert.equal(received(socket), undefined);
      const coming = once(peer, "message");
      socket.sendNow(encoder.encode("question"));
      const [question, from] = await coming;
      assert.equal(String(question), "question");
      const { local } = socket;
      assert.deepEqual([from.address, from.port], [
        local.address.toString(),
        local.port,
      ]);
      const send = (from: Socket, text: string) =>
        new Promise<unknown>((sent) =>
          from.send(text, local.port, local.address.toString(), sent)
        );
      await send(stranger, "forged");
      await send(peer, "answer");
      assert.equal(received(socket), "answer");
      assert.equal(received(socket), undefined);
    } finally {
      peer.close();
      stranger.close();
    }
  });
}

for (const hostname of ["127.0.0.1", "::1"]) {
  Deno.test(`DatagramSocket at ${hostname} is not filled by its peer's datagrams that begin otherwise`, async () => {
    const peer = await bound(hostname);
    const address = Address.parse(hostname);
    const { port } = peer.address();
    const prefix = encoder.encode("12345678");
    using socket = openDatagramSocket({ address, port }, { prefix });
    const { local } = socket;
    const send = (text: string) =>
      new Promise<unknown>((sent) =>
        peer.send(text, local.port, local.address.toString(), sent)
      );
    try {
      // More than the socket has room for.
      for (let i = 0; i < 2_000; i++) await send("1234567");
      for (const text of ["12340678", "02345678", ""]) await send(text);
      await send("12345678 answer");
      assert.equal(received(socket), "12345678 answer");
      assert.equal(received(socket), undefined);
    } finally {
      peer.close();
    }
  });
}

Deno.test("openDatagramSocket() throws without a route, and a closed socket is not used", () => {
  const address = Address.parse("255.255.255.255");
  assert.throws(() => openDatagramSocket({ address, port: 9 }), LinuxError);
  const peer = { address: Address.parse("127.0.0.1"), port: 9 };
  const socket = openDatagramSocket(peer);
  socket[Symbol.dispose]();
  socket[Symbol.dispose]();
  assert.throws(() => socket.receiveNow(new Uint8Array(1)), TypeError);
});

Deno.test("DatagramSocket never sends fragments where it is asked not to", async () => {
  const peer = await bound("::1");
  const end = { address: Address.parse("::1"), port: peer.address().port };
  try {
    using whole = openDatagramSocket(end, { neverFragment: true });
    using cut = openDatagramSocket(end);
    // With its headers it is larger than the loopback link's MTU, 65,536.
    const large = new Uint8Array(65_507);
    cut.sendNow(large);
    assert.throws(
      () => whole.sendNow(large),
      (error) =>
        error instanceof LinuxError && errnoName(error.errno) === "EMSGSIZE",
    );
  } finally {
    peer.close();
  }
});
