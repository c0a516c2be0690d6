/**
 * The world outside, for tests of egress: servers in a network namespace, with
 * sockets of this process, since a process of its own takes the virtual
 * machine long to start.
 *
 * TCP 80: one HTTP answer whose body is the address of who asks, as seen here,
 * and then as many bytes as the path says. UDP 7000: a datagram that holds a
 * number is answered by that many bytes.
 */
import { inNetns, type Netns } from "../../lib/linux/mod.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Serves at these addresses until it is disposed of. */
export function serveOutside(
  netns: Netns,
  addresses: readonly string[],
): AsyncDisposable {
  const open = new Set<Deno.TcpConn>();
  const sockets = addresses.map((hostname) =>
    inNetns(netns, () => ({
      tcp: Deno.listen({ hostname, port: 80 }),
      udp: Deno.listenDatagram({ hostname, port: 7000, transport: "udp" }),
    }))
  );
  const loops = sockets.flatMap(({ tcp, udp }) => [
    serveTcp(tcp, open),
    serveUdp(udp),
  ]);
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      for (const { tcp, udp } of sockets) {
        tcp.close();
        udp.close();
      }
      // Of clients that went away without a word.
      for (const connection of open) {
        open.delete(connection);
        connection.close();
      }
      await Promise.all(loops);
    },
  };
}

async function serveTcp(
  listener: Deno.TcpListener,
  open: Set<Deno.TcpConn>,
): Promise<void> {
  const answers: Promise<void>[] = [];
  for await (const connection of listener) {
    open.add(connection);
    answers.push(
      answer(connection).catch(() => {/* the peer went away */})
        .finally(() => {
          if (open.delete(connection)) connection.close();
        }),
    );
  }
  await Promise.all(answers);
}

async function answer(connection: Deno.TcpConn): Promise<void> {
  const request = new Uint8Array(4096);
  const length = await connection.read(request) ?? 0;
  const text = decoder.decode(request.subarray(0, length));
  const size = Number(/^GET \/(\d+)/.exec(text)?.[1] ?? 0);
  const body = connection.remoteAddr.hostname + "\n" + "x".repeat(size);
  const bytes = encoder.encode(`HTTP/1.0 200 OK\r\n\r\n${body}`);
  for (let sent = 0; sent < bytes.length;) {
    sent += await connection.write(bytes.subarray(sent));
  }
}

async function serveUdp(socket: Deno.DatagramConn): Promise<void> {
  for await (const [data, peer] of socket) {
    const size = Number(decoder.decode(data));
    await socket.send(new Uint8Array(size).fill(120), peer).catch(
      () => {/* too large, until the path is known */},
    );
  }
}
