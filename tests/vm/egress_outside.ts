/**
 * The world outside, for tests of egress: run in a network namespace of its
 * own, with the addresses to listen on as arguments.
 *
 * TCP 80: one HTTP answer whose body is the address of who asks, as seen here,
 * and then as many bytes as the path says. UDP 7000: a datagram that holds a
 * number is answered by that many bytes. Prints `ready`, then serves until killed.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

async function answer(connection: Deno.Conn): Promise<void> {
  using _closed = connection;
  const request = new Uint8Array(4096);
  const length = await connection.read(request) ?? 0;
  const text = decoder.decode(request.subarray(0, length));
  const size = Number(/^GET \/(\d+)/.exec(text)?.[1] ?? 0);
  const { hostname } = connection.remoteAddr as Deno.NetAddr;
  const body = hostname + "\n" + "x".repeat(size);
  const bytes = encoder.encode(`HTTP/1.0 200 OK\r\n\r\n${body}`);
  for (let sent = 0; sent < bytes.length;) {
    sent += await connection.write(bytes.subarray(sent));
  }
}

async function serveTcp(hostname: string): Promise<void> {
  using listener = Deno.listen({ hostname, port: 80 });
  for await (const connection of listener) {
    answer(connection).catch(() => {/* the peer went away */});
  }
}

async function serveUdp(hostname: string): Promise<void> {
  const socket = Deno.listenDatagram({
    hostname,
    port: 7000,
    transport: "udp",
  });
  for await (const [data, peer] of socket) {
    const size = Number(decoder.decode(data));
    await socket.send(new Uint8Array(size).fill(120), peer).catch(
      () => {/* too large, until the path is known */},
    );
  }
}

const servers = Deno.args.flatMap((hostname) => [
  serveTcp(hostname),
  serveUdp(hostname),
]);
// deno-lint-ignore no-console -- the test waits for it
console.log("ready");
await Promise.all(servers);
